#pragma once
// The MoE layer of a pass: plans of kernels/sm90/moe on this run's tensors.
//
// Errors: Refusal of the plans.

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/sm90/moe/moe_plan.h"

namespace mxcheck_kernels::sm90 {

struct ExpertsShape {
  const char* recipe = "";
  std::int64_t tokens = 0;
  std::int64_t width = 0;
  std::int64_t inner = 0;
  std::int64_t experts = 0;
  std::int64_t routed = 0;
};

// kernels/candidate_moe.h, "routes".
struct RouteTensors {
  std::int32_t* row_token = nullptr;
  float* row_weight = nullptr;
  std::int64_t* token_offsets = nullptr;
  std::int32_t* token_rows = nullptr;
  std::int64_t* offsets = nullptr;
};

// Tensors that the forward pass keeps for the backward pass; x is the layer's input itself where the recipe keeps none.
struct KeptTensors {
  void* h = nullptr;
  void* h_scales = nullptr;
  void* x = nullptr;
  void* x_scales = nullptr;
};
struct KeptBytes {
  std::int64_t h = 0;
  std::int64_t h_scales = 0;
  std::int64_t x = 0;
  std::int64_t x_scales = 0;
};

struct ExpertsTensors {
  const std::uint16_t* w1 = nullptr;
  const std::uint16_t* w2 = nullptr;
  const std::uint16_t* x = nullptr;
  RouteTensors routes;
  KeptTensors kept;
  std::uint16_t* o = nullptr;  // forward
  // backward
  const std::uint16_t* d_o = nullptr;
  std::uint16_t* dx = nullptr;
  float* dw1 = nullptr;
  float* dw2 = nullptr;
  float* ds = nullptr;
};

struct Workspace {
  void* data = nullptr;
  std::uint64_t bytes = 0;
  mxcheck_device_report* report = nullptr;
};

struct ExpertsBytes {
  KeptBytes kept;
  std::uint64_t workspace = 0;
};
// The bytes that the forward pass needs and, where it follows, the backward pass.
ExpertsBytes experts_bytes(const ExpertsShape& shape, bool backward);
// The most that a forward pass needs under any recipe that is offered for these widths.
ExpertsBytes experts_bytes_of_all(ExpertsShape shape);

MoePlan experts_forward(const ExpertsShape& shape, const ExpertsTensors& tensors, const Workspace& workspace);
MoePlan experts_backward(const ExpertsShape& shape, const ExpertsTensors& tensors, const Workspace& workspace);

// With a copy of what the GEMM of this name gives, before its memory is used again.
struct GemmCopy {
  const char* gemm = "";
  void* to = nullptr;  // null: none
};
void enqueue(const MoePlan& plan, const GemmCopy& copy, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
