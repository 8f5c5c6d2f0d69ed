#pragma once
// The passes of a model: docs/training.md, "Forward" and "Backward", line by line, and the tensors they leave.
//
// Errors: those of Buffers; Refusal{DEVICE_ERROR}.

#include <cstdint>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "kernels/sm90/train/moe_layer.h"
#include "kernels/sm90/train/train_device.h"
#include "kernels/sm90/train/train_model.h"

namespace mxcheck_kernels::sm90 {

// ---- Activations ----
//
// The activations that a pass computes, in buffers of its own. A pass of training keeps what its backward pass reads
// for every layer; an evaluation has one layer's buffers for all.

// N tokens, d wide; P is sequences x heads x length x length. Names are docs/training.md's.
struct LayerActivations {
  float* x = nullptr;  // the residual stream before the layer
  std::uint16_t* attention_u = nullptr;
  float* attention_scale = nullptr;
  QkvHeads heads;
  std::uint16_t* p = nullptr;
  std::uint16_t* att = nullptr;
  float* middle = nullptr;  // the residual stream after attention
  std::uint16_t* moe_u = nullptr;
  float* moe_scale = nullptr;
  RouterTensors router;
  KeptTensors kept;
  std::uint16_t* o = nullptr;
};

struct Activations {
  std::vector<LayerActivations> layers;
  float* residual = nullptr;  // of all layers, one after the other, and the last: (layers + 1) x N x d
  float* x = nullptr;         // the residual stream at the end
  std::uint16_t* final_u = nullptr;
  float* final_scale = nullptr;
  float* logits = nullptr;    // N x 256
  float* losses = nullptr;    // of each token
  float* partials = nullptr;  // of their sum
  float* loss_sum = nullptr;
  float* balance = nullptr;  // of each layer

  // Scratch of one layer.
  std::uint16_t* qkv = nullptr;
  float* scores = nullptr;            // Z, and dP backward
  std::uint16_t* of_heads = nullptr;  // P V
  std::uint16_t* y = nullptr;         // attention_out's
  RouterScratch router;
  Workspace experts;

  std::uint8_t* tokens = nullptr;     // sequences x (length + 1)
  std::int64_t* token_end = nullptr;  // N
  std::int64_t* head_ends = nullptr;  // (g + 1) * length
};

// For passes of so many sequences or fewer; names begin with `prefix`. kept: for a backward pass.
Activations make_activations(Buffers& buffers, const Model& model, const PassShape& shape, const std::string& prefix,
                             bool kept, const ExpertsBytes& experts);

ExpertsShape experts_shape(const Model& model, const PassShape& pass, std::int64_t layer, std::int64_t routed);

// ---- GEMMs ----
//
// Linear maps and products of attention's heads as GEMMs of BF16 under sm90_bf16, operands as they lie in memory. A
// head's width that is no multiple of 64 is a chain that goes on over zeros, which leaves every sum as it is
// (gemm/matmul.h).

// y = x W^T: x is rows x in, W out x in.
struct LinearMap {
  std::int64_t rows = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
  const std::int64_t* end = nullptr;  // on the device: `rows`
};

// Groups of matrices: scores are length x length, others length x width.
struct HeadProducts {
  int groups = 0;
  std::int64_t length = 0;
  std::int64_t width = 0;
  const std::int64_t* ends = nullptr;  // on the device: (g + 1) * length
};

// ---- Forward ----

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

// Computes a.logits and the balance losses of a.tokens, with weights in BF16.
void forward(const Pass& pass);

// ---- Backward ----

// N tokens, d wide, scores as P. Of each layer is what work beside the main stream reads.
struct LayerGradients {
  std::uint16_t* rounded = nullptr;    // BF16(dx) between attention and the experts
  std::uint16_t* expert_dx = nullptr;  // N x d
  std::uint16_t* d_router = nullptr;   // N x experts
  std::uint16_t* dqkv = nullptr;       // N x 3 d
  float* moe_du = nullptr;             // of the norms' outputs
  float* attention_du = nullptr;
};
struct BackwardTensors {
  std::vector<LayerGradients> layers;
  std::uint16_t* d_logits = nullptr;  // N x 256
  float* final_du = nullptr;
  float* partials = nullptr;  // of gains' gradients
  // Scratch of one layer.
  float* dx = nullptr;                   // of the residual stream
  std::uint16_t* rounded = nullptr;      // BF16(dx) after the layer
  float* ds = nullptr;                   // of each row's weight
  std::uint16_t* d_att = nullptr;        // N x d
  std::uint16_t* d_att_heads = nullptr;  // the same by heads
  std::uint16_t* dz = nullptr;
  std::uint16_t* dv = nullptr;  // by heads
  float* dq = nullptr;
  float* dk = nullptr;
};
BackwardTensors take_backward(Buffers& buffers, const Model& model, const PassShape& shape);

// Computes the gradients of all parameters from d_logits and what forward() left.
void backward(const Pass& pass, const BackwardTensors& t);

}  // namespace mxcheck_kernels::sm90
