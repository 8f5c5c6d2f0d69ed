// The learning rate and the bias corrections: exact numbers, rounded once.

#include <boost/math/constants/constants.hpp>
#include <boost/multiprecision/cpp_bin_float.hpp>

#include "numerics/error.h"
#include "reference/common/checked_size.h"
#include "reference/training/attention.h"
#include "reference/training/optimizer.h"
#include "reference/training/parts.h"

namespace mxcheck {

namespace {

using Real = boost::multiprecision::cpp_bin_float_100;  // 334 bits or more

// The FP32 number nearest to every number that is within `error` of x, which has to decide it: an exact x (error 0) is
// rounded to nearest, ties to even; of others the formulas' authors show that they are no middle between two FP32
// numbers.
float nearest_float(const Real& x, const Real& error) {
  const auto below = Real(x - error).convert_to<float>();
  const auto above = Real(x + error).convert_to<float>();
  if (below != above) throw Error(ErrorKind::internal, "training: 100 digits do not decide " + x.str(20));
  return below;
}

// RN(peak * part / whole) of integers below 2^25. The product is exact in a double. Its quotient is rounded twice,
// which is as good as once: a quotient of 48 by 25 bits that is no middle between two FP32 numbers is at least 2^-50 of
// itself from any, and a double is within 2^-53.
float share_of(float peak, std::int64_t part, std::int64_t whole) {
  return static_cast<float>(double{peak} * static_cast<double>(part) / static_cast<double>(whole));
}

// RN(last + (peak - last) * (1 + cos(pi * part / whole)) / 2).
float cosine_rate(float peak, float last, std::int64_t part, std::int64_t whole) {
  const Real difference = Real(peak) - Real(last);
  const auto rate = [&](const Real& cosine) { return Real(Real(last) + difference * (1 + cosine) / 2); };
  // A rational angle has a rational cosine at multiples of pi / 2 and pi / 3 alone (Niven). There the number may be a
  // middle, and 300 bits hold it exactly; elsewhere it is irrational.
  if (6 * part % whole == 0) {
    constexpr int kTwiceTheCosine[] = {2, 0, 1, 0, -1, 0, -2};  // at k pi / 6; of odd k only 3 is rational
    const std::int64_t k = 6 * part / whole;
    if (k % 2 == 0 || k == 3) return nearest_float(rate(Real(kTwiceTheCosine[k]) / 2), 0);
  }
  const Real angle = boost::math::constants::pi<Real>() * part / whole;
  return nearest_float(rate(cos(angle)), Real(peak) * Real("1e-80"));
}

}  // namespace

float learning_rate(const TrainingConfig& config, std::int64_t step) {
  const OptimizerConfig& o = config.optimizer;
  require(step >= 0 && step < config.steps, "step " + std::to_string(step) + " of a run of " +
                                                std::to_string(config.steps) + "; 0 to " +
                                                std::to_string(config.steps - 1) + " is needed");
  if (step < o.warm_up) return share_of(o.peak_rate, step + 1, o.warm_up);
  return cosine_rate(o.peak_rate, o.last_rate, step - o.warm_up,
                     std::max<std::int64_t>(1, config.steps - 1 - o.warm_up));
}

float bias_correction(float beta, std::int64_t t) {
  require(beta >= 0 && beta < 1 && t > 0, "a bias correction of beta " + std::to_string(beta) + " and update " +
                                              std::to_string(t) + "; 0 <= beta < 1 and 1 or more are needed");
  if (beta == 0) return 1;
  int places = 0;  // of beta behind the binary point
  for (double rest = beta; rest != std::floor(rest); rest *= 2) ++places;
  Real power = 1;
  Real square = beta;
  for (std::int64_t rest = t; rest != 0; rest >>= 1) {
    if ((rest & 1) != 0) power *= square;
    if (rest > 1) square *= square;
  }
  // 1 - beta^t has exactly places * t places: it is exact where Real has so many; else it is no middle of two FP32
  // numbers. Each of at most 2 * 63 products is within 2^-333 of itself, and counts at most t times in the end.
  const bool exact = places * t <= 300;
  return nearest_float(1 - power, exact ? Real(0) : Real("1e-78"));
}

// The table of rotary positions: cosines and sines of exact numbers, rounded once.
//
// For each column pair the rotation by one position is taken with 100 digits, and that by p positions is its p-th power
// by repeated complex multiplication: 2^24 of them lose less than eight digits. Whether the number that is left decides
// an FP32 number is tested for every entry; there are no ties, since the cosine and the sine of an algebraic number
// other than 0 are transcendental (Lindemann).

namespace {

constexpr const char* kError = "1e-80";  // of a hundred digits

}  // namespace

RotaryTable rotary_table(std::int64_t length, std::int64_t head_width) {
  require(length >= 0 && head_width > 0 && head_width % 2 == 0,
          "a rotary table of " + std::to_string(length) + " positions and heads of " + std::to_string(head_width) +
              " columns; a length of 0 or more and an even width are needed");
  const std::int64_t pairs = head_width / 2;
  RotaryTable table;
  const std::int64_t size = checked_product(length, pairs, "rotary table");
  resize_or_throw(table.cosine, size, "rotary table");
  resize_or_throw(table.sine, size, "rotary table");
  const Real error(kError);
  for (std::int64_t j = 0; j < pairs; ++j) {
    const Real angle = pow(Real(10000), Real(-2 * j) / head_width);
    const Real step_cosine = cos(angle);
    const Real step_sine = sin(angle);
    Real cosine = 1;
    Real sine = 0;
    for (std::int64_t p = 0; p < length; ++p) {
      const auto at = static_cast<std::size_t>(p * pairs + j);
      table.cosine[at] = p == 0 ? 1.0F : nearest_float(cosine, error);
      table.sine[at] = p == 0 ? 0.0F : nearest_float(sine, error);
      const Real next = cosine * step_cosine - sine * step_sine;
      sine = sine * step_cosine + cosine * step_sine;
      cosine = next;
    }
  }
  return table;
}

}  // namespace mxcheck
