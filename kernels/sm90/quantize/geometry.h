#pragma once
// A thread block's tile and the addresses of its scales. A thread block takes a tile of 128 x 128 elements: up to 128
// rows of one expert, starting at a multiple of 128 rows from the expert's first. Scale tiles of the tcgen05 layout
// (128 x 4 bytes) start there too, so that a block owns its scales' bytes, padding included.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/common/quantize/policy.h"

namespace mxcheck_kernels::sm90 {

// Added to the bits of an amax, carries into the exponent exactly where a significand is above 1.75.
constexpr std::uint32_t round_up_addend(ScaleRule rule) { return rule == ScaleRule::rceil ? 0x001FFFFF : 0; }

inline constexpr int kTile = 128;
inline constexpr int kWarpRows = 16;
inline constexpr int kWarps = kTile / kWarpRows;
inline constexpr int kThreads = kWarps * 32;
inline constexpr int kScaleTile = 512;

__host__ __device__ constexpr std::int64_t divide_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

// A tile's rows. Numbers of things before it count those of all earlier experts and of its own.
struct RowTile {
  std::int64_t first_row = 0;  // of the matrix
  std::int64_t bands = 0;      // bands of 32 rows before this tile
  std::int64_t quads = 0;      // groups of 4 tiles (each expert's rounded up) before this tile's expert
  std::int32_t rows = 0;       // 1 to 128; 0: no tile
  std::int32_t in_expert = 0;  // tiles of its expert before it
  std::int32_t of_expert = 0;  // tiles of its expert
};

// The header that the plan kernel leaves at the front of the workspace.
struct PlanHeader {
  std::int32_t status = 0;  // mxcheck_status; all other kernels do nothing unless it is MXCHECK_OK
};

// The rows of a call. Without experts tiles are computed; with experts they come from the plan kernel's table.
struct Rows {
  std::int64_t rows = 0;
  std::int64_t tiles = 0;  // without experts: exact; with them: at most
  const PlanHeader* header = nullptr;
  // Null: one expert of all rows. A tile of no rows is none, and all are where the status is not MXCHECK_OK: a block
  // has to wait for one load alone.
  const RowTile* table = nullptr;
};

struct ScalePlace {
  std::uint8_t* bytes = nullptr;
  bool tiled = false;
  bool words = false;  // four consecutive scales of a row of scales, or of a tile, may be written as one word
  std::uint8_t pad = 0;
};

}  // namespace mxcheck_kernels::sm90
