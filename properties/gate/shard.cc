#include "properties/gate/shard.h"

#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/core/rng.h"

namespace mxcheck {

bool Shard::owns(std::string_view text) const {
  constexpr std::uint64_t kDealing = 0x6465616c696e67;  // "dealing": other words than those that cases are drawn from
  return count == 1 ||
         derived_seed(kDealing, text) % static_cast<std::uint64_t>(count) == static_cast<std::uint64_t>(index);
}

Shard parse_shard(const std::string& text, const std::string& what) {
  const std::size_t slash = text.find('/');
  if (slash != std::string::npos) {
    const auto index = parse_number<int>(std::string_view(text).substr(0, slash));
    const auto count = parse_number<int>(std::string_view(text).substr(slash + 1));
    if (index && count && *count >= 1 && *count <= kMostShards && *index >= 1 && *index <= *count)
      return {*index - 1, *count, false};
  }
  throw Error(ErrorKind::usage,
              what + " '" + text + "' is not I/N, the shard I of 1 to N, with N to " + std::to_string(kMostShards));
}

std::string to_text(const Shard& shard) { return std::to_string(shard.index + 1) + "/" + std::to_string(shard.count); }

}  // namespace mxcheck
