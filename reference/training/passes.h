#pragma once
// The forward and the backward pass of a step, for step.cc: docs/training.md has the definition. Names follow it.
//
// Errors: Error{usage} for sizes that do not agree; RouterOverflow where a router's logits hold a NaN or an infinity.

#include <cstdint>
#include <exception>
#include <span>
#include <vector>

#include "reference/layer/layer.h"
#include "reference/router/loss.h"
#include "reference/training/attention.h"
#include "reference/training/model.h"
#include "reference/training/step.h"

namespace mxcheck {

// Sequences of length + 1 bytes: the tokens of each, and the targets.
struct Sequences {
  std::vector<std::uint8_t> inputs;
  std::vector<std::uint8_t> targets;
};
Sequences split_sequences(std::span<const std::uint8_t> bytes, std::int64_t length);

// --- the model's two ends
//
// Embedding of bytes, and cross-entropy of the logits, with gradients.

// Row tokens[t] of the weights (256 x width, BF16), widened: tokens x width.
std::vector<float> embed(std::span<const std::uint16_t> weights, std::span<const std::uint8_t> tokens,
                         std::int64_t width);
// 256 x width, from tokens x width.
std::vector<float> embed_backward(std::span<const float> dx, std::span<const std::uint8_t> tokens, std::int64_t width,
                                  int threads = 0);

struct TokenLoss {
  float loss = 0;
  std::vector<std::uint16_t> d_logits;  // tokens x 256, BF16
};
// logits are tokens x 256.
TokenLoss token_loss(std::span<const float> logits, std::span<const std::uint8_t> targets, int threads = 0);

// Where a parameter is in the list of parameters_of.
struct LayerParameters {
  std::size_t attention_norm, qkv, attention_out, moe_norm, router, w1, w2;
};
constexpr std::size_t kEmbedding = 0;
LayerParameters parameters_of_layer(std::int64_t layer);
std::size_t final_norm_of(const ModelShape& model);
std::size_t output_of(const ModelShape& model);

// Weights as the passes read them: gains from `masters`, others in BF16 (empty for gains).
struct PassWeights {
  std::span<const std::vector<float>> masters;
  std::vector<std::vector<std::uint16_t>> bf16;
};
PassWeights pass_weights(const ModelShape& model, std::span<const std::vector<float>> masters, int threads);

// The setting of one pass, beside the weights. A pass is a step of training, or an evaluation.
struct PassSetting {
  const TrainingConfig& config;
  const LayerRecipe& recipe;
  TokenRoundingRule rounding = TokenRoundingRule::none;
  std::int64_t sequences = 0;
  std::uint64_t step = 0;  // of the rounding's random words
  bool observe = false;
  int threads = 0;
  std::int64_t first_sequence = 0;  // of the step's batch: where digests of outputs begin to count

  [[nodiscard]] std::int64_t tokens() const { return sequences * config.model.length; }
  [[nodiscard]] std::int64_t first_token() const { return first_sequence * config.model.length; }
};

struct LayerPass {
  std::vector<float> x;  // the residual stream before the layer
  Norm attention_norm;
  Attention attention;
  std::vector<float> middle;  // the residual stream after attention
  Norm moe_norm;
  std::vector<float> logits;         // tokens x experts
  std::vector<std::int32_t> chosen;  // tokens x top_k: token choice
  LayerRoutes routes;
  RouterLoss balance;
  LayerKept kept;
  LayerObservation observation;
};

struct ForwardPass {
  std::vector<LayerPass> layers;
  std::vector<float> x;  // the residual stream at the end
  Norm final_norm;
  std::vector<float> logits;  // tokens x 256
};

// A NaN or an infinity among a layer's router logits: no routes can be made of them.
struct RouterOverflow : std::exception {
  std::vector<LayerPass> layers;  // before that one
};

ForwardPass forward(const PassSetting& setting, const RotaryTable& table, const PassWeights& weights,
                    std::span<const std::uint8_t> tokens);

// The gradient of every parameter, from that of the logits. Adds the backward operands to the layers' observations.
std::vector<std::vector<float>> backward(const PassSetting& setting, const RotaryTable& table,
                                         const PassWeights& weights, std::span<const std::uint8_t> tokens,
                                         ForwardPass& pass, std::span<const std::uint16_t> d_logits);

}  // namespace mxcheck
