#pragma once
// Sums of products that are rounded once, over tiles of outputs: the contract `exact`, to the bit what ExactSum
// (numerics/accumulate/exact_sum.h) gives for each output.
//
//   ExactRows a(m, k), b(n, k);                      // and set_row() of each
//   std::vector<std::uint32_t> acc(m * n);           // c: FP32 words, here zeros
//   exact_tile(a, {0, m}, b, {0, n}, {0, k}, acc.data(), n);
//
// Each output is decided by the first of three ways that can:
//
// 1. A dot product s of doubles, with a bound on its error. Every 256 of k are summed apart by fused multiply-adds (or
//    products and sums), then the sums, so that a term is rounded at most m = min(n, 256) + 1 + ceil(n / 256) times.
//    With u = 2^-53
//      |s - exact| <= gamma_m (|c| + sum |a_k b_k|),  gamma_m = mu / (1 - mu)
//    (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1). By Cauchy and Schwarz sum |a_k
//    b_k| is at most the product of the rows' norms; call |c| plus that M. Where both ends of [s - e, s + e] round to
//    one FP32 word, that is the exact sum's, as rounding is monotonic. e = (m + 2) 2^-52 M is twice what the formula
//    asks for and 4 u M more: that covers the roundings of M, of e and of the two ends, which are below 2 u M and a few
//    millionths of e.
//    If every product, and c, is a multiple of q, then so is every partial sum; and if 2 M <= 2^53 q, no partial sum
//    needs more than 53 bits: nothing was rounded, e is 0, and ties are decided too. So it is for most FP8 data.
//
// 2. Blocked fixed point: the sums of 256 products each as two doubles, both exact, added in an ExactSum. Let products
//    of the block be below 2^t and multiples of 2^q. With sigma = 1.5 * 2^(t + 9), whose last bit is worth U =
//    2^(t - 43), h = (a_k b_k + sigma) - sigma is a_k b_k rounded to a multiple of U (the sum stays between 2^(t + 9)
//    and 2^(t + 10), where doubles are the multiples of U, and the subtraction is exact), and l = a_k b_k - h is at
//    most U / 2 and a multiple of 2^q.
//      sum |h| <= 256 (2^t + U / 2) < 2^53 U: the sum of h is exact.
//      sum |l| <= 2^7 U = 2^(t - 36) <= 2^53 2^q if t - q <= 89: every l is a double, and their sum is exact.
//    (The extraction is that of Rump, Ogita and Oishi, Accurate Floating-Point Summation, 2008, with a sigma fixed
//    before; without fused multiply-add a_k b_k must be a double.)
//
// 3. Blocks for which t - q > 89: product by product into the ExactSum.
//
// NaN and infinities are doubles' own, in the first way. All is computed with rounding to nearest and without flushing
// subnormals, whatever the caller has set.
//
// Does not promise: speed where 3 decides: 10^8 products a second. 1 does 10^10, 2 a third of that (AVX-512).

#include <cstdint>

#include "reference/accumulate/exact_rows.h"
#include "reference/accumulate/operand.h"

namespace mxcheck {

// acc[i * ld + j], of a's row rows.begin + i and b's row cols.begin + j, is the sum of the products of k and of what
// acc holds, rounded to nearest even. NaN is 0x7FFFFFFF, a zero +0. Extents are within the operands, whose k is one.
// Several threads may work on different tiles at once.
void exact_tile(const ExactRows& a, Extent rows, const ExactRows& b, Extent cols, Extent k, std::uint32_t* acc,
                std::int64_t ld);

}  // namespace mxcheck
