#pragma once
// The backward pass: docs/training.md, "Backward", line by line.
//
// Errors: Refusal{DEVICE_ERROR}.

#include <vector>

#include "kernels/sm90/train/model/forward.h"

namespace mxcheck_kernels::sm90 {

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

// From d_logits and what forward() left to the gradients of all parameters.
void backward(const Pass& pass, const BackwardTensors& t);

}  // namespace mxcheck_kernels::sm90
