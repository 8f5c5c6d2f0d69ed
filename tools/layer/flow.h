#pragma once
// A recipe as a flow of data: what flow_text and flow_svg draw, so that both say the same.

#include <string>
#include <vector>

#include "reference/layer/layer_recipe.h"

namespace mxcheck {

struct FlowTensor {
  std::string name;     // "X[gather]"
  std::string type;     // "bf16 [R, d]"
  std::string becomes;  // "e4m3 1x32 rceil", of a GEMM's operand; empty: read as it is
};

struct FlowStep {
  std::string name;                // "up", "SwiGLU"
  std::vector<FlowTensor> inputs;  // of a GEMM two
  std::string does;                // "sum over d: sm90_bf16+decode"
  std::vector<FlowTensor> outputs;
  std::string kept;  // "X as codes", "H in bf16": for the backward pass, from here
  bool is_gemm = false;
};

std::vector<FlowStep> forward_flow(const LayerRecipe& recipe);
std::vector<FlowStep> backward_flow(const LayerRecipe& recipe);

// "e4m3 1x32 rceil", "e4m3 tensor fp32 again", "bf16"
std::string rule_text(const OperandRule& rule);

// The table of `mxcheck layer --show`, and the flow below it.
std::string to_text(const LayerRecipe& recipe);

// ASCII, at most 100 columns.
std::string flow_text(const LayerRecipe& recipe);

// An SVG file of its own.
std::string flow_svg(const LayerRecipe& recipe);

}  // namespace mxcheck
