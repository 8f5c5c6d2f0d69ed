#include "properties/core/notation.h"

#include <cmath>
#include <cstdio>

#include "numerics/format/codec.h"

namespace mxcheck {
namespace {

std::string binary(std::uint32_t bits, int width) {
  std::string text;
  for (int bit = width - 1; bit >= 0; --bit) text += (bits >> bit & 1) != 0 ? '1' : '0';
  return text;
}

std::string fields(const FormatSpec& f, std::uint32_t bits) {
  if (f.encoding == Encoding::power_of_two || f.encoding == Encoding::fixed_point) return binary(bits, f.bits);
  return binary(bits >> (f.bits - 1), 1) + "." + binary(bits >> f.mantissa_bits, f.exponent_bits) + "." +
         binary(bits, f.mantissa_bits);
}

}  // namespace

std::string notations(double value) {
  char text[96];
  std::snprintf(text, sizeof(text), "%a = %.9g", value, value);
  return text;
}

std::string notations(Format format, std::uint32_t bits) {
  const FormatSpec& f = spec(format);
  char hex[16];
  std::snprintf(hex, sizeof(hex), "0x%0*x", (f.bits + 3) / 4, bits);
  return std::string(hex) + " = " + fields(f, bits) + " = " + notations(decode(format, bits));
}

std::int64_t ulp_distance_of_codes(Format format, std::uint32_t a, std::uint32_t b) {
  const bool nan_a = std::isnan(decode(format, a));
  const bool nan_b = std::isnan(decode(format, b));
  if (nan_a || nan_b) return nan_a && nan_b ? 0 : -1;
  const FormatSpec& f = spec(format);
  const auto order = [&](std::uint32_t code) -> std::int64_t {
    if (f.encoding == Encoding::power_of_two) return code;
    if (f.encoding == Encoding::fixed_point) return static_cast<std::int8_t>(code);
    const std::uint32_t sign = std::uint32_t{1} << (f.bits - 1);
    return (code & sign) != 0 ? -1 - static_cast<std::int64_t>(code & (sign - 1)) : code;
  };
  return std::abs(order(a) - order(b));
}

}  // namespace mxcheck
