#pragma once
// The operands of multiply(), decoded: an element is a signed significand and an exponent, as fused_sum.h has them.
//
//   const detail::Operand a(Format::e4m3, false, codes, scales, 128, 32);
//   a.at(5, 17).significand * 2^(a.at(5, 17).exponent + a.exponent(5) - 3)      // the value, of 3 fraction bits
//
// Does not promise: a check of its arguments. multiply() has made it.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "numerics/format/format.h"

namespace mxcheck::emulation::sm100::detail {

// A zero's: below every other by so much that no sum of two exponents that has one is taken for a product's.
inline constexpr std::int16_t kZeroExponent = -4096;

enum class Class : std::uint8_t { finite, zero, infinite, nan };

// An element, decoded. The significand of infinities and NaNs is 0.
struct Element {
  float significand = 0;  // with its sign
  std::int16_t exponent = kZeroExponent;
  Class kind = Class::zero;
  bool negative = false;
};

Element element_of(const FormatSpec& f, std::uint32_t code, bool negate);

// By row. A special is an infinity or a NaN, a scale's included.
class Operand {
 public:
  // `scales` is null where there are none. It must outlive the operand.
  Operand(Format format, bool negate, const std::uint8_t* codes, const std::uint8_t* scales, int rows, int k);

  [[nodiscard]] const Element& at(int row, int k) const { return elements_[static_cast<std::size_t>(row * k_ + k)]; }
  [[nodiscard]] bool special(int row) const { return special_[static_cast<std::size_t>(row)]; }
  [[nodiscard]] bool nan_scale(int row) const { return scales_ != nullptr && scales_[row] == kNanScale; }
  // The scale's, to be added to that of every element of the row.
  [[nodiscard]] std::int16_t exponent(int row) const {
    return scales_ == nullptr ? std::int16_t{0} : static_cast<std::int16_t>(scales_[row] - kScaleBias);
  }

 private:
  static constexpr std::uint8_t kNanScale = 0xFF;
  static constexpr int kScaleBias = 127;

  int k_;
  const std::uint8_t* scales_;
  std::vector<Element> elements_;
  std::vector<bool> special_;
};

}  // namespace mxcheck::emulation::sm100::detail
