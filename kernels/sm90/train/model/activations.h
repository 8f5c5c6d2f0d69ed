#pragma once
// The activations that a pass computes, in buffers of its own. A pass of training keeps what its backward pass reads
// for every layer; an evaluation has one layer's buffers for all.
//
// Errors: those of Buffers.

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/sm90/train/model/experts.h"
#include "kernels/sm90/train/model/model.h"
#include "kernels/sm90/train/model/router.h"

namespace mxcheck_kernels::sm90 {

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

ExpertsShape experts_shape(const Model& model, const PassShape& pass, std::int64_t routed);

}  // namespace mxcheck_kernels::sm90
