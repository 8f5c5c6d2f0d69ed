#pragma once
// Private to goldens/: the inputs at which the result of a cast or scale rule changes, as bits of floats. Sorted by
// magnitude, each pattern once.

#include <cstdint>
#include <vector>

#include "numerics/format/format.h"

namespace mxcheck {

// Every finite value of the format, every midpoint between neighbours, and the midpoint and the value that would follow
// the largest; each with the floats one ulp below and above; both signs. Then specials.
std::vector<std::uint32_t> cast_boundaries(Format format);

// For every binade: the format's largest value times 2^k and the power of two 2^k, -1, 0, +1 ulp; then the list that
// distinguishes every two of the field's rules (docs/goldens.md), zeros, Inf and NaN.
std::vector<std::uint32_t> amax_boundaries(Format element);

}  // namespace mxcheck
