// The value tables of the formats, proved by compiling. Nothing here is called.
//
// Expected values are those of the specifications named in numerics/format/format.h, written as numbers, not computed.

#include <bit>
#include <cstdint>
#include <limits>

#include "numerics/format/codec.h"
#include "numerics/format/format.h"

namespace mxcheck {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr bool is_nan(double v) { return v != v; }

// What a sign-exponent-mantissa format is: codes and the values they stand for.
struct Landmarks {
  Format format;
  std::uint32_t max_code;
  double max;
  std::uint32_t min_normal_code;
  double min_normal;
  double subnormal_step;      // the value of code 1
  double max_subnormal;       // the value of the code below min_normal_code
  double overflow_threshold;  // where rounding to nearest leaves the finite values: half a step above max
};

constexpr Landmarks kLandmarks[] = {
    {Format::e4m3, 0x7E, 448, 0x08, 0x1p-6, 0x1p-9, 0x1.cp-7, 464},
    {Format::e5m2, 0x7B, 57344, 0x04, 0x1p-14, 0x1p-16, 0x1.8p-15, 61440},
    {Format::e2m1, 0x7, 6, 0x2, 1, 0.5, 0.5, 7},
    {Format::e2m3, 0x1F, 7.5, 0x08, 1, 0.125, 0.875, 7.75},
    {Format::e3m2, 0x1F, 28, 0x04, 0.25, 0.0625, 0.1875, 30},
    {Format::e5m6, 0x7BF, 65024, 0x040, 0x1p-14, 0x1p-20, 0x1.f8p-15, 65280},
    {Format::bf16, 0x7F7F, 0x1.fep127, 0x0080, 0x1p-126, 0x1p-133, 0x1.fcp-127, 0x1.ffp127},
    {Format::fp16, 0x7BFF, 65504, 0x0400, 0x1p-14, 0x1p-24, 0x1.ff8p-15, 65520},
    {Format::fp32, 0x7F7FFFFF, 0x1.fffffep127, 0x00800000, 0x1p-126, 0x1p-149, 0x1.fffffcp-127, 0x1.ffffffp127},
};

constexpr std::uint32_t nearest_saturated(Format format, double v) {
  return encode(format, v, Rounding::nearest_even, Overflow::saturate);
}

constexpr std::uint32_t nearest(Format format, double v) {
  return encode(format, v, Rounding::nearest_even, Overflow::non_saturate);
}

constexpr double next_above(double v) { return std::bit_cast<double>(std::bit_cast<std::uint64_t>(v) + 1); }
constexpr double next_below(double v) { return std::bit_cast<double>(std::bit_cast<std::uint64_t>(v) - 1); }

constexpr bool values_hold(const Landmarks& l) {
  const std::uint32_t sign = std::uint32_t{1} << (spec(l.format).bits - 1);
  return spec(l.format).max_code == l.max_code && decode(l.format, 0) == 0 && decode(l.format, 1) == l.subnormal_step &&
         decode(l.format, l.min_normal_code - 1) == l.max_subnormal &&
         decode(l.format, l.min_normal_code) == l.min_normal && decode(l.format, l.max_code) == l.max &&
         decode(l.format, sign | l.max_code) == -l.max &&
         std::bit_cast<std::uint64_t>(decode(l.format, sign)) == std::uint64_t{1} << 63;
}

constexpr bool overflow_holds(const Landmarks& l) {
  const std::uint32_t sign = std::uint32_t{1} << (spec(l.format).bits - 1);
  const Encoding encoding = spec(l.format).encoding;
  const std::uint32_t beyond = encoding == Encoding::finite_only ? l.max_code : l.max_code + 1;
  const bool tie_stays = l.max_code % 2 == 0;
  const bool nan_below_zero = encoding == Encoding::nan_only;  // E4M3 overflows to NaN, which has no sign to promise
  return nearest_saturated(l.format, next_below(l.overflow_threshold)) == l.max_code &&
         nearest_saturated(l.format, next_above(l.overflow_threshold)) == l.max_code &&
         nearest_saturated(l.format, -kInfinity) == (sign | l.max_code) &&
         nearest(l.format, next_below(l.overflow_threshold)) == l.max_code &&
         nearest(l.format, l.overflow_threshold) == (tie_stays ? l.max_code : beyond) &&
         nearest(l.format, next_above(l.overflow_threshold)) == beyond && nearest(l.format, kInfinity) == beyond &&
         nearest(l.format, -kInfinity) == (nan_below_zero ? beyond : sign | beyond);
}

// The tie at half the smallest value goes to zero, the next value up does not.
constexpr bool underflow_holds(const Landmarks& l) {
  const double half = l.subnormal_step / 2;
  return nearest_saturated(l.format, half) == 0 && nearest_saturated(l.format, next_above(half)) == 1 &&
         encode(l.format, half, Rounding::nearest_away, Overflow::saturate) == 1 &&
         encode(l.format, next_below(l.subnormal_step), Rounding::toward_zero, Overflow::saturate) == 0 &&
         encode(l.format, next_above(0), Rounding::upward, Overflow::saturate) == 1;
}

constexpr bool all_hold(bool (*holds)(const Landmarks&)) {
  for (const Landmarks& l : kLandmarks) {
    if (!holds(l)) return false;
  }
  return true;
}

static_assert(all_hold(values_hold));
static_assert(all_hold(overflow_holds));
static_assert(all_hold(underflow_holds));

// Infinities and NaNs: which codes they are, and which formats have none.
static_assert(is_nan(decode(Format::e4m3, 0x7F)) && is_nan(decode(Format::e4m3, 0xFF)));
static_assert(decode(Format::e5m2, 0x7C) == kInfinity && decode(Format::e5m2, 0xFC) == -kInfinity);
static_assert(is_nan(decode(Format::e5m2, 0x7D)) && is_nan(decode(Format::e5m2, 0x7F)) &&
              is_nan(decode(Format::e5m2, 0xFD)) && is_nan(decode(Format::e5m2, 0xFF)));
static_assert(decode(Format::e5m6, 0x7C0) == kInfinity && is_nan(decode(Format::e5m6, 0x7C1)));
static_assert(decode(Format::bf16, 0x7F80) == kInfinity && is_nan(decode(Format::bf16, 0x7F81)));
static_assert(decode(Format::fp16, 0xFC00) == -kInfinity && is_nan(decode(Format::fp16, 0x7E00)));
static_assert(decode(Format::fp32, 0x7F800000) == kInfinity && is_nan(decode(Format::fp32, 0xFFC00000)));
static_assert(decode(Format::e2m1, 0xF) == -6 && decode(Format::e2m3, 0x3F) == -7.5 &&
              decode(Format::e3m2, 0x3F) == -28);

// E2M1 whole: 0 0.5 1 1.5 2 3 4 6.
static_assert(decode(E2m1{{2}}) == 1 && decode(E2m1{{3}}) == 1.5 && decode(E2m1{{4}}) == 2 && decode(E2m1{{5}}) == 3 &&
              decode(E2m1{{6}}) == 4);

// E8M0: no zero, no sign, no infinity.
static_assert(decode(E8m0{{0x00}}) == 0x1p-127 && decode(E8m0{{0x7F}}) == 1 && decode(E8m0{{0xFE}}) == 0x1p127);
static_assert(is_nan(decode(E8m0{{0xFF}})));
static_assert(nearest(Format::e8m0, 0.0) == 0x00 && nearest(Format::e8m0, -1.0) == 0x7F);
static_assert(encode<E8m0>(0x1.000002p0, Rounding::upward, Overflow::saturate) == E8m0{{0x80}});
static_assert(encode<E8m0>(0x1.fffffep0, Rounding::toward_zero, Overflow::saturate) == E8m0{{0x7F}});
static_assert(encode<E8m0>(1.5, Rounding::nearest_even, Overflow::saturate) == E8m0{{0x80}});

// MXINT8: two's complement sixty-fourths; 0x80 is read but never written.
static_assert(decode(MxInt8{{0x7F}}) == 1.984375 && decode(MxInt8{{0x80}}) == -2 && decode(MxInt8{{0x01}}) == 0.015625);
static_assert(encode<MxInt8>(-2.0, Rounding::nearest_even, Overflow::saturate) == MxInt8{{0x81}});

// A NaN becomes the one code that the format has for it.
static_assert(encode<E4m3>(std::numeric_limits<double>::quiet_NaN(), Rounding::nearest_even, Overflow::saturate) ==
              E4m3{{0x7F}});
static_assert(encode<E5m2>(-std::numeric_limits<double>::quiet_NaN(), Rounding::nearest_even, Overflow::saturate) ==
              E5m2{{0x7F}});
static_assert(encode<E8m0>(std::numeric_limits<double>::quiet_NaN(), Rounding::toward_zero, Overflow::saturate) ==
              E8m0{{0xFF}});

}  // namespace
}  // namespace mxcheck
