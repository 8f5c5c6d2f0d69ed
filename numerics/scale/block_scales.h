#pragma once
// block_scale of one recipe and element format, prepared for many blocks: the same values, ten times as fast.
//
// Within a binade, the floats [2^e, 2^(e+1)), every rule's byte is a ceiling, a floor or a rounding of log2 amax plus a
// constant, after roundings that keep the order: it does not decrease, and has two values at most. So block_scale is
// asked at both ends of a binade, the amax from which on it is that of the upper end is found by bisection, and each
// block is one comparison. Zero, subnormals (which are many binades), Inf, NaN and FP32 scales are block_scale's own.
//
//   BlockScales scale_of(recipe_named("rceil"), Format::e4m3);
//   scale_of({.amax = 448}).byte == 127
//
// Errors: none. Not for several threads at once: a binade is prepared when it is first met.

#include <array>
#include <bit>
#include <cstdint>

#include "numerics/scale/recipe.h"

namespace mxcheck {

class BlockScales {
 public:
  // The recipe must live as long.
  BlockScales(const Recipe& recipe, Format element) : recipe_(recipe), element_(element) {}

  // Until the next call.
  const BlockScale& operator()(BlockAmax block) {
    const auto bits = std::bit_cast<std::uint32_t>(block.amax);
    const std::uint32_t field = bits >> kMantissaBits;
    const bool in_a_binade = field >= 1 && field <= 254 && !block.has_nan && recipe_.has_e8m0_scales();
    if (!in_a_binade) return other_ = block_scale(recipe_, element_, block);
    Binade& binade = binades_[field];
    if (!binade.is_prepared) prepare(binade, field);
    return bits >= binade.first_upper ? binade.upper : binade.lower;
  }

 private:
  static constexpr int kMantissaBits = 23;
  struct Binade {
    bool is_prepared = false;
    std::uint32_t first_upper = 0;  // the bits of the first amax whose scale is `upper`
    BlockScale lower;
    BlockScale upper;
  };
  void prepare(Binade& binade, std::uint32_t field) const;

  const Recipe& recipe_;
  Format element_;
  std::array<Binade, 255> binades_{};
  BlockScale other_;
};

}  // namespace mxcheck
