/* Elementwise steps of a mixture-of-experts layer behind the candidate interface (kernels/candidate.h): the operations
 * "swiglu", "swiglu_backward", "aggregate" and "quantize_transposed", each optional. docs/layer.md defines every step
 * to the bit; the contract of all four is "exact". Of the first three it may be "any_order" or
 * "as_accurate_as:exact", where no bits are promised (docs/contracts.md); of swiglu and swiglu_backward
 * "any_order+tanh" too.
 *
 *   swiglu               in  h; offsets [experts + 1] int64, optional
 *                        out MXCHECK_VALUES         a [rows, n] bf16
 *                            MXCHECK_ROWS_CODED     codes of a [rows, n], scales
 *                            MXCHECK_COLUMNS_CODED  transposed codes of a [n, rows], scales
 *
 *   swiglu_backward      in  h; p [rows, n] fp32, the gradient of A before the weight; weights [rows] fp32, of the
 *                            routes; offsets [experts + 1] int64, optional
 *                        out always                 ds [rows] fp32
 *                            MXCHECK_VALUES         scaled_a [rows, n] bf16; dh [rows, 2 n] bf16
 *                            MXCHECK_ROWS_CODED     codes of dh [rows, 2 n], scales
 *                            MXCHECK_COLUMNS_CODED  transposed codes of scaled_a [n, rows], scales;
 *                                                   transposed codes of dh [2 n, rows], scales
 *
 *   aggregate            in  y [y rows, cols] bf16; weights [y rows] fp32 where policy.weighted; token_offsets
 *                            [rows + 1] int64, of the slots of each token; token_rows [slots] int32: the row of y of
 *                            each slot, -1 for a route that was dropped
 *                        out o [rows, cols] bf16
 *
 *   quantize_transposed  in  x [x rows, cols] bf16 or fp32 (row stride allowed); offsets [experts + 1] int64,
 *                            optional; row index [rows] int32, optional: row i of the matrix is row index[i] of x
 *                        out transposed codes [cols, rows], scales
 *
 * h is [rows, 2 n] bf16 (row stride allowed; policy.format_h ""), or codes [rows, 2 n] and E8M0 scales [rows,
 * ceil(2 n / 32)] of blocks 1 x 32, two inputs, which stand for code * scale.
 *
 * Outputs come in the order of this list, those of policy.outputs alone; a group's codes and scales are neighbours.
 * Codes are those of the values in BF16 as docs/layer.md rounds them. Scales of rows are [rows, ceil(cols / b)] for
 * blocks 1 x b of policy.block_cols; of transposed codes [cols, sum over experts of ceil(rows_e / b)], blocks of b rows
 * that start again at each expert: what "matmul" reads with groups along depth (kernels/candidate_matmul.h). Scales are
 * kDLUInt 8 (E8M0), or kDLFloat 32 for a recipe that has FP32 scales ("fp32"). Compact; all tensors but h and x are
 * contiguous. ds of a row without columns is +0. In bf16 and fp32 outputs any NaN equals any other.
 *
 * policy.rows and policy.cols: of swiglu and swiglu_backward rows and n; of aggregate tokens and columns; of
 * quantize_transposed those of the matrix that is quantized. policy.block_rows is 1, of aggregate and of MXCHECK_VALUES
 * alone 0 with block_cols 0, format "" and recipe ""; of quantize_transposed the block is b x 1.
 *
 * Wrong, beside what candidate.h says: other values than those stated, and of format_scaled than "" where nothing
 * transposed is written; another layout than MXCHECK_COMPACT.
 *
 * Errors that only the device can detect (offsets and token_offsets that descend or do not go from 0 to rows, to the
 * number of slots; a row index or a row of token_rows out of range) go to call->report as MXCHECK_INVALID with the
 * first place and the value; nothing is written then. Host libraries return MXCHECK_INVALID.
 */
#ifndef MXCHECK_CANDIDATE_LAYER_H_
#define MXCHECK_CANDIDATE_LAYER_H_

#include "kernels/candidate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where a row of 2 n columns has gate and up value of j: at j and n + j, or at 2 j and 2 j + 1. */
typedef enum mxcheck_gate_up { MXCHECK_HALVES = 0, MXCHECK_INTERLEAVED = 1 } mxcheck_gate_up;

typedef enum mxcheck_written { MXCHECK_VALUES = 1, MXCHECK_ROWS_CODED = 2, MXCHECK_COLUMNS_CODED = 4 } mxcheck_written;

/* call->policy of swiglu and swiglu_backward points to the first member, whose size is that of this struct. */
typedef struct mxcheck_swiglu_policy {
  mxcheck_policy policy;     /* format, recipe and blocks (1 x 32, 1 x 128) of the codes of a, of dh */
  const char* format_h;      /* "" for bf16, else the format of h's codes */
  const char* format_scaled; /* swiglu_backward with MXCHECK_COLUMNS_CODED: of scaled_a's codes; else "" */
  int32_t gate_up;           /* mxcheck_gate_up, of h and dh */
  int32_t outputs;           /* mxcheck_written, or several of them added up; never 0 */
} mxcheck_swiglu_policy;

/* call->policy of aggregate. */
typedef struct mxcheck_aggregate_policy {
  mxcheck_policy policy;
  int32_t weighted; /* 1: acc = fma(weight of the row, y, acc), as for O; 0: acc = acc + y, as for dX */
} mxcheck_aggregate_policy;

#ifdef __cplusplus
}
#endif

#endif /* MXCHECK_CANDIDATE_LAYER_H_ */
