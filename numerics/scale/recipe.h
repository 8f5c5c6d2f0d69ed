#pragma once
// A recipe is everything that decides the bytes of a quantized block: scale rule, special values, clamps, how elements
// are scaled, rounded and saturated. Presets carry the names of the implementations whose bytes they reproduce; the
// default recipe is the norm. docs/numerics.md states, preset by preset, what is evidenced and what is assumed.
//
//   const Recipe te = recipe_named("te");
//   const BlockScale s = block_scale(te, Format::e4m3, {.amax = 448});   // s.byte == 127, s.factor == 1
//   encode_element(te, Format::e4m3, s, 449.0F) == 0x7E
//
// Errors: Error{usage} of recipe_named; block_scale and encode_element have none.
//
// Stochastic rounding takes the value that a kernel has in FP32: where the quotient is exact it is rounded to FP32
// first.

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "numerics/format/codec.h"
#include "numerics/format/format.h"
#include "numerics/scale/scale_rule.h"
#include "numerics/scale/two_level.h"

namespace mxcheck {

enum class NanPolicy : std::uint8_t {
  propagate,  // a NaN makes the block's amax NaN: nan_byte and nan_factor decide
  drop,       // a NaN does not count towards amax; the element alone becomes the NaN code
  refuse,     // Error{input} naming the element, thrown by the reader of the elements; block_scale itself propagates
};

// The value v that is rounded to the code of a block's element x.
enum class ElementScaling : std::uint8_t {
  exact,                // v = x * 2^(127 - byte), or x / scale in FP32 for ScaleRule::fp32
  shifted_exponent,     // as a factor with bits (254 - byte) << 23 in 32 bits: 0 for byte 254, -Inf for byte 255
  one_at_byte_zero,     // as exact, but a factor of 1 for byte 0
  zero_at_byte_zero,    // as exact, but a factor of 0 for byte 0
  normal_at_byte_zero,  // as exact, but a factor of 2^126 for byte 0: the smallest normal scale
  half_in_fp32,      // as exact, but |v| one float below half the smallest step is that half: in FP32 it and 0.5 make 1
  times_reciprocal,  // ScaleRule::fp32 only: v = RN(x * RN(1 / scale))
  times_quotient,    // ScaleRule::fp32 only: v = RN(x * RN(vmax / amax))
};

// The zeros that lose their sign. An input of -0 loses it in all but `none`.
enum class DropNegativeZero : std::uint8_t {
  none,
  of_quotient,  // v is x / 2^e in FP32, and where that underflows to -0 it becomes +0
  of_code,      // every code of zero is that of +0
};

inline constexpr double kPoison = std::numeric_limits<double>::quiet_NaN();

struct Recipe {
  std::string name = "rceil";
  std::string checked_against;  // library and release or commit whose bytes these are; none for the rules' own recipes
  ScaleRule rule = ScaleRule::rceil;
  NanPolicy nan = NanPolicy::propagate;
  float amax_min = 0;         // amax is raised to this before the rule
  float quotient_min = 0;     // the quotient a * RN(1/vmax) is raised to this before rounding (rceil_fp32 only)
  std::uint8_t byte_min = 0;  // the byte is clamped to [byte_min, byte_max]
  std::uint8_t byte_max = 255;
  std::optional<std::uint8_t> inf_byte = 255;  // byte when amax is Inf; none: what the rule gives for 2^128
  std::uint8_t nan_byte = 255;                 // byte when amax is NaN
  // Factor of the elements when the byte is 255, by what amax was. kPoison: every element becomes the NaN code.
  // ScaleRule::fp32: when amax is Inf or NaN; the stored scale is then NaN if the factor is kPoison, otherwise +Inf.
  double inf_factor = kPoison;
  double nan_factor = kPoison;
  ElementScaling scaling = ElementScaling::exact;
  Rounding rounding = Rounding::nearest_even;
  Overflow overflow = Overflow::saturate;
  DropNegativeZero drop_negative_zero = DropNegativeZero::none;
  bool nan_sign = false;  // the NaN code is written with its sign bit set (0xFF)
  TwoLevel two_level;     // ScaleRule::e4m3: the tensor's scale, and the block's below it

  // E8M0, FP32 or E4M3. Kernel libraries are queried for recipes of E8M0 scales (kernels/candidate.h has no FP32
  // scales), and only those have layouts (reference/quantize/scale_layout.h).
  [[nodiscard]] Format scale_format() const { return format_of_scales(rule); }
  [[nodiscard]] bool has_e8m0_scales() const { return scale_format() == Format::e8m0; }
  [[nodiscard]] bool has_two_levels() const { return rule == ScaleRule::e4m3; }
};

// ScaleRule::fp32: the stored scale where RN(amax / vmax) is 0, that is of blocks of zeros and of the smallest
// subnormals. The same in all recipes.
inline constexpr float kScaleOfZeroQuotient = 1;

// The recipes of one level of scales by name: the five rules' own (rceil, floor, ceil, even, fp32) and the presets.
// Order is stable.
std::span<const Recipe> all_recipes();

// The recipes of two levels: nvfp4, which is the norm, computed as if exactly, and the presets. Order is stable.
std::span<const Recipe> two_level_recipes();

// The names of both lists.
std::vector<std::string> recipe_names();

// A copy of the recipe with this name or alias (deepgemm, microxcaling, cutlass), of one level of scales, and of either
// list. Error{usage} lists the names, or says that the recipe has two levels.
Recipe any_recipe_named(std::string_view name);
Recipe recipe_named(std::string_view name);

// The properties of a block that decide its scale.
struct BlockAmax {
  float amax = 0;  // largest magnitude: +Inf if any element is infinite; NaN elements not counted
  bool has_nan = false;
};

// A block's scale and what happens to its elements.
struct BlockScale {
  std::uint8_t byte = 0;    // E8M0 and E4M3 rules: the stored scale
  float scale = 0;          // ScaleRule::fp32: the stored scale; otherwise its decoded value (NaN for byte 255)
  bool poisoned = false;    // every element becomes the NaN code
  double factor = 1;        // v = x * factor ...
  bool divide = false;      // ... or x / factor ...
  bool round_fp32 = false;  // ... rounded to FP32 before encoding
};

BlockScale block_scale(const Recipe& recipe, Format element, BlockAmax block);

// The same below an outer scale: ScaleRule::e4m3, whose byte is the E4M3 code (0x7F: NaN) and whose scale is its value.
// Without one the outer scale is 1. `stretch` is that of two_level_scale.
BlockScale block_scale(const Recipe& recipe, Format element, BlockAmax block, OuterScale outer, float stretch = 1);

// The byte for an amax given as a number, NaN and Inf included: what `mxcheck scale` prints.
std::uint8_t scale_byte_for_amax(const Recipe& recipe, Format element, float amax);

// The code of x in a block with this scale.
std::uint32_t encode_element(const Recipe& recipe, Format element, const BlockScale& scale, float x,
                             std::uint32_t random_word = 0);

}  // namespace mxcheck
