// The value tables of the formats, proved by compiling. Nothing here is called.
//
// Expected values are those of the specifications named in numerics/format/format.h, written as numbers, not computed.

#include "numerics/format/packing.h"

#include <bit>
#include <cstdint>
#include <limits>
#include <string>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/format/format.h"

namespace mxcheck {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr bool is_nan(double v) { return v != v; }

// The landmarks of a sign-exponent-mantissa format: codes and the values they stand for.
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

constexpr int kE5m6Bits = spec(Format::e5m6).bits;
static_assert(kE5m6CodesPerGroup * kE5m6Bits == kE5m6WordsPerGroup * 32);

void require_width(Format format, std::uint32_t code, std::size_t index) {
  if (code >> spec(format).bits == 0) return;
  throw Error(ErrorKind::input, "code " + std::to_string(code) + " at index " + std::to_string(index) + " is no " +
                                    std::string(spec(format).name) + " code; the largest is " +
                                    std::to_string((1U << spec(format).bits) - 1));
}

void require_multiple(std::size_t size, std::size_t of, const char* what) {
  if (size % of == 0) return;
  throw Error(ErrorKind::usage, std::to_string(size) + " e5m6 " + what +
                                    " do not fill groups: the count must be a multiple of " + std::to_string(of));
}

// Bits [at, at + 32) of a group, counted from the highest bit of its first code, lie in word at / 32.
struct Place {
  std::size_t word;
  int shift;  // left shift of a code within the word; negative: its low bits continue in the next word
};

Place place_of(std::size_t index_in_group) {
  const int first_bit = static_cast<int>(index_in_group) * kE5m6Bits;
  return {static_cast<std::size_t>(first_bit / 32), 32 - kE5m6Bits - first_bit % 32};
}

}  // namespace

std::vector<std::uint8_t> pack_e2m1(std::span<const std::uint8_t> codes) {
  std::vector<std::uint8_t> bytes(codes.size() / 2 + codes.size() % 2);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    require_width(Format::e2m1, codes[i], i);
    bytes[i / 2] = static_cast<std::uint8_t>(bytes[i / 2] | codes[i] << (i % 2 * 4));
  }
  return bytes;
}

std::vector<std::uint8_t> unpack_e2m1(std::span<const std::uint8_t> bytes, std::size_t count) {
  if (bytes.size() != count / 2 + count % 2) {
    throw Error(ErrorKind::usage, std::to_string(count) + " e2m1 codes take " + std::to_string(count / 2 + count % 2) +
                                      " bytes, not " + std::to_string(bytes.size()));
  }
  if (count % 2 != 0 && bytes.back() >> 4 != 0) {
    throw Error(ErrorKind::input,
                "the unused high nibble of the last byte of " + std::to_string(count) + " e2m1 codes is not zero");
  }
  std::vector<std::uint8_t> codes(count);
  for (std::size_t i = 0; i < count; ++i) codes[i] = static_cast<std::uint8_t>(bytes[i / 2] >> (i % 2 * 4) & 0xF);
  return codes;
}

std::vector<std::byte> packed_rows(std::span<const std::uint8_t> codes, std::int64_t cols) {
  const auto width = static_cast<std::size_t>(cols);
  std::vector<std::byte> bytes;
  if (width == 0) return bytes;
  bytes.reserve(codes.size() / width * ((width + 1) / 2));
  for (std::size_t row = 0; row < codes.size(); row += width) {
    for (std::size_t j = 0; j < width; j += 2) {
      const unsigned high = j + 1 < width ? codes[row + j + 1] : 0U;
      bytes.push_back(static_cast<std::byte>(codes[row + j] | high << 4));
    }
  }
  return bytes;
}

std::vector<std::uint8_t> unpacked_rows(std::span<const std::byte> bytes, std::int64_t cols) {
  const auto width = static_cast<std::size_t>(cols);
  const std::size_t packed = (width + 1) / 2;
  std::vector<std::uint8_t> codes;
  for (std::size_t row = 0; packed != 0 && row + packed <= bytes.size(); row += packed) {
    for (std::size_t j = 0; j < width; ++j) {
      const auto byte = static_cast<std::uint8_t>(bytes[row + j / 2]);
      codes.push_back(j % 2 == 0 ? byte & 0xF : byte >> 4);
    }
  }
  return codes;
}

std::vector<std::uint32_t> pack_e5m6(std::span<const std::uint16_t> codes) {
  require_multiple(codes.size(), kE5m6CodesPerGroup, "codes");
  std::vector<std::uint32_t> words(codes.size() / kE5m6CodesPerGroup * kE5m6WordsPerGroup);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    require_width(Format::e5m6, codes[i], i);
    const Place place = place_of(i % kE5m6CodesPerGroup);
    std::uint32_t* word = &words[i / kE5m6CodesPerGroup * kE5m6WordsPerGroup + place.word];
    const std::uint32_t code = codes[i];
    if (place.shift >= 0) {
      word[0] |= code << place.shift;
    } else {
      word[0] |= code >> -place.shift;
      word[1] |= code << (32 + place.shift);
    }
  }
  return words;
}

std::vector<std::uint16_t> unpack_e5m6(std::span<const std::uint32_t> words) {
  require_multiple(words.size(), kE5m6WordsPerGroup, "words");
  std::vector<std::uint16_t> codes(words.size() / kE5m6WordsPerGroup * kE5m6CodesPerGroup);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const Place place = place_of(i % kE5m6CodesPerGroup);
    const std::uint32_t* word = &words[i / kE5m6CodesPerGroup * kE5m6WordsPerGroup + place.word];
    const std::uint32_t bits =
        place.shift >= 0 ? word[0] >> place.shift : word[0] << -place.shift | word[1] >> (32 + place.shift);
    codes[i] = static_cast<std::uint16_t>(bits & ((1U << kE5m6Bits) - 1));
  }
  return codes;
}

}  // namespace mxcheck
