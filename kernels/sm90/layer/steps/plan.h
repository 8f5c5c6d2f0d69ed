#pragma once
// The check of those of a layer's arguments that only the device can read, made there before an output is written:
// expert offsets, a row index, and the slots of tokens. The plan also lays out tiles of rows of one expert each.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/candidate.h"

namespace mxcheck_kernels::sm90 {

inline constexpr int kTileRows = 128;

// At the front of the workspace. All other kernels do nothing unless status is MXCHECK_OK.
struct PlanHeader {
  std::int32_t status;
  std::int32_t tiles;
  unsigned long long first;  // place of the first value that is wrong, of those that many threads look at
};
inline constexpr std::uint64_t kHeaderBytes = 256;

// Up to 128 rows of one expert, from a multiple of 128 after its first on.
struct RowTile {
  std::int32_t first;  // row
  std::int32_t rows;
  std::int32_t band;  // blocks along tokens before it, of all earlier experts and of its own
};

struct PlanJob {
  std::int64_t rows = 0;
  const std::int64_t* offsets = nullptr;  // experts + 1; null: one expert of all rows
  std::int64_t experts = 0;
  int block = 32;                       // of rows that share a scale, 32 or 128
  std::int64_t bands = -1;              // that an output has room for; -1: none says
  const std::int32_t* index = nullptr;  // rows values, 0 to source_rows - 1
  std::int64_t source_rows = 0;
  mxcheck_device_report* report = nullptr;

  [[nodiscard]] bool needed() const { return offsets != nullptr || index != nullptr; }
};

// Tiles at most, and bytes of their table, which follows the header; none without offsets.
std::int64_t most_tiles(const PlanJob& job);
std::uint64_t table_bytes(const PlanJob& job);
cudaError_t make_plan(const PlanJob& job, PlanHeader* header, RowTile* table, cudaStream_t stream);

// Slots of tokens: token_offsets go from 0 to slots and do not descend, rows are -1 to y_rows - 1.
struct SlotsJob {
  std::int64_t tokens = 0;
  std::int64_t slots = 0;
  std::int64_t y_rows = 0;
  const std::int64_t* token_offsets = nullptr;
  const std::int32_t* token_rows = nullptr;
  mxcheck_device_report* report = nullptr;
};
cudaError_t check_slots(const SlotsJob& job, PlanHeader* header, cudaStream_t stream);

// The rows of a kernel that works on tiles: tile t of the table, or, without one, rows from 128 t on.
struct TiledRows {
  std::int64_t rows = 0;
  std::int64_t tiles = 0;  // at most
  const PlanHeader* header = nullptr;
  const RowTile* table = nullptr;
};

}  // namespace mxcheck_kernels::sm90
