#pragma once
// The language model of loss-parity runs as data: its sizes, its parameters by name, and what a step of training does
// with them. docs/training.md has the definition of all that is computed.
//
//   TrainingConfig config;                         // checked by check(config)
//   for (const ParameterSpec& p : parameters_of(config.model)) ...
//
// Errors: Error{usage} of check, naming what would be right.

#include <cstdint>
#include <string>
#include <vector>

#include "numerics/format/format.h"
#include "reference/layer/layer_recipe.h"
#include "reference/router/token_rounding.h"

namespace mxcheck {

inline constexpr std::int64_t kVocabulary = 256;  // tokens are bytes

struct ModelShape {
  std::int64_t layers = 0;
  std::int64_t width = 0;  // d
  std::int64_t heads = 0;  // of width / heads columns, an even number
  std::int64_t experts = 0;
  std::int64_t inner = 0;  // n, an expert's width
  std::int64_t top_k = 0;
  std::int64_t length = 0;  // tokens of a sequence

  [[nodiscard]] std::int64_t head_width() const { return width / heads; }
  friend bool operator==(const ModelShape&, const ModelShape&) = default;
};

struct OptimizerConfig {
  float peak_rate = 1e-3F;
  float last_rate = 1e-4F;
  std::int64_t warm_up = 100;  // steps
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;
  float decay = 0.1F;
  float clip = 1;                 // limit of the gradient's norm
  Format moments = Format::fp32;  // or bf16
  bool skips_non_finite = false;  // a norm of NaN or Inf: the update is left out; false: the run stops
  friend bool operator==(const OptimizerConfig&, const OptimizerConfig&) = default;
};

// Half to one ulp of BF16: what a rounding of each weight would do.
inline constexpr std::int64_t kPerturbAll = -1;
// The columns of the residual stream in another order: every sum over them in another order, and without quantization
// the same function (blocks along them have other columns).
inline constexpr std::int64_t kPerturbOrder = -2;

struct TrainingConfig {
  ModelShape model;
  std::int64_t batch = 0;         // sequences a step
  std::int64_t microbatches = 1;  // equal parts of the batch, a power of two: docs/training.md, "Microbatches"
  std::int64_t steps = 0;
  std::uint64_t seed = 0;
  std::int64_t perturb = 0;  // 1 + the index of the weight, in the parameters' order, that starts one ulp up; 0: none;
                             // kPerturbAll: each starts at RN(w (1 + 2^-8)) or RN(w (1 - 2^-8)); kPerturbOrder
  LayerRecipe recipe;        // of the MoE layers
  std::int64_t bf16_last = 0;  // so many of the last layers have the recipe bf16 in place of it
  TokenRoundingRule rounding = TokenRoundingRule::none;  // a rule that rounds to tiles, or none
  std::int64_t tile = 128;                               // of the rounding
  float balance = 0.01F;                                 // coefficient of the load-balancing loss
  OptimizerConfig optimizer;

  [[nodiscard]] std::int64_t tokens() const { return batch * model.length; }
  [[nodiscard]] std::int64_t microbatch() const { return batch / microbatches; }  // sequences of one
  friend bool operator==(const TrainingConfig&, const TrainingConfig&) = default;
};

inline bool stays_in_bf16(const TrainingConfig& config, std::int64_t layer) {
  return layer >= config.model.layers - config.bf16_last;
}
// The recipe of a layer of the model in a pass under `recipe`.
const LayerRecipe& recipe_of_layer(const TrainingConfig& config, const LayerRecipe& recipe, std::int64_t layer);

// True if a run can be made of it: sizes above 0 that divide one another, a recipe that can be, finite rates.
void check(const TrainingConfig& config);

enum class ParameterKind : std::uint8_t { matrix, gain, embedding };
struct ParameterSpec {
  std::string name;  // as in docs/training.md
  ParameterKind kind = ParameterKind::matrix;
  std::int64_t matrices = 1;  // experts, of w1 and w2
  std::int64_t rows = 0;
  std::int64_t cols = 0;  // of a gain 1 x d
  float deviation = 0;    // of the initial values; 0: ones

  [[nodiscard]] std::int64_t size() const { return matrices * rows * cols; }
};
// All, in the order of docs/training.md.
std::vector<ParameterSpec> parameters_of(const ModelShape& model);
std::int64_t parameter_count(const ModelShape& model);

}  // namespace mxcheck
