#include "numerics/scale/block_scales.h"

namespace mxcheck {

bool BlockScales::find(std::span<const BlockAmax> blocks, std::uint8_t* bytes, double* factors) {
  bool poisoned = false;
  for (std::size_t i = 0; i < blocks.size();) {
    const std::uint32_t field = std::bit_cast<std::uint32_t>(blocks[i].amax) >> kMantissaBits;
    if (!is_in_a_binade(blocks[i]) || prepared(field).has_more) {
      const BlockScale scale = block_scale(recipe_, element_, blocks[i]);
      bytes[i] = scale.byte, factors[i] = scale.factor, poisoned |= scale.poisoned;
      ++i;
      continue;
    }
    // The next block's amax often lies in the same binade: what is known of it stays in registers.
    const Binade& binade = binades_[field];
    const std::uint32_t first_upper = binade.first_upper;
    const std::uint8_t byte_of[] = {binade.lower.byte, binade.upper.byte};
    const double factor_of[] = {binade.lower.factor, binade.upper.factor};
    poisoned |= binade.lower.poisoned || binade.upper.poisoned;  // of either, whichever the blocks have
    for (; i < blocks.size(); ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(blocks[i].amax);
      if (bits >> kMantissaBits != field || blocks[i].has_nan) break;
      const bool upper = bits >= first_upper;
      bytes[i] = upper ? byte_of[1] : byte_of[0];
      factors[i] = upper ? factor_of[1] : factor_of[0];
    }
  }
  return !poisoned;
}

void BlockScales::prepare(Binade& binade, std::uint32_t field) const {
  const auto scale_of = [this](std::uint32_t bits) {
    return block_scale(recipe_, element_, {.amax = std::bit_cast<float>(bits)});
  };
  std::uint32_t low = field << kMantissaBits;
  std::uint32_t high = low + ((std::uint32_t{1} << kMantissaBits) - 1);
  binade.lower = scale_of(low);
  binade.upper = scale_of(high);
  binade.has_more = binade.upper.byte != binade.lower.byte && binade.upper.byte != binade.lower.byte + 1;
  // low's byte is the lower one, high's the upper one, throughout; where there is one byte both scales are that one.
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    (scale_of(middle).byte == binade.lower.byte ? low : high) = middle;
  }
  binade.first_upper = high;
  binade.is_prepared = true;
}

}  // namespace mxcheck
