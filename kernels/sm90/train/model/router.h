#pragma once
// The router of a layer: token choice or token rounding, the balance loss, and both gradients.
//
// Errors: Refusal of the router's calls, Refusal{DEVICE_ERROR}.

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/sm90/train/elementwise/routes.h"
#include "kernels/sm90/train/model/experts.h"
#include "kernels/sm90/train/model/model.h"

namespace mxcheck_kernels::sm90 {

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
