#pragma once
// The model's two ends: embedding of bytes, and cross-entropy of the logits, with gradients: docs/training.md.
//
// Errors: Error{usage} for sizes that do not agree.

#include <cstdint>
#include <span>
#include <vector>

namespace mxcheck {

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

}  // namespace mxcheck
