#pragma once
// block_scale of one recipe and element format, prepared for many blocks: the same values, ten times as fast.
//
// Every rule's byte is a ceiling, a floor or a rounding of log2 amax plus a constant, after roundings that keep the
// order: it does not decrease. So block_scale is asked at both ends of a binade, the floats [2^e, 2^(e+1)). Where the
// bytes there are equal or neighbours there is no third one between them: the amax from which on it is the upper one is
// found by bisection, and each block is one comparison. Other binades (rceil_ftz has one where the byte goes from 0 by
// 1 to 2), zero, subnormals (which are many binades), Inf, NaN and FP32 scales are block_scale's own.
//
//   BlockScales scale_of(recipe_named("rceil"), Format::e4m3);
//   scale_of({.amax = 448}).byte == 127
//
// Errors: none. Not for several threads at once: a binade is prepared when it is first met.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "numerics/scale/recipe.h"

namespace mxcheck {

class BlockScales {
 public:
  // The recipe must live as long.
  BlockScales(const Recipe& recipe, Format element) : recipe_(recipe), element_(element) {}

  BlockScale operator()(BlockAmax block) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(block.amax);
    if (!is_in_a_binade(block)) return block_scale(recipe_, element_, block);
    const Binade& binade = prepared(bits >> kMantissaBits);
    if (binade.has_more) return block_scale(recipe_, element_, block);
    return bits >= binade.first_upper ? binade.upper : binade.lower;
  }

  // Bytes and factors of many blocks, of a recipe with E8M0 scales. False: a block may be poisoned.
  bool find(std::span<const BlockAmax> blocks, std::uint8_t* bytes, double* factors);

 private:
  static constexpr int kMantissaBits = 23;
  struct Binade {
    bool is_prepared = false;
    bool has_more = false;          // than two bytes, perhaps
    std::uint32_t first_upper = 0;  // the bits of the first amax whose scale is `upper`
    BlockScale lower;
    BlockScale upper;
  };
  [[nodiscard]] bool is_in_a_binade(BlockAmax block) const {
    const std::uint32_t field = std::bit_cast<std::uint32_t>(block.amax) >> kMantissaBits;
    return field >= 1 && field <= 254 && !block.has_nan && recipe_.has_e8m0_scales();
  }
  const Binade& prepared(std::uint32_t field) {
    if (!binades_[field].is_prepared) prepare(binades_[field], field);
    return binades_[field];
  }
  void prepare(Binade& binade, std::uint32_t field) const;

  const Recipe& recipe_;
  Format element_;
  std::array<Binade, 255> binades_{};
};

}  // namespace mxcheck
