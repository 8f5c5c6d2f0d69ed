#pragma once
// Offsets and row index of a call as the plan kernel takes them, and the limits of a launch.

#include <cstdint>

#include "kernels/common/arguments.h"
#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/layer/steps/plan.h"
#include "kernels/sm90/layer/steps/space.h"

namespace mxcheck_kernels::sm90 {

// Where the plan of a call is in its workspace.
struct PlanSpace {
  PlanHeader* header = nullptr;
  RowTile* table = nullptr;
};
PlanSpace take_plan(const PlanJob& job, Space& space);

// experts of a tensor of offsets, by its shape alone; -1 for a shape that none has.
std::int64_t experts_of(const DLTensor& offsets);

// INVALID for more rows or columns than the kernels' 32-bit numbers hold.
void require_extents(const mxcheck_policy& policy);

// The plan enqueued where the device has something to check; the rows as kernels take them.
TiledRows enqueue_plan(const PlanJob& job, const PlanSpace& space, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
