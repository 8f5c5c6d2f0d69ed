#pragma once
// The routes of a layer as the device looks at them: which number is wrong, and the sentence about the first that is.

#include <cstdint>

#include "kernels/sm90/layer/steps/offsets.cuh"
#include "kernels/sm90/moe/moe_kernels.h"

namespace mxcheck_kernels::sm90 {

// Numbers are looked at as if they lay one after the other: row_token, token_offsets, token_rows.
struct RoutePlaces {
  std::int64_t offsets;  // the first of token_offsets
  std::int64_t rows;     // the first of token_rows
  std::int64_t end;
};
__host__ __device__ inline RoutePlaces route_places(const RoutesJob& job) {
  const std::int64_t offsets = job.rows.rows;
  const std::int64_t rows = offsets + job.slots.tokens + 1;
  return {offsets, rows, rows + job.slots.slots};
}

__device__ __forceinline__ bool is_wrong_offset(const SlotsJob& job, std::int64_t at) {
  const std::int64_t offset = job.token_offsets[at];
  return (at == 0 ? offset != 0 : offset < job.token_offsets[at - 1]) || (at == job.tokens && offset != job.slots);
}

__device__ __forceinline__ bool is_wrong_route(const RoutesJob& job, const RoutePlaces& places, std::int64_t at) {
  if (at < places.offsets) return job.rows.index[at] < 0 || job.rows.index[at] >= job.rows.source_rows;
  if (at < places.rows) return is_wrong_offset(job.slots, at - places.offsets);
  const std::int32_t row = job.slots.token_rows[at - places.rows];
  return row < -1 || row >= job.slots.y_rows;
}

// By one thread, once header->first is the first place that is wrong, or kNone. A null report is not written.
__device__ __forceinline__ void judge_routes(const RoutesJob& job, PlanHeader* header, mxcheck_device_report* report) {
  if (header->status != MXCHECK_OK || header->first == kNone) return;
  const RoutePlaces places = route_places(job);
  const auto at = static_cast<std::int64_t>(header->first);
  if (at < places.offsets) {
    refuse(header, report, "row_token[index] must be a token: 0 or more, and less than there are", at,
           job.rows.index[at]);
  } else if (at < places.rows) {
    const std::int64_t index = at - places.offsets;
    refuse(header, report,
           "token_offsets must go from 0 to the number of slots, and none may be less than the one before it", index,
           job.slots.token_offsets[index]);
  } else {
    const std::int64_t index = at - places.rows;
    refuse(header, report, "token_rows[index] must be -1 or a row: less than there are", index,
           job.slots.token_rows[index]);
  }
}

}  // namespace mxcheck_kernels::sm90
