#include "numerics/scale/two_level.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "numerics/format/codec.h"
#include "numerics/format/format.h"

namespace mxcheck {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();

// Raised to a minimum; a NaN stays.
float raised(float value, float minimum) { return value < minimum ? minimum : value; }

// The quotient before it is raised, or replaced where it is 0. A double holds a product of two floats, and its quotient
// with a third is on the same side of every midpoint of E4M3 as the exact one (midpoints have 5 bits).
double block_quotient(const TwoLevel& levels, float vmax, OuterScale outer, float a, float stretch) {
  switch (levels.block) {
    case BlockQuotient::exact: return double{a} * stretch / (double{vmax} * outer.decode);
    case BlockQuotient::quotient_times_encode: return (a / vmax * outer.encode) * stretch;
    case BlockQuotient::product_times_encode: return (a * (1.0F / vmax) * outer.encode) * stretch;
    case BlockQuotient::times_scaled_encode: return (a * (outer.encode * (1.0F / vmax))) * stretch;
    case BlockQuotient::quotient_over_decode: return (a / vmax / outer.decode) * stretch;
    case BlockQuotient::over_scaled_decode: return (a / (vmax * outer.decode)) * stretch;
  }
  return 0;
}

}  // namespace

OuterScale outer_scale(const TwoLevel& levels, float vmax, float amax) {
  const float a = raised(amax, levels.amax_min);
  const float largest = levels.limit * vmax;
  float number = levels.encode_first ? largest / a : a / largest;
  if (levels.of_zero && (amax == 0 || (levels.replaces_zero && number == 0))) number = *levels.of_zero;
  if (levels.of_nonfinite && !std::isfinite(number)) number = *levels.of_nonfinite;
  if (!levels.encode_first) return {number, 1.0F / number};
  if (levels.has_largest_encode && number > kLargest) number = kLargest;
  return {1.0F / number, number};
}

OuterScale outer_scale_of_stored(const TwoLevel& levels, float vmax, float stored) {
  switch (levels.stored) {
    case StoredScale::decode: return {stored, 1.0F / stored};
    case StoredScale::encode: return {1.0F / stored, stored};
    case StoredScale::amax: break;
  }
  return outer_scale(levels, vmax, stored);
}

float stored_scale(const TwoLevel& levels, OuterScale outer, float amax) {
  switch (levels.stored) {
    case StoredScale::decode: return outer.decode;
    case StoredScale::encode: return outer.encode;
    case StoredScale::amax: break;
  }
  return amax;
}

TwoLevelScale two_level_scale(const TwoLevel& levels, float vmax, OuterScale outer, float block_amax, float stretch) {
  double quotient = block_quotient(levels, vmax, outer, block_amax, stretch);
  if (quotient == 0) quotient = levels.of_zero_quotient;
  if (quotient < levels.block_min) quotient = levels.block_min;
  TwoLevelScale scale{static_cast<float>(quotient), 0};
  scale.code = static_cast<std::uint8_t>(encode(Format::e4m3, quotient, Rounding::nearest_even, Overflow::saturate));
  if (scale.code == 0) scale.code = levels.of_zero_scale;
  return scale;
}

}  // namespace mxcheck
