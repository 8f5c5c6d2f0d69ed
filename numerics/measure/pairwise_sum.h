#pragma once
// Sums as a balanced tree over the order of the values: rounding error O(log n), the same on every machine, and the
// same whether the values come one by one or as parts that several threads have summed.
//
//   PairwisePart part(1000);       // of a sum whose first 1000 values come from elsewhere
//   part.add(values);
//   part.append_to(sum);           // the bits of: for (double v : values) sum.add(v)
//
// Source: Higham, Accuracy and Stability of Numerical Algorithms (2002), section 4.1 (pairwise summation).

#include <cstdint>
#include <span>
#include <vector>

namespace mxcheck {

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

}  // namespace mxcheck
