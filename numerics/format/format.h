#pragma once
// Number formats as data and as types. A format is a type that holds bits, never a float.
//
// Sources: OCP 8-bit Floating Point Specification (OFP8) 1.0 for E4M3 and E5M2; OCP Microscaling Formats (MX) 1.0 for
// E8M0, E2M1, E2M3, E3M2 and MXINT8; IEEE 754-2008 for FP16 and FP32; BF16 is the upper half of FP32; E5M6 is the top
// twelve bits of FP16 (DeepSeek-V3).
//
//   spec(Format::e4m3).max_code == 0x7E,  find_format("float8_e5m2") == Format::e5m2
//
// Errors: none.
//
// Does not promise: arithmetic. Codes are converted to and from exact values (numerics/format/codec.h), nothing else.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace mxcheck {

// Number formats, whose codes are converted to and from values, and, from uint8 on, what else tensors hold.
enum class Format : std::uint8_t {
  e4m3,
  e5m2,
  e8m0,
  bf16,
  fp16,
  e2m1,
  e2m3,
  e3m2,
  mxint8,
  e5m6,
  fp32,
  uint8,
  int8,
  uint16,
  uint32,
  int32,
  int64,
  fp64,
  e2m1x2
};

// Every number format; integers and FP64 are none.
inline constexpr std::array kAllFormats{Format::e4m3,   Format::e5m2, Format::e8m0, Format::bf16,
                                        Format::fp16,   Format::e2m1, Format::e2m3, Format::e3m2,
                                        Format::mxint8, Format::e5m6, Format::fp32};

enum class Encoding : std::uint8_t {
  ieee,          // sign, exponent, mantissa; exponent all ones is Inf (mantissa 0) or NaN
  nan_only,      // sign, exponent, mantissa; NaN is all ones below the sign, no Inf (E4M3, "fn")
  finite_only,   // sign, exponent, mantissa; every code is a number (E2M1, E2M3, E3M2)
  power_of_two,  // exponent only: 2^(code - bias), all ones is NaN, no zero, no sign (E8M0)
  fixed_point,   // two's complement times 2^-6 (MXINT8)
  storage,       // integers, FP64, two packed codes: tensors hold them, no code of theirs is converted
};

// The description of a format. For sign-exponent-mantissa formats the value of a code is
//   exponent field 0:  (-1)^s * mantissa * 2^(1 - bias - mantissa_bits)
//   otherwise:         (-1)^s * (2^mantissa_bits + mantissa) * 2^(exponent field - bias - mantissa_bits)
struct FormatSpec {
  std::string_view name;        // "e4m3": the name in flags and reports
  std::string_view dtype_name;  // "float8_e4m3fn": the name in PyTorch and ml_dtypes
  Encoding encoding;
  int bits;  // width of a code
  int exponent_bits;
  int mantissa_bits;
  int bias;
  std::uint32_t max_code;  // code of the largest finite value
  std::uint32_t nan_code;  // what an encoder writes for NaN; formats without NaN: max_code, as cuda_fp4/fp6 do
  bool is_element;         // of a scaled block: what operations can be asked to quantize to
  bool is_value;           // what tensors hold before quantization and after dequantization
  bool is_quantized;       // what the reference quantizes to: elements, and E5M6, for which no library is queried
};

