#include "numerics/scale/block_scales.h"

namespace mxcheck {

void BlockScales::prepare(Binade& binade, std::uint32_t field) const {
  const auto scale_of = [this](std::uint32_t bits) {
    return block_scale(recipe_, element_, {.amax = std::bit_cast<float>(bits)});
  };
  std::uint32_t low = field << kMantissaBits;
  std::uint32_t high = low + ((std::uint32_t{1} << kMantissaBits) - 1);
  binade.lower = scale_of(low);
  binade.upper = scale_of(high);
  // low's byte is the lower one, high's the upper one, throughout; where there is one byte both scales are that one.
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    (scale_of(middle).byte == binade.lower.byte ? low : high) = middle;
  }
  binade.first_upper = high;
  binade.is_prepared = true;
}

}  // namespace mxcheck
