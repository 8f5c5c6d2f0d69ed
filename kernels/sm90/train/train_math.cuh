#pragma once
// Numbers of a training step that tests compare over all their arguments, for the host and the device: a logarithm, the
// factor of attention's scores, the terms of a digest.

#include <cmath>
#include <cstdint>

#include "kernels/common/digest.h"
#include "kernels/sm90/route/router_math.cuh"

namespace mxcheck_kernels::sm90 {

// log(x) for 1 <= x <= 256, which is what a token's loss takes it of: a sum of 256 numbers up to 1, one of which is 1.
//
// x = 2^n (1 + i / 32) (1 + s), evaluated in FP64 to within about 2^-52 and rounded once to FP32, by the table and the
// polynomial of log1p_rn (route/router_math.cuh). That this is the correctly rounded value is a fact about each of
// the 2^26 arguments: tests/kernels/sm90/train/numbers_test.cc compiles the function for the host and compares all.
//
// NaN for NaN.
MXCHECK_BOTH float log_rn(float x) {
  using namespace elementary;
  constexpr int kOne = 0x3F800000;
  const int bits = bits_of(x);
  const int n = (bits - kOne) >> 23;
  const double m = times_power(static_cast<double>(x), -n);  // 1 <= m < 2
  const int i = low_word(fused(sum(m, -1.0), 32.0, 0x1.8p52)) & 63;
  const Reciprocal c = kReciprocals[i];
  const double s = fused(m, c.inverse, -1.0);
  double q = -0x1.0016690195ac2p-3;
  q = fused(q, s, 0x1.24ab2f908fd82p-3);
  q = fused(q, s, -0x1.555554a20099dp-3);
  q = fused(q, s, 0x1.999998d258344p-3);
  q = fused(q, s, -0x1.0000000000b36p-2);
  q = fused(q, s, 0x1.55555555561cap-2);
  q = fused(q, s, -0x1.0000000000000p-1);
  // n ln 2 to 36 bits is exact; what the cut leaves goes with the small terms.
  const double high = sum(product(static_cast<double>(n), 0x1.62e42fefa0000p-1), c.log);
  const double low = fused(product(s, s), q, fused(static_cast<double>(n), 0x1.cf79abc9e3b3ap-40, s));
  const float y = rounded(sum(high, low));
  return x == x ? y : x;
}

// The factor that attention's scores are multiplied by.
//
// RN(1 / sqrt(head_width)): that the roundings to FP64 before change nothing is a fact about each width up to 8192
// (tests/kernels/sm90/train/numbers_test.cc).
inline float score_scale(int head_width) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_width)));
}

using mxcheck_kernels::digest_mix, mxcheck_kernels::digest_term;

}  // namespace mxcheck_kernels::sm90
