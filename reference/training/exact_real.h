#pragma once
// Real numbers of 100 digits that are rounded once to FP32. Internal.

#include <boost/multiprecision/cpp_bin_float.hpp>

#include "numerics/error.h"

namespace mxcheck {

using Real = boost::multiprecision::cpp_bin_float_100;  // 334 bits or more

// The FP32 number nearest to every number that is within `error` of x, which has to decide it: an exact x (error 0) is
// rounded to nearest, ties to even; of others the formulas' authors show that they are no middle between two FP32
// numbers.
inline float nearest_float(const Real& x, const Real& error) {
  const auto below = Real(x - error).convert_to<float>();
  const auto above = Real(x + error).convert_to<float>();
  if (below != above) throw Error(ErrorKind::internal, "training: 100 digits do not decide " + x.str(20));
  return below;
}

}  // namespace mxcheck
