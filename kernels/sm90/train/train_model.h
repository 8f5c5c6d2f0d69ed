#pragma once
// The model's sizes as a call gives them, its parameters in one allocation each of weights, moments and gradients, its
// memory on the device beside a pass's activations, and the sizes of a pass.
//
// Errors: Refusal{INVALID, UNSUPPORTED} of check_config and whole_config.

#include <cstdint>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "kernels/candidate.h"
#include "kernels/common/route/policy.h"
#include "kernels/sm90/train/train_device.h"
#include "kernels/sm90/train/train_kernels.h"
#include "kernels/train.h"

namespace mxcheck_kernels::sm90 {

// Sizes, texts and tables are there and agree, and the kernels can do it (kernels/train.h).
void check_config(const mxcheck_train_config& config);

// The configuration of a caller of any size, with zeros for the members that it does not know.
mxcheck_train_config whole_config(const mxcheck_train_config& given);

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

// The tensors of all parameters, at the offsets of `parameters`.
struct Model {
  mxcheck_train_config config{};  // its texts are `recipe` and `rounding`
  std::string recipe;
  std::string rounding;
  TokenRoundingRule rule = TokenRoundingRule::none;
  Parameters parameters;
  float* weights = nullptr;
  std::uint16_t* bf16 = nullptr;
  float* gradients = nullptr;
  Rotation rotation;
  mxcheck_device_report* report = nullptr;

  [[nodiscard]] const float* gain(std::size_t p) const { return weights + parameters.list[p].offset; }
  [[nodiscard]] const std::uint16_t* weight(std::size_t p) const { return bf16 + parameters.list[p].offset; }
  [[nodiscard]] float* gradient(std::size_t p) const { return gradients + parameters.list[p].offset; }
};

// The sizes of a pass over so many sequences.
struct PassShape {
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;
  AttentionShape attention;
  const char* recipe = "";
  TokenRoundingRule rule = TokenRoundingRule::none;
  std::int64_t most_routed = 0;
};
PassShape pass_shape(const Model& model, std::int64_t sequences, const char* recipe, TokenRoundingRule rule);

// The pass's recipe, or "bf16" of the layers that stay in BF16.
const char* recipe_of_layer(const Model& model, const PassShape& pass, std::int64_t layer);

}  // namespace mxcheck_kernels::sm90
