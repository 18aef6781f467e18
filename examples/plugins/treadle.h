/* The interface between Treadle and native libraries, version 1.
 *
 * All texts are UTF-8, end in a NUL byte, and hold JSON where that is said.
 *
 * Memory: texts that are passed in belong to the caller, and are gone after the call; copy what
 * must last. Texts that a library returns belong to the library: the caller copies them and gives
 * each back, once, with treadle_free(), before it calls again.
 *
 * A library runs in child processes, one call at a time in each: it needs no locks, and its
 * variables last as long as its process. A process may be killed at any moment, by a timeout for
 * example; whatever must not be lost has to be on disk. Standard output and standard error lead to
 * those of the program.
 */
#ifndef TREADLE_H
#define TREADLE_H

#include <stdint.h>

#define TREADLE_ABI_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

/* Returns TREADLE_ABI_VERSION. Called before anything else. */
uint32_t treadle_abi_version(void);

/* Returns the tools: a JSON array of
 *     {"name": "...", "description": "...", "parameters": {a JSON Schema of an object}}
 */
char *treadle_tools(void);

/* Runs one call of the tool `name`.
 *
 * `arguments` is a JSON object that fits the tool's schema. `context` is a JSON object: "run_id",
 * "conversation_id", "call_id", "agent", "idempotency_key" (texts), "attempt" (a number, from 1),
 * and "metadata" (an object with what the caller allows to be sent).
 *
 * Returns a JSON object, one of
 *     {"result": any JSON value}            a string is shown to the model as it is
 *     {"error": "a text for the model"}
 * A result may come with "images": an array of {"media_type": "image/png", "data": "base64"} or
 * {"url": "https://...", "detail": "low"}.
 */
char *treadle_call(const char *name, const char *arguments, const char *context);

/* Takes back a text that treadle_tools() or treadle_call() returned. */
void treadle_free(char *text);

#ifdef __cplusplus
}
#endif

#endif
