#pragma once
// How far a quantized tensor is from the original, in the usual error measures.
//
// With x the original, y its dequantized value, over the pairs where both are finite:
//   SQNR in dB               10 * log10(sum x^2 / sum (y - x)^2); +Inf without error, -Inf for error without signal
//   relative error           |y - x| / |x|; for x = 0 it is 0 if y = 0, else +Inf
//   median relative error    over the pairs with x != 0 or y != 0; the mean of the middle two for an even count
// A finite x that became infinite is an error of +Inf in each. Squares and sums are doubles, added pairwise, so the
// result is the same on every machine and its own error grows with the logarithm of the count.
//
// NaN never passes: when x and y do not have their NaN, and their infinities, in the same places, the three measures
// are NaN and every `measure <= bound` is false; the counts below say why. Nothing measured gives NaN as well.
//
//   ErrorMeter meter(Format::e4m3);
//   for (...) meter.add(x, code_value * scale, code, scale);
//   meter.measures().sqnr_db
//
// Errors: Error{usage} for codes wider than their format and for E8M0 as elements.
//
// Does not promise: a verdict. These measures pass kernels with wrong scales; bits decide (docs/numerics.md).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "numerics/format/format.h"

namespace mxcheck {

// The code's place in the order of values: consecutive values differ by one, both zeros are 0, Inf follows the largest
// finite value. nullopt for NaN. Error{usage} for a code with bits beyond the format's width.
std::optional<std::int64_t> ordinal(Format format, std::uint32_t code);

// Steps between two codes' values. Any NaN is at distance 0 from any other; nullopt when only one of the two is NaN.
std::optional<std::uint64_t> ulp_distance(Format format, std::uint32_t a, std::uint32_t b);

// Sums as a balanced tree over the order of arrival: rounding error O(log n), independent of the machine.
class PairwiseSum {
 public:
  void add(double value);
  [[nodiscard]] double total() const;

 private:
  std::vector<double> partial_;  // partial_[k] holds 2^k values where bit k of count_ is set
  std::uint64_t count_ = 0;
};

struct ErrorMeasures {
  std::uint64_t count = 0;     // elements
  std::uint64_t compared = 0;  // pairs with a finite original and no NaN
  double sqnr_db = 0;
  double max_relative = 0;
  double median_relative = 0;
  std::uint64_t flushed = 0;    // finite nonzero original, code of a zero
  std::uint64_t saturated = 0;  // code of the largest magnitude, and |original / scale| beyond it
  double flushed_share = 0;     // of count; 0 for an empty tensor
  double saturated_share = 0;
  std::uint64_t nan_in_both = 0;
  std::uint64_t nan_introduced = 0;  // NaN although the original is not
  std::uint64_t nan_lost = 0;        // not NaN although the original is
  std::uint64_t infinity_lost = 0;   // the original is infinite, its value is neither that nor NaN
};

// Takes a tensor element by element. Keeps one double an element for the median.
class ErrorMeter {
 public:
  explicit ErrorMeter(Format element);  // Error{usage} for E8M0, which holds scales

  // `scale` multiplies the decoded code; it decides whether the code was saturated.
  void add(float original, float dequantized, std::uint32_t code, float scale);
  [[nodiscard]] ErrorMeasures measures() const;

 private:
  void compare(double original, double dequantized);

  Format element_;
  double largest_ = 0;
  ErrorMeasures counts_;
  PairwiseSum signal_;
  PairwiseSum noise_;
  std::vector<double> relative_;
};

}  // namespace mxcheck
