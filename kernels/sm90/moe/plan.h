#pragma once
// A whole layer as a list of steps, each a launch or several: what "moe_forward" and "moe_backward" enqueue one after
// the other, and what a benchmark times one by one.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#include "kernels/candidate_moe.h"

namespace mxcheck_kernels::sm90 {

enum class MoeStepKind : std::uint8_t { check, quantize, gemm, elementwise };

struct MoeStep {
  std::string name;  // of docs/layer.md where it is one: "up", "swiglu", ...; "quantize X", "check routes"
  MoeStepKind kind = MoeStepKind::elementwise;
  std::uint64_t bytes = 0;     // each input read once and each output written once, from and to memory
  std::uint64_t products = 0;  // multiply-adds of a GEMM
  std::function<cudaError_t(cudaStream_t)> enqueue;
};

struct MoePlan {
  std::vector<MoeStep> steps;
  std::uint64_t workspace_bytes = 0;
};

// Of a call that is checked first; throws Refusal. Data of tensors may be null where the workspace is: the plan is then
// for its bytes alone, and its steps must not be enqueued. Nothing is enqueued here.
MoePlan moe_forward_plan(const mxcheck_call& call);
MoePlan moe_backward_plan(const mxcheck_call& call);

}  // namespace mxcheck_kernels::sm90
