#pragma once
// Whether a computation is less accurate than another, from the errors of both on the same inputs.
//
//   PairedErrors pairs;
//   for (...) pairs.add(error_of_candidate, error_of_other);     // at least 0
//   if (pairs.log_chance() < std::log(level)) ...                // the candidate is not as accurate
//
// As accurate is a candidate that, where the two errors differ, is the worse one in at most 11 of 20: a chance q = 0.55
// of d > 0, whatever |d| is, for d = error of the candidate - error of the other. An exchange of the two that leaves
// their distribution as it is, as for two orders of one sum over random inputs, makes that chance 1/2; the rest is room
// for orders that differ by little. A candidate that is the other one, or whose errors are never larger, has W = 0
// below and S <= 0: its chance is 1, and it never fails, whatever the inputs.
//
// Let d_1 .. d_n be those that are not 0. For a candidate that is as accurate their signs, given all |d_i|, are + with
// a chance of at most q, given those before: independent pairs are. Then
//   signs: W of n are +.     P(W >= w) <= exp(-n KL(w / n, q)) for w > q n, KL(x, q) = x ln(x / q) + (1 - x) ln((1 - x)
//   /
//          (1 - q)), the relative entropy (Hoeffding 1963, theorem 1; for dependent ones by his argument, with
//          E[exp(h +)] <= 1 - q + q exp(h) for each given those before)
//   means: S = sum d_i.      P(S >= s) <= exp(-(s - (2 q - 1) sum |d_i|)^2 / (2 sum d_i^2)) for s above that sum: each
//   d_i
//          lies in [-|d_i|, |d_i|] and has a mean of at most (2 q - 1) |d_i| (theorem 2; Azuma 1967)
// The first sees many small losses, the second a few large ones. log_chance() is the smaller bound, doubled for the
// choice.
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
