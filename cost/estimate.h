#pragma once
// The time, bytes and memory of a mixture-of-experts layer on one GPU, from its shape, its recipe and a card.
//
//   const LayerShape shape{.tokens = 32768, .d_model = 4096, .d_expert = 1024, .experts = 128, .top_k = 8};
//   const Estimate e = estimate(shape, layer_recipe_named("mxfp8"), card_named("H200"));
//   e.forward.us()                          // and e.backward.us(), step by step in .steps
//
// A step takes the longer of its operations over the rate that tensor cores reach, and its bytes over the rate that
// memory reaches, plus a launch. Steps run one after another. docs/cost.md says which steps there are.
//
// Errors: Error{usage} for a shape that cannot be, for sizes beyond 2^63 - 1, and for a recipe whose contract the card
// does not have.
//
// Does not promise: that a kernel reaches these times. docs/cost.md compares them with measurements.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "cost/card.h"
#include "cost/load.h"
#include "reference/layer/layer_recipe.h"

namespace mxcheck {

struct LayerShape {
  std::int64_t tokens = 0;    // of a microbatch
  std::int64_t d_model = 0;   // d
  std::int64_t d_expert = 0;  // n, an expert's inner width
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  friend bool operator==(const LayerShape&, const LayerShape&) = default;
};

// Error{usage} unless every number is 1 or more, top_k is at most the experts, and no tensor has more than 2^63 - 1
// bytes.
void check(const LayerShape& shape);
// False where check() throws.
bool is_possible(const LayerShape& shape);
// False where a GEMM of the recipe is of tensor cores that the card lacks: estimate() then throws.
bool has_engines(const Card& card, const LayerRecipe& recipe);

// The product as a double; finite for the numbers of a shape that check() accepts.
double product(std::initializer_list<std::int64_t> factors);

enum class StepKind : std::uint8_t { gemm, quantize, move };

struct Step {
  std::string name;
  StepKind kind = StepKind::move;
  Engine engine = Engine::bf16;  // of a GEMM
  double operations = 0;         // of a GEMM, those on padding included
  double bytes = 0;              // each input once, each output once
  double compute_us = 0;
  double memory_us = 0;
  double dequantize_us = 0;  // scales applied by CUDA cores
  bool hidden = false;       // ... while the tensor cores run: then it is no part of us
  double us = 0;
};

struct Pass {
  std::vector<Step> steps;
  [[nodiscard]] double us() const;
  [[nodiscard]] double us_of(StepKind kind) const;
  [[nodiscard]] double bytes() const;
};

// Bytes that the forward pass keeps for the backward one.
struct Kept {
  double x = 0;
  double h = 0;
  [[nodiscard]] double bytes() const { return x + h; }
};

struct Estimate {
  Load load;
  Pass forward;
  Pass backward;
  Kept kept;
  double useful_forward = 0;  // operations without padding: 6 R n d, and 12 R n d backward
  double useful_backward = 0;
  bool assumes = false;  // a rate of the card that it uses is assumed
  [[nodiscard]] double us() const { return forward.us() + backward.us(); }
};

struct EstimateOptions {
  LoadSpec load;
  double microbatches = 1;  // weights are quantized once for so many
  // GPUs that share the layer: each holds experts / gpus of them, to which rows of all GPUs' tokens come.
  std::int64_t gpus = 1;
};

Estimate estimate(const LayerShape& shape, const LayerRecipe& recipe, const Card& card,
                  const EstimateOptions& options = {});

// SonicMoE's arithmetic intensity of a forward pass in BF16, operations a byte (arXiv 2512.14080, section 2.2):
// 3 / ((2 + 2 G) / d + 3 / (T rho)), with G = d / n and rho = K / E. Writing H is not counted.
double sonicmoe_intensity(const LayerShape& shape);

// SonicMoE's bytes kept in BF16: 2 T d + 4 T K n.
double sonicmoe_kept(const LayerShape& shape);

// Bytes of an element of an operand as codes with their scales; of BF16 2.
double code_bytes(const OperandRule& rule);

// How the card's tensor cores multiply under the rule. Error{usage} for a contract of another architecture.
Engine engine_of(const Card& card, const GemmRule& rule);

// Seconds of CUDA cores that apply a scale to each block of so many products: a multiplication and an addition for each
// output and block.
double dequantize_seconds(double operations, double block, const Card& card);

// The smallest width or number of tokens from which on the recipe's layer is faster than BF16's, forward and backward:
// looked for at powers of two up to 2^20, then between two of them. 0: never; 1: always. Counts of experts are those of
// one number of tokens: for others the load is random.
enum class Dimension : std::uint8_t { d_expert, tokens };
std::int64_t pays_from(Dimension dimension, const LayerShape& shape, const LayerRecipe& recipe, const Card& card,
                       const EstimateOptions& options = {});

}  // namespace mxcheck