inline constexpr std::array<FormatSpec, 19> kFormatSpecs{{
    {"e4m3", "float8_e4m3fn", Encoding::nan_only, 8, 4, 3, 7, 0x7E, 0x7F, true, false, true},
    {"e5m2", "float8_e5m2", Encoding::ieee, 8, 5, 2, 15, 0x7B, 0x7F, true, false, true},
    {"e8m0", "float8_e8m0fnu", Encoding::power_of_two, 8, 8, 0, 127, 0xFE, 0xFF, false, false, false},
    {"bf16", "bfloat16", Encoding::ieee, 16, 8, 7, 127, 0x7F7F, 0x7FC0, false, true, false},
    {"fp16", "float16", Encoding::ieee, 16, 5, 10, 15, 0x7BFF, 0x7E00, false, true, false},
    {"e2m1", "float4_e2m1fn", Encoding::finite_only, 4, 2, 1, 1, 0x7, 0x7, true, false, true},
    {"e2m3", "float6_e2m3fn", Encoding::finite_only, 6, 2, 3, 1, 0x1F, 0x1F, true, false, true},
    {"e3m2", "float6_e3m2fn", Encoding::finite_only, 6, 3, 2, 3, 0x1F, 0x1F, true, false, true},
    {"mxint8", "mxint8", Encoding::fixed_point, 8, 0, 6, 0, 0x7F, 0x7F, true, false, true},
    {"e5m6", "e5m6", Encoding::ieee, 12, 5, 6, 15, 0x7BF, 0x7E0, false, false, true},
    {"fp32", "float32", Encoding::ieee, 32, 8, 23, 127, 0x7F7FFFFF, 0x7FC00000, false, true, false},
    {"uint8", "uint8", Encoding::storage, 8, 0, 0, 0, 0xFF, 0, false, false, false},
    {"int8", "int8", Encoding::storage, 8, 0, 0, 0, 0x7F, 0, false, false, false},
    {"uint16", "uint16", Encoding::storage, 16, 0, 0, 0, 0xFFFF, 0, false, false, false},
    {"uint32", "uint32", Encoding::storage, 32, 0, 0, 0, 0xFFFFFFFF, 0, false, false, false},
    {"int32", "int32", Encoding::storage, 32, 0, 0, 0, 0x7FFFFFFF, 0, false, false, false},
    {"int64", "int64", Encoding::storage, 64, 0, 0, 0, 0, 0, false, false, false},
    {"fp64", "float64", Encoding::storage, 64, 11, 52, 1023, 0, 0, false, false, false},
    {"e2m1x2", "float4_e2m1fn_x2", Encoding::storage, 8, 0, 0, 0, 0xFF, 0, false, false, false},
}};

constexpr const FormatSpec& spec(Format format) { return kFormatSpecs[static_cast<std::size_t>(format)]; }

// Bytes that an element has in memory, where it is not packed: a code of up to 8 bits has one, one of up to 16 two.
constexpr std::size_t size_of(Format format) {
  const int bits = spec(format).bits;
  return bits <= 8 ? 1 : bits <= 16 ? 2 : bits <= 32 ? 4 : 8;
}

// Unsigned integers as wide as a number format's codes in memory: what files hold the codes as.
constexpr Format bits_of(Format format) {
  const std::size_t bytes = size_of(format);
  return bytes == 1 ? Format::uint8 : bytes == 2 ? Format::uint16 : Format::uint32;
}

// A number format, by either name.
constexpr std::optional<Format> find_format(std::string_view name) {
  for (Format format : kAllFormats) {
    if (spec(format).name == name || spec(format).dtype_name == name) return format;
  }
  return std::nullopt;
}

namespace detail {
template <std::size_t kCount>
constexpr std::array<Format, kCount> formats_where(bool FormatSpec::*property) {
  std::array<Format, kCount> found{};
  std::size_t n = 0;
  for (Format format : kAllFormats) {
    if (spec(format).*property) found[n++] = format;
  }
  return found;
}
constexpr std::size_t count_where(bool FormatSpec::*property) {
  std::size_t n = 0;
  for (Format format : kAllFormats) n += spec(format).*property ? 1 : 0;
  return n;
}
}  // namespace detail

// Every element format, in the order of the table: every operation is queried for each of them.
inline constexpr auto kElementFormats =
    detail::formats_where<detail::count_where(&FormatSpec::is_element)>(&FormatSpec::is_element);
// Every format that the reference quantizes to: those and E5M6.
inline constexpr auto kQuantizedFormats =
    detail::formats_where<detail::count_where(&FormatSpec::is_quantized)>(&FormatSpec::is_quantized);
// Every type of values, the usual one first.
inline constexpr std::array kValueFormats{Format::bf16, Format::fp32, Format::fp16};
static_assert(kValueFormats.size() == detail::count_where(&FormatSpec::is_value));

// One type a format; Code is the smallest unsigned integer that holds the bits.
template <Format kFormat, class Code>
struct FormatType {
  Code bits;
  static constexpr Format format = kFormat;
  friend constexpr bool operator==(FormatType, FormatType) = default;
};

struct E4m3 : FormatType<Format::e4m3, std::uint8_t> {};
struct E5m2 : FormatType<Format::e5m2, std::uint8_t> {};
struct E8m0 : FormatType<Format::e8m0, std::uint8_t> {};
struct Bf16 : FormatType<Format::bf16, std::uint16_t> {};
struct Fp16 : FormatType<Format::fp16, std::uint16_t> {};
struct E2m1 : FormatType<Format::e2m1, std::uint8_t> {};
struct E2m3 : FormatType<Format::e2m3, std::uint8_t> {};
struct E3m2 : FormatType<Format::e3m2, std::uint8_t> {};
struct MxInt8 : FormatType<Format::mxint8, std::uint8_t> {};
struct E5m6 : FormatType<Format::e5m6, std::uint16_t> {};

}  // namespace mxcheck
