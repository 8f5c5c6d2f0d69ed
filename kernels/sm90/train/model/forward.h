#pragma once
// The forward pass: docs/training.md, "Forward", line by line.
//
// Errors: Refusal{DEVICE_ERROR}.

#include <cstdint>
#include <vector>

#include <cuda_runtime_api.h>

#include "kernels/sm90/train/model/activations.h"
#include "kernels/sm90/train/model/gemm.h"
#include "kernels/sm90/train/model/stream.h"

namespace mxcheck_kernels::sm90 {

// The MoE layers' plans; without token rounding they are made once.
struct ExpertsPlans {
  explicit ExpertsPlans(std::int64_t layers = 0)
      : forward(static_cast<std::size_t>(layers)), backward(forward.size()), routed(forward.size(), -1) {}
  std::vector<MoePlan> forward;
  std::vector<MoePlan> backward;
  std::vector<std::int64_t> routed;  // of each layer; -1: no plan yet
};

// The tensors of a layer that a step keeps where it is observed.
struct ObservedTensors {
  std::uint16_t* h = nullptr;    // routed x 2 inner
  float* p = nullptr;            // routed x inner
  std::uint16_t* d_o = nullptr;  // tokens x width
};

struct Pass {
  const Model& model;
  PassShape shape;
  Activations& a;
  ExpertsPlans& plans;
  std::uint64_t step = 0;  // of the rounding's random words
  bool backward = false;   // follows
  cudaStream_t stream = nullptr;
  const SideStream* side = nullptr;  // null: all on one stream
  const std::vector<ObservedTensors>* observed = nullptr;

  // For what nothing reads before join(), of tensors that nothing writes before it.
  [[nodiscard]] cudaStream_t aside() const { return side == nullptr ? stream : side->fork(stream); }
  void join() const {
    if (side != nullptr) side->join(stream);
  }
  [[nodiscard]] TokenBytes tokens() const { return {a.tokens, shape.sequences, shape.attention.length}; }
  [[nodiscard]] LinearMap map(std::int64_t in, std::int64_t out) const { return {shape.tokens, in, out, a.token_end}; }
  [[nodiscard]] HeadProducts heads() const {
    return {static_cast<int>(shape.attention.groups()), shape.attention.length, shape.attention.head_width,
            a.head_ends};
  }
};

// From a.tokens, with weights in BF16, to a.logits and the balance losses.
void forward(const Pass& pass);

}  // namespace mxcheck_kernels::sm90
