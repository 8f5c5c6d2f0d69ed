#pragma once
// Checks expert offsets and a row index, which only the device can read, in the stream, before any output is written.
// The plan kernel also lays out the row tiles of ragged experts, so that the host need not wait for the offsets.

#include <cstdint>

#include "kernels/candidate.h"
#include "kernels/sm90/quantize/geometry.h"

namespace mxcheck_kernels::sm90 {

// Scales that an output or input tensor says it holds: how many there are follows from the offsets.
struct ClaimedScales {
  std::int64_t count = -1;  // bytes (tiled), or rows of scales (compact); -1: not claimed, or known without offsets
  std::int32_t block_rows = 32;  // of column and square blocks, 32 or 128; 1 for blocks of one row
  std::int64_t columns = 0;      // tiled: scale tiles for each tile of 128 rows or group of bands; 0: compact
};

struct PlanJob {
  std::int64_t rows = 0;
  const std::int64_t* offsets = nullptr;  // experts + 1; null: none
  std::int64_t experts = 0;
  const std::int32_t* index = nullptr;  // rows values; null: none
  std::int64_t source_rows = 0;         // index is 0 .. source_rows - 1
  ClaimedScales claims[2];
  mxcheck_device_report* report = nullptr;  // or null
};

// The workspace of a call: a header, and with offsets the table of tiles.
std::uint64_t plan_bytes(const PlanJob& job);

// At most this many tiles.
std::int64_t most_tiles(const PlanJob& job);

// Enqueues the checks and the table. workspace: plan_bytes, aligned to 256.
cudaError_t make_plan(const PlanJob& job, void* workspace, Rows& rows, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
