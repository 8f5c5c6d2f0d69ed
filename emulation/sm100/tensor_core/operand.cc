#include "emulation/sm100/tensor_core/operand.h"

#include <algorithm>
#include <array>

namespace mxcheck::emulation::sm100::detail {

Element element_of(const FormatSpec& f, std::uint32_t code, bool negate) {
  const std::uint32_t magnitude = code & ((1U << (f.bits - 1)) - 1);
  const bool negative = (code >> (f.bits - 1) != 0) != negate;
  if (magnitude == 0) return {0, kZeroExponent, Class::zero, negative};
  if (magnitude > f.max_code) {
    const bool infinite = f.encoding == Encoding::ieee && magnitude == f.max_code + 1;
    return {0, kZeroExponent, infinite ? Class::infinite : Class::nan, negative};
  }
  const auto field = static_cast<int>(magnitude >> f.mantissa_bits);
  const std::uint32_t fraction = magnitude & ((1U << f.mantissa_bits) - 1);
  const std::uint32_t m = field == 0 ? fraction : fraction + (1U << f.mantissa_bits);
  const auto value = static_cast<float>(m);
  return {negative ? -value : value, static_cast<std::int16_t>(std::max(field, 1) - f.bias), Class::finite, negative};
}

Operand::Operand(Format format, bool negate, const std::uint8_t* codes, const std::uint8_t* scales, int rows, int k)
    : k_(k), scales_(scales), elements_(static_cast<std::size_t>(rows * k)), special_(static_cast<std::size_t>(rows)) {
  const FormatSpec& f = spec(format);
  std::array<Element, 256> table;
  if (f.bits <= 8) {
    for (std::uint32_t code = 0; code < table.size(); ++code) table[code] = element_of(f, code, negate);
  }
  for (std::size_t i = 0; i < elements_.size(); ++i) {
    elements_[i] = f.bits <= 8 ? table[codes[i]] : element_of(f, codes[2 * i] | codes[2 * i + 1] * 256U, negate);
    if (elements_[i].kind >= Class::infinite) special_[i / static_cast<std::size_t>(k)] = true;
  }
  for (int row = 0; row < rows; ++row) {
    if (nan_scale(row)) special_[static_cast<std::size_t>(row)] = true;
  }
}

}  // namespace mxcheck::emulation::sm100::detail
