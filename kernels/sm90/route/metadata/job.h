#pragma once
// The stages of route_metadata on the device. Slots are cut into runs, one per block of threads:
//
//   count  what is wrong of the inputs; the slots of each expert in each run
//   sum    per expert, those in all runs before; of all runs
//   place  every slot's row: its expert's offset, slots of the same expert in runs before, in warps before, in lanes
//   before

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/candidate.h"

namespace mxcheck_kernels::sm90 {

struct MetadataJob {
  std::int64_t slots = 0;
  std::int64_t tokens = 0;
  std::int64_t width = 0;  // slots of a token; 0: given by token_offsets
  std::int64_t experts = 0;
  std::int64_t tile = 1;
  std::int64_t capacity = 0;
  std::int64_t run = 0;   // slots of a run, a multiple of kPlaceSlots
  std::int64_t runs = 0;  // at least 1
  const std::int32_t* slot_experts = nullptr;
  const std::int64_t* token_offsets = nullptr;
  mxcheck_device_report* report = nullptr;

  // Workspace.
  unsigned long long* wrong = nullptr;  // the first that is: token offsets, then slots. Begins with all bits set
  std::uint32_t* before = nullptr;      // [experts, runs] slots in the run; then in all runs before
  std::uint32_t* count = nullptr;       // [experts]

  std::int32_t* counts = nullptr;
  std::int64_t* offsets = nullptr;
  std::int32_t* row_slot = nullptr;
  std::int32_t* row_token = nullptr;
  std::int32_t* row_expert = nullptr;
  std::int32_t* slot_row = nullptr;
};

inline constexpr std::int64_t kPlaceSlots = 512;  // of a block of threads at a time
inline constexpr std::int64_t kMostRuns = 1024;

cudaError_t launch_metadata(const MetadataJob& job, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
