#pragma once
// NVFP4's two levels of scales: an E4M3 scale for each block, under one FP32 scale of the tensor (or of each row).
//
// Let amax be the tensor's largest magnitude, a the block's, vmax the elements' largest value (6 for E2M1) and L the
// largest block scale that is used (448). There are two FP32 numbers for the outer scale,
//   encode  S = L * vmax / amax         by which elements are multiplied
//   decode  s = amax / (L * vmax)       by which products are multiplied afterwards
// and the one that is not computed from amax is the other's reciprocal, RN(1 / S) or RN(1 / s). The value of an element
// is code * b * s with the block's scale b = E4M3(a / (vmax * s)). Implementations differ in the order of these
// operations, and so in bits; each operation below is rounded once to FP32 (RN), to nearest even.
//
//   const Recipe te = any_recipe_named("nvfp4_te");
//   const OuterScale outer = outer_scale(te, Format::e2m1, 2688);           // {.decode = 1, .encode = 1}
//   block_scale(te, Format::e2m1, {.amax = 6}, outer).byte == 0x38          // 1.0
//
// Sources: the implementations named in numerics/scale/recipe.cc; docs/nvfp4.md has a table of them.
// Errors: none. Does not promise: anything about elements; that is numerics/scale/recipe.h.

#include <cstdint>
#include <optional>

namespace mxcheck {

// The formula of the block's scale before it is rounded to E4M3, to nearest even and at most 448.
enum class BlockQuotient : std::uint8_t {
  exact,                  // a / (vmax * s), not rounded before it is rounded to E4M3
  quotient_times_encode,  // RN(RN(a / vmax) * S)
  product_times_encode,   // RN(RN(a * RN(1 / vmax)) * S)
  times_scaled_encode,    // RN(a * RN(S * RN(1 / vmax)))
  quotient_over_decode,   // RN(RN(a / vmax) / s)
  over_scaled_decode,     // RN(a / RN(vmax * s))
};

// The formula that makes of an element x the value that is rounded to a code; b is the value of the E4M3 scale.
enum class ElementQuotient : std::uint8_t {
  exact,                 // x / (b * s), not rounded before it is rounded to a code
  inverse_of_product,    // RN(x * RN(1 / RN(b * s)))
  over_product,          // RN(x / RN(b * s))
  encode_over_scale,     // RN(x * RN(S / b))
  encode_times_inverse,  // RN(x * RN(S * RN(1 / b)))
  over_quotient,         // RN(x / RN(b / S))
};

// The test for blocks of zeros: their elements are multiplied by 0.
enum class ZeroTest : std::uint8_t {
  none,         // none: the arithmetic decides. A scale of 0 has the factor 1 / 0
  of_amax,      // a == 0; the scale is then 0 too, whatever the outer scale is
  of_quotient,  // the quotient is 0 before it is rounded to E4M3
  of_scale,     // the E4M3 scale is 0
};

// The outer scale as it lies beside the codes, and the value of an element by it (b, the block's scale).
enum class StoredScale : std::uint8_t {
  decode,  // s: code * b * s
  encode,  // S: code * b / S
  amax,    // amax: code * b * amax / (L * vmax)
};

// The tensor's amax.
enum class TensorAmax : std::uint8_t {
  finite,      // of its finite elements
  drops_nan,   // NaN does not count, Inf does
  propagates,  // NaN if an element is
};

// Two scales for each block, with which its amax becomes 6 or 4, of which the one with the smaller error is taken; 6
// where they are equal. Four Over Six, arXiv 2512.02010.
enum class BlockChoice : std::uint8_t { none, squared_error, absolute_error, largest_error };

struct TwoLevel {
  bool encode_first = false;  // S is computed from amax, and s is RN(1 / S)
  StoredScale stored = StoredScale::decode;
  TensorAmax amax = TensorAmax::finite;
  float limit = 448;                    // L
  float amax_min = 0;                   // the tensor's amax is raised to this
  std::optional<float> of_zero = 1.0F;  // the number that is computed from amax where amax is 0 ...
  bool replaces_zero = false;           // ... or this number is: amax is infinite, or tiny
  std::optional<float> of_nonfinite;    // the same where this number is NaN or Inf
  bool has_largest_encode = false;      // S is at most FLT_MAX
  BlockQuotient block = BlockQuotient::exact;
  float block_min = 0;             // the block's quotient is raised to this before it is rounded to E4M3
  float of_zero_quotient = 0;      // a quotient of 0 becomes this, before it is raised
  std::uint8_t of_zero_scale = 0;  // an E4M3 code of 0 becomes this code
  bool inf_is_nan = false;         // a block with an Inf is as one with a NaN
  ElementQuotient element = ElementQuotient::exact;
  bool has_largest_factor = false;  // the elements' factor is at most FLT_MAX, which a NaN becomes too (fminf)
  ZeroTest zero = ZeroTest::none;
  BlockChoice choice = BlockChoice::none;
};

struct OuterScale {
  float decode = 1;  // s
  float encode = 1;  // S
};

// Both numbers, from the tensor's amax, and from the number that is stored. vmax: 6 for E2M1.
OuterScale outer_scale(const TwoLevel& levels, float vmax, float amax);
OuterScale outer_scale_of_stored(const TwoLevel& levels, float vmax, float stored);
// The number that is stored.
float stored_scale(const TwoLevel& levels, OuterScale outer, float amax);

// A block's quotient as it is rounded to E4M3, and the E4M3 code; 0x7F where the quotient is NaN. `stretch` is 1,
// or 1.5 for the scale with which the block's amax becomes 4.
struct TwoLevelScale {
  float quotient = 0;  // in FP32: of BlockQuotient::exact the rounded one, for ZeroTest alone
  std::uint8_t code = 0;
};
TwoLevelScale two_level_scale(const TwoLevel& levels, float vmax, OuterScale outer, float block_amax,
                              float stretch = 1);

}  // namespace mxcheck
