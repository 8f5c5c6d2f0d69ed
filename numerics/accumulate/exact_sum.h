#pragma once
// A sum of products without any rounding, and one rounding at the end: the contract `exact`.
//
// A fixed-point accumulator (Kulisch) of 1216 bits: from 2^-640, below the product of two FP32 subnormals under the two
// smallest scales, to 2^575, above 2^63 products of the largest.
//
//   ExactSum sum;
//   sum.add(false, 3, -1);   // + 3 * 2^-1
//   sum.add(true, 1, -40);   // - 2^-40
//   sum.rounded(Format::fp32) == 0x3FC00000
//
// Source: Kulisch, Computer Arithmetic and Validity (2013). Errors: Error{usage}, below.
//
// Does not promise: infinities and NaN. The caller looks for those first (numerics/accumulate/contract.h).

#include <array>
#include <cstdint>

#include "numerics/format/format.h"

namespace mxcheck {

class ExactSum {
 public:
  // Adds +-magnitude * 2^exponent. Error{usage} where that has bits below 2^-640 or reaches 2^512.
  void add(bool negative, std::uint64_t magnitude, int exponent);

  // The sum rounded once to nearest, ties to even, beyond the largest value to Inf: the code. A zero is +0. Formats
  // with infinities alone (FP32, BF16, FP16, E5M2), else Error{usage}.
  [[nodiscard]] std::uint32_t rounded(Format format) const;

 private:
  static constexpr int kLowest = -640;
  static constexpr int kWords = 19;
  std::array<std::uint64_t, kWords> words_{};  // two's complement, in units of 2^kLowest
};

}  // namespace mxcheck
