#pragma once
// Outputs whose sums are computed to the last bit, block of k by block: the second and third way of exact_tile.h.
//
//   ExactBlocks blocks(a, b, k);
//   blocks.start(row, panel);      // rows from there on by a panel of b
//   blocks.want(0, 3, c);          // row + 0, lane 3, and what the sum starts from
//   blocks.compute();
//   blocks.word(0, 3)              // the FP32 word
//
// Needs rounding to nearest, subnormals kept, and finite values where outputs are wanted. Internal.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "numerics/accumulate/exact_sum.h"
#include "reference/accumulate/exact_rows.h"
#include "reference/accumulate/operand.h"

namespace mxcheck::detail {

// A finite double that is not 0: +-significand * 2^exponent, the significand odd.
struct OddSignificand {
  explicit OddSignificand(double x) {
    const auto word = std::bit_cast<std::uint64_t>(x);
    significand = (word & ((std::uint64_t{1} << 52) - 1)) | std::uint64_t{1} << 52;
    const int trailing = std::countr_zero(significand);
    significand >>= trailing;
    exponent = static_cast<int>(word >> 52 & 0x7FF) - 1075 + trailing;
    negative = word >> 63 != 0;
  }
  std::uint64_t significand;
  int exponent;
  bool negative;
};

class ExactBlocks {
 public:
  static constexpr std::size_t kRows = 16;  // that share a block of b's panel while it is in L1
  static constexpr std::size_t kLanes = ExactRows::kPanel;

  ExactBlocks(const ExactRows& a, const ExactRows& b, Extent k) : a_(a), b_(b), k_(k) {}

  void start(std::int64_t row, std::int64_t panel);
  void want(std::size_t row, std::size_t lane, double c);
  void compute();
  [[nodiscard]] bool wants(std::size_t row, std::size_t lane) const { return (wanted_[row] >> lane & 1) != 0; }
  [[nodiscard]] std::uint32_t word(std::size_t row, std::size_t lane) const {
    return sums_[row][lane].rounded(Format::fp32);
  }

 private:
  void add_block(std::size_t row, Extent k);

  const ExactRows& a_;
  const ExactRows& b_;
  const Extent k_;
  std::int64_t first_row_ = 0;
  std::int64_t panel_ = 0;
  std::array<std::uint32_t, kRows> wanted_{};  // a bit a lane
  std::array<std::array<ExactSum, kLanes>, kRows> sums_{};
};

}  // namespace mxcheck::detail
