/* GEMMs of NVFP4 operands behind the candidate interface: "matmul" (kernels/candidate_matmul.h) whose policy has the
 * scale type MXCHECK_E4M3. Both operands are "e2m1", and blocks are 1 x 16.
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
 * A header of its own, so that the recorded sources of libraries that have no such operands stay as they are.
 */
#ifndef MXCHECK_CANDIDATE_NVFP4_H_
#define MXCHECK_CANDIDATE_NVFP4_H_

#include "kernels/candidate_matmul.h"

/* A value of mxcheck_matmul_policy.scale_type, after those of mxcheck_scale_type. */
enum { MXCHECK_E4M3 = 3 };

#endif /* MXCHECK_CANDIDATE_NVFP4_H_ */
