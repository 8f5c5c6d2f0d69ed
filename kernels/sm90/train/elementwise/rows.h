#pragma once
// Launches of kernels that give each row of a matrix to one warp, with shared memory for a row.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

namespace mxcheck_kernels::sm90 {

inline constexpr int kMostRowShared = 48 << 10;  // without asking the device for more
inline constexpr int kMostRowWarps = 8;
inline constexpr int kMostRowFloats = kMostRowShared / 4;

struct RowLaunch {
  unsigned blocks = 0;
  unsigned threads = 0;
  std::size_t shared = 0;
};

// floats: of a row, at most kMostRowFloats.
inline RowLaunch row_launch(std::int64_t rows, int floats) {
  const int bytes = std::max(floats, 1) * 4;
  const int warps = std::clamp(kMostRowShared / bytes, 1, kMostRowWarps);
  return {static_cast<unsigned>((rows + warps - 1) / warps), static_cast<unsigned>(warps * 32),
          static_cast<std::size_t>(warps) * static_cast<std::size_t>(bytes)};
}

// For kernels of one thread an element.
inline constexpr unsigned kElementThreads = 256;
inline unsigned element_blocks(std::int64_t elements) {
  return static_cast<unsigned>((elements + kElementThreads - 1) / kElementThreads);
}

}  // namespace mxcheck_kernels::sm90
