#include "numerics/measure/paired_errors.h"

#include <algorithm>
#include <cmath>

namespace mxcheck {
namespace {

constexpr double kChoices = 2;  // signs and means

// NaN is an error of 1: no comparison with it holds.
double error_up_to_one(double error) { return error < 1 ? error : 1; }

}  // namespace

void PairedErrors::add(double candidate, double other, double off) {
  ++pairs_;
  candidate = error_up_to_one(candidate), other = error_up_to_one(other);
  const double d = candidate - other;
  if (!(std::fabs(d) > off)) return;
  ++differing_;
  worse_ += d > 0 ? 1 : 0;
  candidate_ += candidate, other_ += other;
  magnitudes_ += std::fabs(d), squares_ += d * d;
}

double PairedErrors::log_chance() const {
  return std::min(0.0, std::min(log_chance_of_signs(), log_chance_of_means()) + std::log(kChoices));
}

double PairedErrors::log_chance_of_signs() const {
  const auto n = static_cast<double>(differing_);
  const double x = differing_ == 0 ? 0 : static_cast<double>(worse_) / n;
  if (!(x > kMostWorse)) return 0;
  const double better = x < 1 ? (1 - x) * std::log((1 - x) / (1 - kMostWorse)) : 0;
  return -n * (x * std::log(x / kMostWorse) + better);
}

double PairedErrors::log_chance_of_means() const {
  const double beyond = candidate_ - other_ - (2 * kMostWorse - 1) * magnitudes_;
  return beyond > 0 ? -beyond * beyond / (2 * squares_) : 0;
}

std::int64_t PairedErrors::fewest(double log_level) {
  return static_cast<std::int64_t>(std::floor((log_level - std::log(kChoices)) / std::log(kMostWorse))) + 1;
}

}  // namespace mxcheck
