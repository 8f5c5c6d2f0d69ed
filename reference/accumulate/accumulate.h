#pragma once
// Chains of a contract's steps over tiles of outputs, to the bit what numerics' accumulate() gives for each output.
//
//   const PackedOperand a(contract, Format::e4m3, {a_codes, m, k, k});
//   const PackedOperand b(contract, Format::e4m3, {b_codes, n, k, k});  // row j of b is column j of D
//   std::vector<std::uint32_t> acc(m * n);                              // c: FP32 words, here zeros
//   accumulate_tile(a, {0, m}, b, {0, n}, {0, k}, acc.data(), n);
//
// Contracts for which runs_on_engine() is true run on a SIMD engine: 10^10 products a second and core with AVX-512. It
// falls back to the plain model for steps that it cannot compute exactly (NaN, Inf, results near the ends of FP32's
// range, sums beyond 31 bits, codes of BF16 and TF32 very far apart). `exact` runs on the dot products of exact_tile.h,
// all other contracts on the plain model.
//
// Errors: Error{usage}, below.
//
// Does not promise: speed where that happens. The plain model does 10^8 products a second.

#include <cstdint>

#include "reference/accumulate/operand.h"

namespace mxcheck {

// acc[i * ld + j], of a's row rows.begin + i and b's row cols.begin + j, is the chain over the products of k that
// starts from the value in acc. Bits as in accumulate(). k begins at a multiple of the contract's step and of
// scale_terms, and ends at one or at the end of K. Several threads may work on different tiles at once.
// Error{usage} for operands that do not belong together, and for extents outside them.
void accumulate_tile(const PackedOperand& a, Extent rows, const PackedOperand& b, Extent cols, Extent k,
                     std::uint32_t* acc, std::int64_t ld);

}  // namespace mxcheck
