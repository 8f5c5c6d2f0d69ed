#pragma once
// How much a run looks at.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mxcheck {

enum class Suite : std::uint8_t { quick, full, exhaustive };
constexpr std::string_view to_text(Suite suite) {
  constexpr std::string_view kTexts[] = {"quick", "full", "exhaustive"};
  return kTexts[static_cast<std::size_t>(suite)];
}

}  // namespace mxcheck
