/* The reference behind plain C, for bindings of other languages: python/mxcheck is built on it.
 *
 * Matrices are row-major; codes are one a byte, e5m6 and casts to bf16 and fp16 two; FP32 scales are floats. Pointers
 * may be null where there is nothing to read or to write. Nothing is kept after a call. Calls of several threads at
 * once are fine. Outputs are written only when a call succeeds; after error 5 they may hold anything.
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

/* An operand of a product: codes as they were quantized, rows x cols without gaps, with compact scales. `size` is
 * sizeof. The sum runs over the columns, or over the rows where `transposed` is not 0. block: a name or ROWSxCOLS of
 * the memory's rows and columns; "none" without scales (then scale_type, scales and scale_cols are not looked at).
 * scale_cols: scales from one row of blocks to the next. */
typedef struct mxcheck_c_operand {
  int64_t size;
  const char* format;
  const void* codes;
  int64_t rows;
  int64_t cols;
  const char* block;
  const char* scale_type; /* "e8m0", "e4m3" (UE4M3) or "fp32" */
  const void* scales;
  int64_t scale_cols;
  int64_t transposed;
} mxcheck_c_operand;

/* D = alpha A B^T + C: reference/matmul/matmul.h. groups: "none", "rows" (b holds a matrix for each expert, one below
 * the other) or "depth" (both operands transposed; D is a matrix for each expert), with experts + 1 offsets. */
typedef struct mxcheck_c_product {
  int64_t size;
  const char* contract;
  const mxcheck_c_operand* a;
  const mxcheck_c_operand* b;
  const char* groups;
  const int64_t* offsets;
  int64_t offset_count;
  const void* c;      /* of D's type and shape, or null */
  const char* output; /* "fp32", "bf16" or "fp16": D's type */
  int64_t threads;    /* 0 for the machine's */
  double alpha;       /* an FP32 number */
} mxcheck_c_product;

/* A router: reference/router/router.h. */
typedef struct mxcheck_c_router {
  int64_t size;
  const char* variant;
  int64_t top_k;
  int64_t groups; /* 0: no groups */
  int64_t groups_kept;
  const char* nan;   /* "refuse" or "last" */
  const float* bias; /* a number for each expert, or null */
  const char* from;  /* the logits' type: "fp32", "bf16" or "fp16" */
  const void* logits;
  int64_t tokens;
  int64_t experts;
  int64_t row_stride; /* elements */
  int64_t threads;
  double scale; /* an FP32 number */
} mxcheck_c_router;

/* The fate of token choice: reference/router/token_rounding.h. */
typedef struct mxcheck_c_rounding {
  int64_t size;
  const char* rule;
  int64_t tile;
  int64_t capacity;
  int64_t renormalize; /* 1: weights over the kept experts of a token; 0: the raw scores */
  uint64_t seed;       /* of sr-f, with step and layer */
  uint64_t step;
  int64_t layer;
} mxcheck_c_rounding;

#define MXCHECK_C(name, arguments) __attribute__((visibility("default"))) int32_t name arguments;
#include "bindings/functions.inc"
#undef MXCHECK_C

/* Lines of "NAME (TYPE NAME, ...)": the table above. */
__attribute__((visibility("default"))) const char* mxcheck_c_signatures(void);

#ifdef __cplusplus
}
#endif

#endif /* MXCHECK_C_H_ */
