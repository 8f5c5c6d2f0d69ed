#pragma once
// The fused dot-product-add of tensor cores: one step of one output element, to the bit, in integers.
//
//   d = convert( sum over k of align(a_k * b_k) + align(c) )
//
// 1. A finite code is (-1)^s * M * 2^(E - m). E is the encoded exponent, 1 - bias for subnormals and zero, which stay
//    as they are (no normalization); m is the count of stored fraction bits. A product has the exponent E_a + E_b (plus
//    those of its E8M0 scales) and is not normalized either.
// 2. The window is the largest exponent among the products that are not zero, c if it is not zero, and window_floor.
// 3. Every term is truncated toward zero to a multiple of 2^(window - fraction_bits), separately.
// 4. The sum of what is left is exact, and converted once: truncated toward zero (FP32, or E8M13 in an FP32 word), or
//    rounded to nearest even (FP16). 2^128 and beyond is Inf, even where the conversion truncates. A zero is +0,
//    always.
// 5. Any NaN, Inf * 0, or infinities of both signs give the canonical NaN (0x7FFFFFFF, 0x7FFF); otherwise an infinity
//    among the terms is the result.
//
// Sources: Xie et al., MMA-Sim (arXiv 2511.10909); Khattak and Mikaitis (arXiv 2512.07004); both reverse-engineered, as
// NVIDIA documents none of it. numerics/accumulate/contract.h says of each set of constants how it was checked.
//
//   const FusedSum& step = contract_named("sm90_fp8").step;
//   const Factor one = factor(Format::e4m3, 0x38);
//   fused_sum(step, {&one, 1}, {&one, 1}, 0x3F800000) == 0x40000000    // 1 * 1 + 1
//
// Errors: Error{usage}, where a function says so.
//
// Does not promise: speed. reference/matmul/matmul.h has a fast engine for the same sums.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "numerics/format/format.h"

namespace mxcheck {

// A decoded operand: the input of steps 1 and 5.
struct Factor {
  enum class Kind : std::uint8_t { finite, infinite, nan };
  Kind kind = Kind::finite;
  bool negative = false;
  std::uint32_t significand = 0;  // M; 0 for a zero
  int exponent = 0;               // E
  int fraction_bits = 0;          // m
};

// Error{usage} for formats without sign, exponent and mantissa (E8M0, MXINT8).
Factor factor(Format format, std::uint32_t code);

// The same, of a format that has them; inline, as GEMMs decode operands by the million.
constexpr Factor factor_of(const FormatSpec& f, std::uint32_t code) {
  const std::uint32_t sign = std::uint32_t{1} << (f.bits - 1);
  const bool negative = (code & sign) != 0;
  const std::uint32_t magnitude = code & (sign - 1);
  if (magnitude > f.max_code) {
    const bool infinite = f.encoding == Encoding::ieee && magnitude == f.max_code + 1;
    return {infinite ? Factor::Kind::infinite : Factor::Kind::nan, negative, 0, 0, f.mantissa_bits};
  }
  const int field = static_cast<int>(magnitude >> f.mantissa_bits);
  const std::uint32_t hidden = std::uint32_t{1} << f.mantissa_bits;
  const std::uint32_t mantissa = magnitude & (hidden - 1);
  return {Factor::Kind::finite, negative, field == 0 ? mantissa : hidden | mantissa, (field == 0 ? 1 : field) - f.bias,
          f.mantissa_bits};
}

enum class Alignment : std::uint8_t { toward_zero, downward, nearest_even };

// The output of a step: the format and the rounding that its exact sum is converted by.
struct SumOutput {
  FormatSpec format;    // its codes, shifted left by `shift`, are the bits of d
  int shift;            // 10 for E8M13 in an FP32 word
  bool rounds_to_even;  // false: truncated toward zero
  std::uint32_t nan;    // the canonical NaN
  Format c;             // format of the word of c
};

inline constexpr SumOutput kFp32Output{spec(Format::fp32), 0, false, 0x7FFFFFFF, Format::fp32};
inline constexpr SumOutput kFp16Output{spec(Format::fp16), 0, true, 0x7FFF, Format::fp16};
inline constexpr SumOutput kE8m13Output{
    {"e8m13", "e8m13", Encoding::ieee, 22, 8, 13, 127, 0x1FDFFF, 0x1FF000, false, false, false},
    10,
    false,
    0x7FFFFFFF,
    Format::fp32};

// The constants of one instruction. The last five describe published models of tensor cores that are wrong; tests show
// that the test vectors contradict them.
struct FusedSum {
  int terms;          // products in one sum: the K of one instruction
  int fraction_bits;  // kept below the window
  SumOutput output;
  int window_floor;
  int group = 1;  // products that are summed exactly before they are aligned, by their scales' exponents alone (FP4)

  Alignment alignment = Alignment::toward_zero;
  bool normalizes_products = false;
  bool zero_products_count = false;  // in the window
  bool adds_c_last = false;          // rounds without c, then adds it in FP32
  bool saturates = false;            // the largest finite value in place of Inf
};

// Scales of one step: E8M0 codes, or UE4M3 (E4M3 whose sign is ignored); one for every `terms / scales` products.
struct StepScales {
  Format format = Format::e8m0;
  std::span<const std::uint8_t> a;
  std::span<const std::uint8_t> b;
};

// The alignment and truncation of one term.
struct FusedTerm {
  int index;  // of the product, or of the group; -1 for c
  bool negative;
  std::uint64_t magnitude;  // the term is +-magnitude * 2^unit
  int unit;
  int exponent;        // that it was aligned by
  std::int64_t units;  // what was kept, in units of 2^(window - fraction_bits)
  bool cut;            // truncation lost bits
};

struct FusedTrace {
  std::uint32_t word = 0;  // d
  bool special = false;    // step 5 decided; nothing below was computed
  int window = 0;
  std::int64_t sum = 0;          // in units of 2^(window - fraction_bits)
  std::vector<FusedTerm> terms;  // those that are not zero
};

// Step 4: units * 2^exponent in the output's format. |units| is below 2^53, as every sum of a step is.
std::uint32_t converted_sum(const FusedSum& f, std::int64_t units, int exponent);

// d for one step: a and b hold f.terms factors each, fewer where K ends (the rest are zeros). Error{usage} for more,
// for another number of scales, or for terms that differ in their fraction bits beyond what 64 bits hold.
std::uint32_t fused_sum(const FusedSum& f, std::span<const Factor> a, std::span<const Factor> b, std::uint32_t c,
                        const StepScales* scales = nullptr, FusedTrace* trace = nullptr);

}  // namespace mxcheck
