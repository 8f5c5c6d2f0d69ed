#pragma once
// The check of a layer's routes, which only the device can read, as one check with one result: offsets and row_token,
// which also become tiles of rows, and the slots of the tokens.

#include <cuda_runtime.h>

#include "kernels/sm90/layer/steps/plan.h"

namespace mxcheck_kernels::sm90 {

struct RoutesJob {
  PlanJob rows;
  SlotsJob slots;
  PlanHeader* header = nullptr;  // MXCHECK_OK where all is right
  RowTile* table = nullptr;
};

// The report is of the first of offsets, row_token, token_offsets and token_rows that is wrong, and there of the first
// place.
cudaError_t check_routes(const RoutesJob& job, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
