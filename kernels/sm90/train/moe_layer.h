#pragma once
// The MoE layer of a pass: the experts as plans of kernels/sm90/moe on this run's tensors, and the router, with token
// choice or token rounding, the balance loss, and both gradients.
//
// Errors: Refusal of the plans and of the router's calls, Refusal{DEVICE_ERROR}.

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/sm90/moe/moe_plan.h"
#include "kernels/sm90/train/train_kernels.h"
#include "kernels/sm90/train/train_model.h"

namespace mxcheck_kernels::sm90 {

// ---- The experts ----

struct ExpertsShape {
  const char* recipe = "";
  std::int64_t tokens = 0;
  std::int64_t width = 0;
  std::int64_t inner = 0;
  std::int64_t experts = 0;
  std::int64_t routed = 0;
  // The random words of kernels/candidate_moe.h are drawn by these.
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint32_t layer = 0;
};

// True if a plan of this recipe is of one step: its random words are.
bool draws_words(const char* recipe);

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

// ---- The router ----

// The router's tensors of one layer.
struct RouterTensors {
  float* logits = nullptr;           // tokens x experts
  std::int32_t* chosen = nullptr;    // tokens x top_k, best first; token choice alone
  float* weights = nullptr;          // of the chosen
  std::int32_t* counts = nullptr;    // of each expert: tokens that chose it
  std::int32_t* row_slot = nullptr;  // token choice alone, as row_expert
  std::int32_t* row_expert = nullptr;
  float* balance = nullptr;  // tokens x experts: the balance loss's gradient
  RouteTensors routes;
};

// The routers' scratch, which all layers share.
struct RouterScratch {
  float* means = nullptr;                // experts
  float* slopes = nullptr;               // experts
  std::int32_t* slot_experts = nullptr;  // tokens x experts, of token rounding
  float* slot_gradient = nullptr;        // tokens x max(top_k, experts under token rounding)
  float* gradient = nullptr;             // tokens x experts
  Workspace workspace;
  RouterOverflow* overflow = nullptr;
};

std::uint64_t router_workspace(const Model& model, const PassShape& pass);

// Rows of all experts: known beforehand without token rounding, else waited for.
std::int64_t route_tokens(const Model& model, const PassShape& pass, int layer, std::uint64_t step,
                          const RouterTensors& t, const RouterScratch& scratch, cudaStream_t stream);

// The balance loss of a layer whose tokens are routed and, where `gradient` says so, its gradient.
void balance_loss(const Model& model, const PassShape& pass, const RouterTensors& t, const RouterScratch& scratch,
                  float* loss, bool gradient, cudaStream_t stream);

// BF16 gradient of the logits, tokens x experts, of ds, that of the rows' weights.
void router_backward(const Model& model, const PassShape& pass, const RouterTensors& t, const RouterScratch& scratch,
                     const float* ds, std::uint16_t* d_logits, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
