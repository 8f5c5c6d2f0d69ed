#pragma once
// Usual measures of the error of a quantized tensor against the original.
//
// With x the original, y its dequantized value, over the pairs where both are finite:
//   SQNR in dB               10 * log10(sum x^2 / sum (y - x)^2); +Inf without error, -Inf for error without signal
//   relative error           |y - x| / |x|; for x = 0 it is 0 if y = 0, else +Inf
//   median relative error    over the pairs with x != 0 or y != 0; the mean of the middle two for an even count
// A finite x that became infinite is an error of +Inf in each. Squares and sums are doubles, added pairwise over all
// elements, those that are not compared as zeros (PairwiseSum).
//
// NaN never passes: when x and y do not have their NaN, and their infinities, in the same places, the three measures
// are NaN and every `measure <= bound` is false; the counts below say why. Nothing measured gives NaN as well.
//
//   ErrorMeter meter;
//   do {                                     // memory does not grow with the tensor: the median takes some passes
//     ErrorMeter::Part part = meter.part(0);
//     part.add(originals, values);
//     meter.add(part);
//   } while (!meter.finish_pass());
//   meter.measures().sqnr_db
//
// Errors: Error{usage} for codes wider than their format, for parts out of order and for passes over other values.
//
// Does not promise: a verdict. These measures pass kernels with wrong scales; bits decide (docs/numerics.md).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "numerics/format/format.h"
#include "numerics/measure/median_search.h"

namespace mxcheck {

// Sums as a balanced tree over the order of the values: rounding error O(log n), the same on every machine, and the
// same whether the values come one by one or as parts that several threads have summed.
//
//   PairwisePart part(1000);       // of a sum whose first 1000 values come from elsewhere
//   part.add(values);
//   part.append_to(sum);           // the bits of: for (double v : values) sum.add(v)
//
// Source: Higham, Accuracy and Stability of Numerical Algorithms (2002), section 4.1 (pairwise summation).
class PairwiseSum {
 public:
  void add(double value) { add_tree(0, value); }
  // The sum of 2^level values as a tree of their own. Error{usage} where the values so far end inside such a tree.
  void add_tree(int level, double sum);
  [[nodiscard]] double total() const;
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  std::vector<double> partial_;  // partial_[k] holds 2^k values where bit k of count_ is set
  std::uint64_t count_ = 0;
};

// Consecutive values of such a sum. Keeps a number for each 1024 of them, and those at the ends that fill no 1024.
class PairwisePart {
 public:
  explicit PairwisePart(std::uint64_t first) : first_(first), position_(first) {}
  void add(std::span<const double> values);
  // Error{usage} unless `sum` holds as many values as come before.
  void append_to(PairwiseSum& sum) const;

 private:
  static constexpr int kLevel = 10;
  static constexpr std::uint64_t kTree = std::uint64_t{1} << kLevel;

  std::uint64_t first_;
  std::uint64_t position_;
  std::vector<double> head_;   // before the first tree
  std::vector<double> trees_;  // sums of kTree values
  std::vector<double> open_;   // after the last
};

// The code's place in the order of values: consecutive values differ by one, both zeros are 0, Inf follows the largest
// finite value. nullopt for NaN. Error{usage} for a code with bits beyond the format's width.
std::optional<std::int64_t> ordinal(Format format, std::uint32_t code);

// Steps between two codes' values. Any NaN is at distance 0 from any other; nullopt when only one of the two is NaN.
std::optional<std::uint64_t> ulp_distance(Format format, std::uint32_t a, std::uint32_t b);

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

// Takes a tensor in parts of consecutive elements. Several threads may fill a part each; the result does not depend on
// how the tensor was cut.
class ErrorMeter {
 public:
  class Part {
   public:
    // The next elements and their values; sizes must agree.
    void add(std::span<const float> originals, std::span<const float> dequantized);
    // The caller knows codes and scales, and counts in these, in the first pass.
    std::uint64_t flushed = 0;
    std::uint64_t saturated = 0;

   private:
    friend class ErrorMeter;
    Part(std::uint64_t first, bool is_first_pass, MedianSearch::Part median)
        : is_first_pass_(is_first_pass), signal_(first), noise_(first), median_(std::move(median)) {}
    void add_chunk(std::span<const float> originals, std::span<const float> dequantized);
    void classify(float original, float dequantized, double& signal, double& noise, double& relative);

    bool is_first_pass_;
    ErrorMeasures counts_;
    PairwisePart signal_, noise_;
    MedianSearch::Part median_;
    double max_relative_ = 0;
  };

  // Before the first pass: a sample's median, which may save a pass (numerics/measure/median_search.h). NaN for none.
  void expect_median(double relative) { median_.expect(relative); }
  [[nodiscard]] Part part(std::uint64_t first_element) const;  // of this pass
  [[nodiscard]] bool is_first_pass() const { return is_first_pass_; }
  void add(const Part& part);  // in the order of elements
  bool finish_pass();          // whether measures() are complete
  [[nodiscard]] ErrorMeasures measures() const;

 private:
  bool is_first_pass_ = true;
  ErrorMeasures counts_;
  PairwiseSum signal_, noise_;
  MedianSearch median_;
  double max_relative_ = 0;
};

}  // namespace mxcheck
