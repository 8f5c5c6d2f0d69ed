#pragma once
// A number the four ways that a bug is found by: bits, fields, hexfloat, decimal.

#include <cstdint>
#include <string>

#include "numerics/format/format.h"

namespace mxcheck {

// "0x43e0 = 0.10000111.1100000 = 0x1.cp+8 = 448": bits, sign.exponent.mantissa, hexfloat, shortest exact-reading
// decimal.
std::string notations(Format format, std::uint32_t bits);

// "0x1.cp+8 = 448"
std::string notations(double value);

// Steps between two codes on the format's ordered line (-0 and +0 one step apart); -1 if either is NaN and not both.
std::int64_t ulp_distance_of_codes(Format format, std::uint32_t a, std::uint32_t b);

}  // namespace mxcheck
