#pragma once
// The comparison of a header of kept weights with a call's layer, on the device, and the report of what is wrong: for
// kernels that check a call before anything is written.

#include <cstdint>

#include "kernels/sm90/moe/kept/kept_weights.h"

namespace mxcheck_kernels::sm90 {

__device__ __forceinline__ bool is_of_layer(const KeptHeader& held, const KeptLayer& layer) {
  const KeptLayer& a = held.layer;
  return a.mark == layer.mark && a.pass == layer.pass && a.recipe == layer.recipe && a.cols == layer.cols &&
         a.inner == layer.inner && a.experts == layer.experts;
}

// By one thread. Null: there is no report.
__device__ __forceinline__ void refuse_memory(mxcheck_device_report* report, const char* message, std::int64_t index) {
  if (report == nullptr) return;
  report->index = index, report->value = 0;
  int i = 0;
  for (; message[i] != '\0' && i < static_cast<int>(sizeof(report->message)) - 1; ++i) report->message[i] = message[i];
  report->message[i] = '\0';
  report->status = MXCHECK_INVALID;
}
__device__ __forceinline__ void refuse_layer(mxcheck_device_report* report) {
  refuse_memory(report, "kept.memory must hold weights of this operation, recipe, gate_up, cols, inner, experts", 0);
}

}  // namespace mxcheck_kernels::sm90
