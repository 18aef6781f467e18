/* A native library with one tool, in C.
 *
 *     cc -shared -fPIC -O2 -Wall -Wextra -o libsums.so sums.c
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "treadle.h"

static const char TOOLS[] =
    "[{\"name\": \"add\", \"description\": \"Add two numbers.\", \"parameters\": {"
    "  \"type\": \"object\","
    "  \"properties\": {\"a\": {\"type\": \"number\"}, \"b\": {\"type\": \"number\"}},"
    "  \"required\": [\"a\", \"b\"],"
    "  \"additionalProperties\": false"
    "}}]";

/* The schema allows two numbers and nothing else, so a key can stand only where it belongs. */
static double number(const char *arguments, const char *key) {
    const char *at = strstr(arguments, key);
    return at == NULL ? 0 : strtod(strchr(at, ':') + 1, NULL);
}

static char *copy(const char *text) {
    char *copied = malloc(strlen(text) + 1);
    return copied == NULL ? NULL : strcpy(copied, text);
}

uint32_t treadle_abi_version(void) { return TREADLE_ABI_VERSION; }

char *treadle_tools(void) { return copy(TOOLS); }

char *treadle_call(const char *name, const char *arguments, const char *context) {
    char answer[128];
    (void)context;
    if (strcmp(name, "add") != 0) return copy("{\"error\": \"There is no such tool.\"}");
    double sum = number(arguments, "\"a\"") + number(arguments, "\"b\"");
    if (sum - sum != 0) return copy("{\"error\": \"The sum is too large for a number.\"}");
    snprintf(answer, sizeof answer, "{\"result\": %.17g}", sum);
    return copy(answer);
}

void treadle_free(char *text) { free(text); }
