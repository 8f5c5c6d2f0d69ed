#pragma once
// Slips of casting elements, shared by the rows about casts (cast_definitions.cc) and those about codes under the
// candidate's own scales (definitions.cc).

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "numerics/format/codec.h"
#include "properties/core/definitions.h"

namespace mxcheck {

inline constexpr double kPoisoned = std::numeric_limits<double>::quiet_NaN();

struct ElementSlip {
  std::string name;
  std::function<std::uint32_t(double v)> code;
};

// Slips of a cast with this rounding and overflow; of: the name of what is cast, "a product".
std::vector<ElementSlip> element_slips(Format f, Rounding r, Overflow o, const std::string& of);

// The codes of the values as bytes of an output.
Bytes codes_of(Format format, const std::vector<double>& values, const std::function<std::uint32_t(double)>& code);

}  // namespace mxcheck
