#pragma once
// The comparison of a header of kept weights with a call's layer, on the device, and the report of what is wrong: for
// kernels that check a call before anything is written. Not in kept_weights.h, which host compilers read.

#include <cstdint>

#include "kernels/sm90/layer/steps/offsets.cuh"
#include "kernels/sm90/moe/kept/kept_weights.h"

namespace mxcheck_kernels::sm90 {

__device__ __forceinline__ bool is_of_layer(const KeptHeader& held, const KeptLayer& layer) {
  const KeptLayer& a = held.layer;
  return a.mark == layer.mark && a.pass == layer.pass && a.recipe == layer.recipe && a.cols == layer.cols &&
         a.inner == layer.inner && a.experts == layer.experts;
}

// By one thread.
__device__ __forceinline__ void refuse_layer(PlanHeader* plan, mxcheck_device_report* report) {
  refuse(plan, report, "kept.memory must hold weights of this operation, recipe, gate_up, cols, inner, experts", 0, 0);
}

}  // namespace mxcheck_kernels::sm90
