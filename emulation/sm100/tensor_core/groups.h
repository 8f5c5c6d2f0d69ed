#pragma once
// The sums of the FP4 kinds, for both emulations: four groups of 16 products, each exact and aligned by the exponents
// of its two scales alone, and c beside them (contracts sm100_mxf4 and sm100_nvf4).
//
//   detail::GroupTerm terms[4];
//   terms[g] = detail::group_term(dot, some, detail::group_scale(true, 0x38), detail::group_scale(true, 0x40));
//   detail::word_of_groups(terms, true, c);                     // `dot` is of twice the values: 4 for a product of 1
//
// How large it gets: twice an E2M1 value is an integer of at most 12, so that a group is at most 16 * 144 = 2304
// quarters; two UE4M3 significands make it less than 2^20 units of 2^(E - 8), with E8M0 it is below 2^12 of 2^(E - 2).
// Aligned at 2^(W - 35), E <= W, that is less than 2^47 or 2^45: four of them and c, below 2^37, fit in 64 bits.
//
// Sources: numerics/accumulate/contract.h. Does not promise: that a card sums groups of 16 under UE4M3 scales; the
// published models leave the size of a group open there (docs/blackwell.md).

#include <cstdint>

#include "emulation/sm100/tensor_core/elements.h"

namespace mxcheck::emulation::sm100::detail {

inline constexpr int kGroup = 16;
inline constexpr int kGroups = 4;
inline constexpr int kGroupFractionBits = 35;
inline constexpr int kGroupWindowFloor = -139;

// Twice the value of an E2M1 code: 0, 1, 2, 3, 4, 6, 8, 12.
constexpr int twice_of(std::uint32_t code) {
  const std::uint32_t magnitude = code & 7U;
  const auto twice = static_cast<int>(magnitude < 2 ? magnitude : (2 + magnitude % 2) << (magnitude / 2 - 1));
  return (code & 8U) != 0 ? -twice : twice;
}

struct GroupScale {
  int significand = 0;
  int exponent = 0;
  bool nan = false;
};

// UE4M3, whose bit 7 counts for nothing, or E8M0.
constexpr GroupScale group_scale(bool ue4m3, std::uint32_t byte) {
  if (!ue4m3) return {1, static_cast<int>(byte) - 127, byte == 0xFF};
  const auto field = static_cast<int>(byte >> 3 & 0xFU);
  const auto fraction = static_cast<int>(byte & 7U);
  return {field == 0 ? fraction : fraction + 8, (field == 0 ? 1 : field) - 7, (byte & 0x7FU) == 0x7F};
}

// A group, or nothing: one of zeros does not widen the window, and one that cancels does.
struct GroupTerm {
  std::int64_t sum = 0;
  int exponent = kZeroExponent;
  bool nan = false;
};

// `some`: a product of the group is not zero.
constexpr GroupTerm group_term(int dot, bool some, const GroupScale& a, const GroupScale& b) {
  const int scale = a.significand * b.significand;
  const bool nan = a.nan || b.nan;
  if (!some || scale == 0) return {0, kZeroExponent, nan};
  return {std::int64_t{dot} * scale, a.exponent + b.exponent, nan};
}

constexpr std::int64_t cut(std::int64_t x, int left) {
  const std::int64_t magnitude = x < 0 ? -x : x;
  const std::int64_t kept = left >= 0 ? magnitude << left : magnitude >> (-left < 63 ? -left : 63);
  return x < 0 ? -kept : kept;
}

// The word of D, in FP32, of the groups and c, a word of D.
constexpr std::uint32_t word_of_groups(const GroupTerm (&terms)[kGroups], bool ue4m3, std::uint32_t c) {
  const Addend addend = addend_of(kFp32, c);
  const std::uint32_t c_magnitude = c & (kFp32.sign() - 1);
  bool nan = c_magnitude > kFp32.infinity();
  int window = addend.exponent > kGroupWindowFloor ? addend.exponent : kGroupWindowFloor;
  for (const GroupTerm& t : terms) {
    nan = nan || t.nan;
    if (t.exponent > window) window = t.exponent;
  }
  if (nan) return kFp32.nan;
  if (c_magnitude == kFp32.infinity()) return c;
  const int fraction_bits = ue4m3 ? 8 : 2;  // below 2^E: two of the halves, three of each UE4M3 significand
  std::int64_t sum = units_of(kFp32, addend, window, kGroupFractionBits);
  for (const GroupTerm& t : terms) sum += cut(t.sum, t.exponent - fraction_bits - window + kGroupFractionBits);
  return word_of(kFp32, sum, window - kGroupFractionBits);
}

}  // namespace mxcheck::emulation::sm100::detail
