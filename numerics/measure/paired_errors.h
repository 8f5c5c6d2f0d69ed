#pragma once
// Compares the accuracy of two computations by their errors on the same inputs.
//
//   PairedErrors pairs;
//   for (...) pairs.add(error_of_candidate, error_of_other);     // at least 0
//   if (pairs.log_chance() < std::log(level)) ...                // the candidate is not as accurate
//
// Let d be the candidate's error less the other's. The candidate is as accurate as the other if, where d is not 0, it
// is the worse one (d > 0) with a probability of at most q = 0.55, whatever |d| is. Two orders of one sum over random
// inputs can be exchanged, so that theirs is 1/2; the rest is room for orders that differ by little.
//
// Let d_1 .. d_n be the differences that are not 0, W the number of positive ones, S their sum. Given all |d_i|, each
// sign is + with a probability of at most q, whatever the signs before it; independent pairs are so. Then
//
//   signs  P(W >= w) <= exp(-n KL(w / n, q)) for w > q n, with the relative entropy
//            KL(x, q) = x ln(x / q) + (1 - x) ln((1 - x) / (1 - q))
//          Hoeffding's theorem 1; his proof needs only E[exp(h +)] <= 1 - q + q exp(h), given the signs before.
//   means  P(S >= s) <= exp(-(s - m)^2 / (2 sum d_i^2)) for s > m = (2 q - 1) sum |d_i|
//          Theorem 2 (Azuma 1967 for dependent ones): d_i lies in [-|d_i|, |d_i|], with a mean of at most (2 q - 1)
//          |d_i|.
//
// The first sees many small losses, the second a few large ones. log_chance() is the smaller bound, doubled for the
// choice. A candidate whose errors are the other's or never larger has W = 0 and S <= 0: its chance is 1, so that it
// never fails, whatever the inputs.
//
// Source: W. Hoeffding, Probability inequalities for sums of bounded random variables, JASA 58 (1963). Errors: none; a
// NaN is an error of 1, and one above 1 counts as 1.

#include <cstdint>

namespace mxcheck {

class PairedErrors {
 public:
  static constexpr double kMostWorse = 0.55;  // q

  // off: differences up to it may be of what computed the errors, and count as none.
  void add(double candidate, double other, double off = 0);

  [[nodiscard]] std::int64_t pairs() const { return pairs_; }
  [[nodiscard]] std::int64_t differing() const { return differing_; }
  [[nodiscard]] std::int64_t worse() const { return worse_; }
  // Over the differing pairs; 0 where there are none.
  [[nodiscard]] double mean_candidate() const { return mean(candidate_); }
  [[nodiscard]] double mean_other() const { return mean(other_); }

  // Natural logarithms of bounds of the chance that a candidate as accurate as the other looks as bad as this: 0 for 1.
  [[nodiscard]] double log_chance() const;
  [[nodiscard]] double log_chance_of_signs() const;
  [[nodiscard]] double log_chance_of_means() const;

  // The fewest pairs of which all being worse has a chance below exp(log_level).
  static std::int64_t fewest(double log_level);

 private:
  [[nodiscard]] double mean(double sum) const { return differing_ == 0 ? 0 : sum / static_cast<double>(differing_); }

  std::int64_t pairs_ = 0;
  std::int64_t differing_ = 0;
  std::int64_t worse_ = 0;
  double candidate_ = 0;  // sums over the differing pairs
  double other_ = 0;
  double magnitudes_ = 0;  // of differences
  double squares_ = 0;
};

}  // namespace mxcheck
