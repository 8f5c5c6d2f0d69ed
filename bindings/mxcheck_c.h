/* The reference behind plain C, for bindings of other languages: python/mxcheck is built on it.
 *
 * Matrices are row-major; codes are one a byte, e5m6 and casts to bf16 and fp16 two; FP32 scales are floats. Pointers
 * may be null where there is nothing to read or to write. Nothing is kept after a call. Calls of several threads at
 * once are fine. Outputs are written only when a call succeeds.
 *
 * Errors, a function's result: 0 none, 1 usage (an unknown name, shapes that do not fit), 2 input (a NaN that is to be
 * refused, a code wider than its format), 3 environment (no memory), 4 golden, 5 a bug in mxcheck. mxcheck_c_error has
 * the text.
 *
 * bindings/functions.inc is the table of functions and says what each does. The interface is that of one release: no
 * promise holds between two.
 */
#ifndef MXCHECK_C_H_
#define MXCHECK_C_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MXCHECK_C(name, arguments) __attribute__((visibility("default"))) int32_t name arguments;
#include "bindings/functions.inc"
#undef MXCHECK_C

/* Lines of "NAME (TYPE NAME, ...)": the table above. */
__attribute__((visibility("default"))) const char* mxcheck_c_signatures(void);

#ifdef __cplusplus
}
#endif

#endif /* MXCHECK_C_H_ */
