#pragma once
// Tools for tests of gradients: a router's mathematics in 100 digits, derivatives by differences so small that nothing
// of them is seen in FP32, and bounds of what FP32 may make of it.

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/router/router.h"
#include "tests/numerics/elementary/multiprecision.h"
#include "tests/reference/router/oracle.h"

namespace mxcheck::test {

using Reals = std::vector<Real>;

inline Reals reals(const Row& values) { return {values.begin(), values.end()}; }

inline Reals real_softmax(const Reals& x) {
  const Real m = *std::max_element(x.begin(), x.end());
  Reals p;
  Real sum = 0;
  for (const Real& v : x) sum += p.emplace_back(exp(v - m));
  for (Real& v : p) v /= sum;
  return p;
}

inline Real real_sigmoid(const Real& x) { return 1 / (1 + exp(-x)); }
inline Real real_sqrtsoftplus(const Real& x) { return sqrt(log(1 + exp(x))); }

inline Reals real_scores(RouterScore score, const Reals& x) {
  if (score == RouterScore::softmax) return real_softmax(x);
  Reals s;
  for (const Real& v : x) s.push_back(score == RouterScore::sigmoid ? real_sigmoid(v) : real_sqrtsoftplus(v));
  return s;
}

// Weights of the experts as mathematics has them, `scale` included.
inline Reals real_weights(const Router& router, const Reals& x, const std::vector<std::int32_t>& experts) {
  const RouterVariant& variant = *router.variant;
  const Reals weighed = variant.score == RouterScore::logits ? x : real_scores(variant.score, x);
  Reals w;
  for (const std::int32_t e : experts) w.push_back(weighed[static_cast<std::size_t>(e)]);
  if (variant.weights == RouterWeights::softmax_of_kept) w = real_softmax(w);
  const bool divides = variant.weights == RouterWeights::sum || variant.weights == RouterWeights::tiny_then_sum ||
                       (variant.weights == RouterWeights::sum_plus_tiny && router.top_k > 1);
  Real sum = 0;
  for (const Real& v : w) sum += v;
  for (Real& v : w) v *= router.scale;
  if (!divides) return w;
  for (Real& v : w) v /= sum;  // 1e-20 is beyond all digits of the tests' sums
  return w;
}

// df/dx_e for every e; what is left out is of the order of 2^-200.
template <class Function>
Reals derivatives(const Reals& x, Function f) {
  const Real step = ldexp(Real(1), -110);
  Reals gradient;
  for (std::size_t e = 0; e < x.size(); ++e) {
    Reals up = x;
    Reals down = x;
    up[e] += step;
    down[e] -= step;
    gradient.push_back((f(up) - f(down)) / (2 * step));
  }
  return gradient;
}

// The relative error of any score or weight: an exponent of |d| and its exp, sums of at most `experts` and `kept`
// terms, and eight roundings of quotients, square roots and products.
inline double relative_error(const Row& x, std::size_t kept) {
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  return (static_cast<double>(x.size() + kept) + (static_cast<double>(*high) - *low) + 8) * 0x1p-24;
}

}  // namespace mxcheck::test
