/* A library that misbehaves in every way that its tools' names say. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int calls = 0;

static char *copy(const char *text) { return strdup(text); }

uint32_t treadle_abi_version(void) { return 1; }

char *treadle_tools(void) {
    static const char *names[] = {"segfault", "leave", "abort", "hang", "smash", "null", "text",
                                  "bare", "refuse", "count", "print", "context", "pid", "pictures"};
    char *out = malloc(8192), *at = out;
    at += sprintf(at, "[");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        at += sprintf(at, "%s{\"name\": \"%s\", \"description\": \"Does so.\"}", i ? "," : "", names[i]);
    sprintf(at, "]");
    return out;
}

char *treadle_call(const char *name, const char *arguments, const char *context) {
    char answer[4096];
    (void)arguments;
    calls++;
    if (!strcmp(name, "segfault")) *(volatile int *)8 = 1;
    if (!strcmp(name, "leave")) exit(7);
    if (!strcmp(name, "abort")) abort();
    if (!strcmp(name, "hang")) {
        signal(SIGTERM, SIG_IGN);
        for (;;) sleep(1000);
    }
    if (!strcmp(name, "smash")) {
        char *block = malloc(16);
        memset(block - 64, 0xff, 4096);
        free(block);
        free(block);
    }
    if (!strcmp(name, "null")) return NULL;
    if (!strcmp(name, "text")) return copy("no \xff JSON");
    if (!strcmp(name, "bare")) return copy("[1]");
    if (!strcmp(name, "refuse")) return copy("{\"error\": \"Not on Sundays.\"}");
    if (!strcmp(name, "print")) {
        printf("{\"result\": \"forged\"}\n");
        fflush(stdout);
        return copy("{\"result\": \"printed\"}");
    }
    if (!strcmp(name, "context")) {
        snprintf(answer, sizeof answer, "{\"result\": %s}", context);
        return copy(answer);
    }
    if (!strcmp(name, "pictures"))
        return copy("{\"result\": {\"n\": 2}, \"images\": ["
                    "{\"media_type\": \"image/png\", \"data\": \"iVBORw0KGgo=\"},"
                    "{\"url\": \"https://x.example/a.png\", \"detail\": \"low\"},"
                    "{\"media_type\": \"image/png\"}]}");
    snprintf(answer, sizeof answer, "{\"result\": {\"calls\": %d, \"pid\": %d}}", calls, getpid());
    return copy(answer);
}

void treadle_free(char *text) { free(text); }
