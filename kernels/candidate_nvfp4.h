/* NVFP4 behind the candidate interface, beside kernels/candidate.h: GEMMs of NVFP4 operands, and quantize_nvfp4 with
 * stochastic rounding, a random Hadamard transform, and both directions from one read.
 *
 * GEMMs. "matmul" (kernels/candidate_matmul.h) whose policy has the scale type MXCHECK_E4M3. Both operands are "e2m1",
 * and blocks are 1 x 16.
 *
 *   in   a  codes [m, ceil(k / 2)]; a byte holds two codes, that of the even k in the low nibble
 *        b  codes [n, ceil(k / 2)]; groups along rows: [experts * n, ceil(k / 2)]
 *        scales of a, scales of b    E4M3 bytes (kDLUInt 8), compact: [rows, ceil(k / 16)], as candidate_matmul.h says
 *                                    of groups
 *
 * The last byte of a row of odd k has a high nibble that holds anything.
 *
 * A scale byte's sign counts for nothing: 0xB8 is 1, as tensor cores read UE4M3. The bytes 0x7F and 0xFF are NaN, and
 * their block's products are NaN with them. The scales of the two tensors are no tensors here: a caller multiplies
 * them, s_a * s_b in FP32, into alpha.
 *
 * Contracts that have such operands: those with "+decode", where an operand's value, code * scale, has six significant
 * bits and is exact in BF16 ("sm90_bf16+decode"), and those whose tensor core takes UE4M3 scales ("sm100_nvf4").
 *
 * UNSUPPORTED from run, nothing written, is for what candidate_matmul.h says.
 *
 * quantize_nvfp4 with options. A library whose table has quantize_nvfp4 under the contract "exact+options" is called
 * with a mxcheck_nvfp4_policy where a call asks for an option, and with a mxcheck_policy, told by its size, where it
 * asks for none. supports() says which options it takes. A library under the contract "exact" is never asked for any.
 *
 *   in   x [rows, cols], tensor_scale fp32 [1]; with both directions column_tensor_scale fp32 [1]; optionally offsets
 *        and a row index (neither with both directions)
 *   out  codes uint8 [rows, ceil(cols / 2)], scales; with both directions also
 *        column codes uint8 [cols, ceil(rows / 2)], column scales: of the transposed matrix
 *
 * Row index. The matrix that is transformed and quantized is the gathered one, whose row i is row index[i] of x; the
 * numbers of its elements are those that its words belong to.
 *
 * Stochastic rounding. Element i of the quantized matrix (row-major, without gaps, i = row * cols + col, experts
 * included) has the word that is the first output of Philox4x32-10 under the key `seed` (low half first) and the
 * counter (n mod 2^32, n / 2^32, counter[0], counter[1]), n = i + offset modulo 2^64. The word is added to the first 32
 * bits of the fraction that is discarded from the magnitude of the FP32 quotient; a carry rounds away from zero. Beyond
 * 6 codes saturate. Block scales are rounded to nearest, as ever. A caller that quantizes a part of a matrix from its
 * element k on gives offset + k where the part has whole rows.
 *
 * Stochastic rounding by bytes. One call of Philox has the words of 16 elements, one word for four. n is as above; the
 * counter is (n' mod 2^32, n' / 2^32, counter[0], counter[1]) with n' = n / 16, the quotient without its fraction.
 * Output (n mod 16) / 4 is the word of the element's four, and byte k of it the element's: k is 0, 2, 1, 3 where n mod
 * 4 is 0, 1, 2, 3, and byte 0 is bits 7..0. The byte is added to the first eight bits of the discarded fraction: 2^24
 * times the byte is the element's word in the sense above. An element so rounds away from zero under floor(256 f) of
 * the 256 bytes, f the discarded fraction. The order of the bytes is that in which PTX's cvt.rs.satfinite.e2m1x4.f32
 * takes its random bits, as its documentation reads with element 0 in the lowest nibble; no card has confirmed it.
 *
 * Hadamard transform. Before anything else each group of `hadamard` consecutive elements of a row becomes y_j = c * sum
 * of (-1)^popcount(i & j) * s_i * x_i, c = 1 / sqrt(hadamard), rounded to `hadamard_result`; s_i is -1 where bit i % 32
 * of signs[i / 32] is set. The order and the roundings of the sum are those of reference/quantize/hadamard.h that
 * `hadamard_sum` names: "exact", "butterfly", or the contract of a GEMM in BF16, as "sm90_bf16". Scales and codes are
 * those of y; tensor_scale is that of y too. cols is a multiple of `hadamard`.
 *
 * Both directions. The rows are quantized as they are, without the transform. The transposed matrix [cols, rows] is
 * transformed along its own rows (rows is a multiple of `hadamard`) and quantized in blocks of the same shape and
 * scales of the same layout; `recipe`, `rounding` and `seed` hold for both. Its element i = col * rows + row has the
 * word of the counter words column_counter. column_tensor_scale is the scale of the transposed matrix after its
 * transform.
 *
 * Wrong, beside what kernels/candidate.h says: a policy that is larger than mxcheck_policy and smaller than this one;
 * values of the fields that are not stated here; bits of signs from `hadamard` on; cols, or rows, that are no multiple;
 * offsets or a row index with both directions.
 *
 * A header of its own, so that the recorded sources of libraries that have none of this stay as they are.
 */
#ifndef MXCHECK_CANDIDATE_NVFP4_H_
#define MXCHECK_CANDIDATE_NVFP4_H_

#include "kernels/candidate.h"
#include "kernels/candidate_matmul.h"

#define MXCHECK_NVFP4_OPTIONS_CONTRACT "exact+options"

/* A value of mxcheck_matmul_policy.scale_type, after those of mxcheck_scale_type. */
enum { MXCHECK_E4M3 = 3 };

typedef enum mxcheck_rounding {
  MXCHECK_NEAREST = 0,
  MXCHECK_STOCHASTIC = 1,
  MXCHECK_STOCHASTIC_BYTES = 2
} mxcheck_rounding;
typedef enum mxcheck_hadamard_result { MXCHECK_HADAMARD_BF16 = 0, MXCHECK_HADAMARD_FP32 = 1 } mxcheck_hadamard_result;
typedef enum mxcheck_directions { MXCHECK_ROW_DIRECTION = 0, MXCHECK_BOTH_DIRECTIONS = 1 } mxcheck_directions;

/* The policy of quantize_nvfp4 with options; base.size is its size. Fields without a meaning for a call are 0 or "". */
typedef struct mxcheck_nvfp4_policy {
  mxcheck_policy base;
  int32_t rounding;         /* mxcheck_rounding, of codes */
  int32_t hadamard;         /* 0 for no transform, or the group: 16, 32, 64, 128 */
  const char* hadamard_sum; /* "exact", "butterfly", or a contract; "" without a transform */
  int32_t hadamard_result;  /* mxcheck_hadamard_result: the type that is quantized */
  int32_t directions;       /* mxcheck_directions */
  uint32_t signs[4];
  uint64_t seed; /* stochastic rounding, by either kind of words: Philox's key */
  uint64_t offset;
  uint32_t counter[2]; /* the third and the fourth word of the counter */
  uint32_t column_counter[2];
} mxcheck_nvfp4_policy;

#endif /* MXCHECK_CANDIDATE_NVFP4_H_ */
