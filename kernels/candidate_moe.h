/* A whole mixture-of-experts layer behind the candidate interface (kernels/candidate.h): the operations "moe_forward"
 * and "moe_backward", each optional. docs/layer.md defines every step to the bit; the contract of both is "exact":
 * every GEMM inside is under the contract that the layer's recipe names.
 *
 *   moe_forward    in  x [rows, cols] bf16; w1 [experts * cols, 2 inner] bf16; w2 [experts * inner, cols] bf16; the
 *                      routes
 *                  out o [rows, cols] bf16; h as it is kept; for a recipe that keeps x quantized ("dsv3", ...): x as it
 *                      is kept
 *
 *   moe_backward   in  d_o [rows, cols] bf16; w1; w2; h as it was kept; x as it was kept (bf16 as it is, for a recipe
 *                      that does not quantize it); the routes
 *                  out dx [rows, cols] bf16; dw1 [experts * cols, 2 inner] fp32; dw2 [experts * inner, cols] fp32;
 *                      ds [routed] fp32
 *
 *   routes         row_token [routed] int32, the token of each row; row_weight [routed] fp32, the weight of its route;
 *                  token_offsets [rows + 1] int64, of the slots of each token; token_rows [slots] int32, the row of
 * each slot, -1 for a route that was dropped; offsets [experts + 1] int64, of the rows of each expert
 *
 *                  They agree: row r has one slot, which is one of token row_token[r], and rows of an expert are in
 *                  ascending order of tokens. What comes of others is not defined, but for the errors below.
 *
 * The kept h and x are one tensor each, or two, codes and scales:
 *
 *   h  bf16 [routed, 2 inner]; or in E5M6 ("dsv3_pow2"): kDLUInt 8 [routed, 12 * ceil(2 inner / 8)], each row packed by
 *      itself as eight codes in three little-endian 32-bit words, the first in the highest bits (the row's last group
 *      ends with zeros), and E8M0 scales kDLUInt 8 [routed, ceil(2 inner / 128)]
 *   x  bf16 [rows, cols]; or E4M3 codes kDLUInt 8 [rows, cols] and scales [rows, ceil(cols / 128)], kDLFloat 32 or, for
 *      recipes of powers of two, kDLUInt 8
 *
 * Tensors come in this order, all contiguous; an expert's matrices lie one below the other. Any NaN equals any other in
 * outputs of bf16 and fp32.
 *
 * policy.rows and policy.cols are tokens and d; policy.recipe is the name of the layer's recipe, policy.format "",
 * blocks 0 x 0, the layout MXCHECK_COMPACT.
 *
 * Recipes that round gradients stochastically ("nvfp4", "nvfp4_backward", "nvfp4_46", "quartet2") take their random
 * words from seed, step and layer: that of element i of an operand (row-major, as it is quantized) is the first word of
 * Philox4x32-10 under the key seed (low half first) and the counter (i mod 2^32, i / 2^32, 2^31 + layer * 2^8 +
 * operand, step mod 2^32). Operands are numbered up X 0, W1 1, down A 2, W2 3, d_down dO 4, W2 5, d_up dH 6, W1 7, d_w2
 * A' 8, dO 9, d_w1 X 10, dH 11. "quartet2" draws the signs of its rotations so too: words 0 to 3 of the numbers 16 to
 * 21, of up to d_w1 in docs/layer.md's order of GEMMs. Other recipes ignore them.
 *
 * Wrong, beside what candidate.h says: extents that are negative; another value of gate_up than those stated; a layer
 * of 65536 or more.
 * UNSUPPORTED from run, nothing written, may be widths (cols, inner) that are no multiple of 128, and matrices that are
 * not at multiples of 16 bytes: all tensors but scales, ds and the routes.
 *
 * Errors that only the device can detect (offsets and token_offsets that descend or do not go from 0 to routed, to the
 * number of slots; values of row_token and token_rows out of range) go to call->report as MXCHECK_INVALID with the
 * first place and the value; nothing is written then. Host libraries return MXCHECK_INVALID.
 */
#ifndef MXCHECK_CANDIDATE_MOE_H_
#define MXCHECK_CANDIDATE_MOE_H_

#include "kernels/candidate.h"
#include "kernels/candidate_layer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* call->policy of both points to the first member, whose size is that of this struct. */
typedef struct mxcheck_moe_policy {
  mxcheck_policy policy;
  int64_t inner;   /* n: A has n columns, H 2 n */
  int64_t experts; /* offsets have one value more */
  int64_t routed;  /* rows of all experts */
  int32_t gate_up; /* mxcheck_gate_up, of h and of w1's columns */
  uint32_t layer;  /* of the random words, as seed and step */
  uint64_t step;
  uint64_t seed;
} mxcheck_moe_policy;

#ifdef __cplusplus
}
#endif

#endif /* MXCHECK_CANDIDATE_MOE_H_ */
