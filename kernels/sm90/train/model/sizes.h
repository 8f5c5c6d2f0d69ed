#pragma once
// The model's sizes as a call gives them, and its parameters in one allocation each of weights, moments and gradients.
//
// Errors: Refusal{INVALID, UNSUPPORTED} of check_config.

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/train.h"

namespace mxcheck_kernels::sm90 {

// Sizes, texts and tables are there and agree, and the kernels can do it (kernels/train.h).
void check_config(const mxcheck_train_config& config);

struct Parameter {
  std::int64_t offset = 0;  // elements from the start, a multiple of 64: at a multiple of 128 bytes in BF16 too
  std::int64_t size = 0;
  bool decays = false;  // matrices do, gains and the embedding do not
};

struct Parameters {
  std::vector<Parameter> list;  // in the order of docs/training.md
  std::int64_t elements = 0;    // of the allocation
};
Parameters parameters_of(const mxcheck_train_config& config);

// Where in the list they are.
struct LayerParameters {
  std::size_t attention_norm, qkv, attention_out, moe_norm, router, w1, w2;
};
constexpr LayerParameters parameters_of_layer(std::int64_t layer) {
  const std::size_t first = 1 + static_cast<std::size_t>(layer) * 7;
  return {first, first + 1, first + 2, first + 3, first + 4, first + 5, first + 6};
}
constexpr std::size_t kEmbedding = 0;
constexpr std::size_t final_norm_of(std::int64_t layers) { return 1 + static_cast<std::size_t>(layers) * 7; }
constexpr std::size_t output_of(std::int64_t layers) { return final_norm_of(layers) + 1; }

// Rows that routes of so many tokens have at most; without a rule always.
std::int64_t most_routed(const mxcheck_train_config& config, bool rounds, std::int64_t tokens);

}  // namespace mxcheck_kernels::sm90
