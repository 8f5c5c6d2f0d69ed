#pragma once
// The effect of one recipe on one tensor: the error, flushed and saturated elements, and the scales used.
//
// The error is that of numerics/measure/measures.h between the input and dequantize(quantize(input)), in FP32, element
// by element in row-major order. Blocks are those of quantize (reference/quantize/quantize.h), those at an edge too.
//
// NaN and Inf follow the measures' rules: a NaN or Inf that quantization moves or spreads makes the three measures NaN,
// and the counts in `error` say why. Threads (0: the machine's) change nothing but the time.
//
// Example: study(view, Format::e4m3, {1, 32}, recipe_named("rceil")).error.sqnr_db
//
// Errors: those of quantize; Error{usage} for a matrix without elements.
// Does not promise: a verdict (docs/numerics.md).

#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "numerics/measure/measures.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {

// Counts different FP32 scales among any number of them: a bit for each of the 2^32 floats, in pages of one sign and
// exponent that are made when a scale falls into them. A tensor's scales lie in few exponents: some MiB.
class ScaleSet {
 public:
  void add(float scale) {
    const auto bits = std::bit_cast<std::uint32_t>(scale);
    std::vector<bool>& page = pages_[bits >> kPage];
    if (page.empty()) page.resize(std::size_t{1} << kPage);
    auto bit = page[bits & ((std::uint32_t{1} << kPage) - 1)];
    count_ += bit ? 0 : 1;
    bit = true;
  }
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  static constexpr int kPage = 23;
  std::map<std::uint32_t, std::vector<bool>> pages_;
  std::uint64_t count_ = 0;
};

struct Study {
  ErrorMeasures error;
  std::uint64_t nonzero = 0;         // inputs that are neither zero nor NaN; Inf counts
  double zeroed_share = 0;           // error.flushed of the finite nonzero inputs; 0 where there are none
  std::uint64_t blocks = 0;          // all of them
  std::uint64_t zero_blocks = 0;     // every input is a zero
  std::uint64_t dead_blocks = 0;     // some inputs are nonzero, and all of those have the value of a zero
  std::uint64_t clamped_blocks = 0;  // 0 < amax < recipe.amax_min
  float amax_lowest = 0;             // over the blocks with a nonzero amax; 0 where there are none
  float amax_highest = 0;
  std::uint64_t distinct_scales = 0;
  // Blocks by E8M0 or E4M3 byte (two levels: the block's scale). FP32 scales count under their exponent field: the byte
  // of the power of two at or below them.
  std::array<std::uint64_t, 256> scales{};
};

Study study(const MatrixView& input, Format element, BlockShape block, const Recipe& recipe, int threads = 0);

// The same of a matrix that comes in panels, in several passes over it, in memory that does not grow with it:
//
//   StudyMeter meter(Format::e4m3, {1, 32}, recipe);
//   do {
//     for (panel : panels in the order of their rows) meter.add(meter.measure(panel, quantized panel));
//   } while (!meter.finish_pass());
//   meter.study();
class StudyMeter {
 public:
  // A panel's share: made by any thread.
  struct Part {
    ErrorMeter::Part error;
    Study counts;
    std::uint64_t finite_nonzero = 0;
    std::vector<float> distinct_scales;  // FP32 scales; others are counted by their byte
  };
  // Facts of one block, gathered while its rows pass by.
  struct BlockTally {
    float amax = 0;  // above 0 where an input is neither zero nor NaN
    bool has_nan = false;
    bool has_survivor = false;
  };

  StudyMeter(Format element, BlockShape block, const Recipe& recipe);
  // Before the first pass: a sample's median_relative, which may save a pass. NaN for none.
  void expect_median(double relative) { error_.expect_median(relative); }

  // Rows of blocks [at, end) of q, which is `input` quantized. input.first_row says where in the matrix they begin.
  [[nodiscard]] Part measure(const MatrixView& input, const QuantizedTensor& q, std::size_t at, std::size_t end) const;
  [[nodiscard]] Part measure(const MatrixView& input, const QuantizedTensor& q) const;
  void add(const Part& part);  // in the order of rows
  bool finish_pass();          // whether study() is complete. Error{usage} when a pass brought other values
  [[nodiscard]] Study study() const;

 private:
  void measure_row(const QuantizedTensor& q, std::size_t row_of_blocks, std::int64_t r, std::span<const float> row,
                   std::span<float> back, Part& part, std::vector<BlockTally>& blocks) const;

  BlockShape block_;
  float amax_min_;
  std::vector<double> values_;       // of every code
  std::vector<std::uint8_t> kinds_;  // of every code: kZero, kLargest
  std::vector<std::uint8_t> zeros_;  // the same below a scale of 0
  double largest_ = 0;
  ErrorMeter error_;
  Study counts_;
  std::uint64_t finite_nonzero_ = 0;
  ScaleSet distinct_;
};

}  // namespace mxcheck
