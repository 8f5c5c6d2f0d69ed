#include "reference/training/token_loss.h"

#include <array>
#include <limits>

#include "numerics/elementary/elementary.h"
#include "reference/training/model.h"
#include "reference/training/parts.h"

namespace mxcheck {
namespace {

// One token's loss, and the gradient of its logits times `share`. A NaN or a +Inf among the logits makes all of it NaN.
float row_loss(std::span<const float> z, std::uint8_t target, float share, std::span<std::uint16_t> dz) {
  float largest = -std::numeric_limits<float>::infinity();
  for (const float v : z) {
    if (v > largest) largest = v;
  }
  std::array<float, kVocabulary> e{};
  for (std::size_t i = 0; i < e.size(); ++i) e[i] = exp_rn(z[i] - largest);
  const float sum = pairwise_sum(e);
  for (std::size_t i = 0; i < e.size(); ++i) dz[i] = to_bf16((e[i] / sum - (i == target ? 1.0F : 0.0F)) * share);
  return (log_rn(sum) + largest) - z[target];
}

}  // namespace

std::vector<float> embed(std::span<const std::uint16_t> weights, std::span<const std::uint8_t> tokens,
                         std::int64_t width) {
  require_size("the embedding", std::ssize(weights), kVocabulary * width);
  std::vector<float> x;
  x.reserve(tokens.size() * static_cast<std::size_t>(width));
  for (const std::uint8_t token : tokens) {
    for (const std::uint16_t word : row_of(weights, token, width)) x.push_back(widen(word));
  }
  return x;
}

std::vector<float> embed_backward(std::span<const float> dx, std::span<const std::uint8_t> tokens, std::int64_t width,
                                  int threads) {
  require_size("dx of the embedding", std::ssize(dx), std::ssize(tokens) * width);
  std::vector<float> d_weights(static_cast<std::size_t>(kVocabulary * width));
  parallel_ranges(kVocabulary, std::ssize(dx), threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      if (tokens[t] < begin || tokens[t] >= end) continue;
      const std::span<float> row = row_of(std::span(d_weights), tokens[t], width);
      const std::span<const float> from = row_of(dx, static_cast<std::int64_t>(t), width);
      for (std::size_t i = 0; i < row.size(); ++i) row[i] += from[i];
    }
  });
  return d_weights;
}

TokenLoss token_loss(std::span<const float> logits, std::span<const std::uint8_t> targets, int threads) {
  const std::int64_t tokens = std::ssize(targets);
  require(tokens > 0, "a loss of no tokens; at least one is needed");
  require_size("logits", std::ssize(logits), tokens * kVocabulary);
  TokenLoss loss;
  loss.d_logits.resize(logits.size());
  std::vector<float> losses(targets.size());
  const float share = 1.0F / static_cast<float>(tokens);
  // exp costs as much as some eight elements.
  parallel_ranges(tokens, std::ssize(logits) * 8, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const auto token = static_cast<std::size_t>(t);
      losses[token] = row_loss(row_of(logits, t, kVocabulary), targets[token], share,
                               row_of(std::span(loss.d_logits), t, kVocabulary));
    }
  });
  loss.loss = pairwise_sum(losses) / static_cast<float>(tokens);
  return loss;
}

}  // namespace mxcheck
