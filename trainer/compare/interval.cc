#include "trainer/compare/interval.h"

#include <cmath>
#include <string>

#include <boost/math/distributions/non_central_t.hpp>
#include <boost/math/distributions/students_t.hpp>

#include "numerics/error.h"

namespace mxcheck {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

void check_probability(double p) {
  const bool inside = p > 0 && p < 1;
  if (!inside) throw Error(ErrorKind::usage, "a probability of " + std::to_string(p) + "; between 0 and 1 is right");
}

double mean_of(std::span<const double> x) {
  double sum = 0;
  for (const double v : x) sum += v;
  return sum / static_cast<double>(x.size());
}

}  // namespace

double student_t_quantile(double p, std::int64_t freedom) {
  check_probability(p);
  if (freedom < 1) throw Error(ErrorKind::usage, "Student's t needs a degree of freedom: two pairs or more");
  return boost::math::quantile(boost::math::students_t(static_cast<double>(freedom)), p);
}

PairedInterval paired_interval(std::span<const double> differences, double alpha) {
  PairedInterval i;
  i.pairs = static_cast<std::int64_t>(differences.size());
  if (i.pairs == 0) return i;
  i.mean = mean_of(differences);
  if (i.pairs < 2) return i;
  const auto n = static_cast<double>(i.pairs);
  double squares = 0;
  for (const double d : differences) squares += (d - i.mean) * (d - i.mean);
  i.deviation = std::sqrt(squares / (n - 1));
  const double half = student_t_quantile(1 - alpha, i.pairs - 1) * i.deviation / std::sqrt(n);
  i.lower = i.mean - half;
  i.upper = i.mean + half;
  return i;
}

double power_of(std::int64_t pairs, double gap, double deviation, double alpha) {
  if (pairs < 2 || std::isnan(gap) || std::isnan(deviation)) return kNone;
  if (deviation == 0) return gap > 0 ? 1 : 0;
  const double shift = gap / deviation * std::sqrt(static_cast<double>(pairs));
  // P(T' <= quantile) is below 1e-12 long before: Boost's series for large shifts takes ever longer.
  constexpr double kCertain = 200;
  const double quantile = student_t_quantile(1 - alpha, pairs - 1);
  if (shift > kCertain + 10 * quantile) return 1;
  const boost::math::non_central_t distribution(static_cast<double>(pairs - 1), shift);
  return boost::math::cdf(boost::math::complement(distribution, quantile));
}

std::optional<std::int64_t> pairs_needed(double margin, double deviation, double alpha, double power) {
  check_probability(power);
  constexpr std::int64_t kMost = 1'000'000;
  const auto enough = [&](std::int64_t pairs) { return power_of(pairs, margin, deviation, alpha) >= power; };
  std::int64_t high = 2;
  while (high < kMost && !enough(high)) high *= 2;
  if (!enough(high)) return std::nullopt;
  std::int64_t low = high / 2;  // not enough, or 1
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (enough(middle) ? high : low) = middle;
  }
  return high;
}

double visible_gap(std::int64_t pairs, double deviation, double alpha, double power) {
  check_probability(power);
  if (pairs < 2 || !std::isfinite(deviation)) return kNone;
  if (deviation == 0) return 0;
  double low = 0;
  double high = deviation;
  while (power_of(pairs, high, deviation, alpha) < power) high *= 2;
  for (int i = 0; i < 50; ++i) {  // to 2^-50 of the first bracket
    const double middle = (low + high) / 2;
    (power_of(pairs, middle, deviation, alpha) < power ? low : high) = middle;
  }
  return high;
}

double correlation_of(std::span<const double> x, std::span<const double> y) {
  if (x.size() != y.size() || x.size() < 3) return kNone;
  const double mx = mean_of(x);
  const double my = mean_of(y);
  double xx = 0;
  double yy = 0;
  double xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mx) * (x[i] - mx);
    yy += (y[i] - my) * (y[i] - my);
    xy += (x[i] - mx) * (y[i] - my);
  }
  return xy / std::sqrt(xx * yy);  // 0 / 0 is NaN
}

}  // namespace mxcheck
