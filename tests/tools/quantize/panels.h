#pragma once
// The size of a matrix that the tool takes in several panels.

#include <cstdint>

namespace mxcheck::test {

inline constexpr std::int64_t kPanelsRows = 2210;  // of 16 KiB (BF16): three panels; no multiple of any block's rows
inline constexpr std::int64_t kPanelsCols = 8200;

}  // namespace mxcheck::test
