#pragma once
// `mxcheck layer`: its options, summaries of tensors, and dumps of other layers compared with it.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "goldens/io/tensor_file.h"
#include "goldens/json/json.h"
#include "goldens/layer/layer_file.h"
#include "reference/layer/layer_recipe.h"
#include "tools/layer/input.h"
#include "tools/route/router_options.h"

namespace mxcheck {

struct LayerOptions {
  std::string recipe, svg;
  bool list = false, show = false, json = false;
  LayerFiles files;
  std::string logits, routes;
  RouterOptions router;
  bool backward = false;
  std::optional<std::uint64_t> random_seed, random_step, random_layer;
  std::string output;
  std::vector<std::string> only;
  std::string against;
  std::vector<std::string> map;
  int threads = 0;
};

// Computes the layer; writes, prints, or compares with a dump. The exit code.
int run_layer(const LayerOptions& o);

// The contents of a tensor in a line: its extremes, its NaNs and a prefix of its SHA-256.
struct TensorSummary {
  double min_abs = 0, max_abs = 0;  // of what is no NaN; 0 where there is nothing
  std::int64_t nans = 0;
  std::string sha256;
};
TensorSummary summary_of(const LayerTensor& tensor);

std::string summary_text(const std::vector<LayerTensor>& tensors);
Json summary_json(const std::vector<LayerTensor>& tensors);

// A dump of a layer's tensors, of anyone's making: a safetensors file, or an HDF5 file that `mxcheck layer` wrote.
class LayerDump {
 public:
  // map: "H=model.h" says that the layer's H is there by the name model.h.
  LayerDump(const std::string& path, const std::vector<std::string>& map);
  ~LayerDump();
  LayerDump(const LayerDump&) = delete;
  LayerDump& operator=(const LayerDump&) = delete;

  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }  // as they are in the file
  // Finds a tensor by the layer's name.
  [[nodiscard]] std::optional<Tensor> find(const std::string& name) const;
  // Names in the file that are none of these of the layer's.
  [[nodiscard]] std::vector<std::string> others(const std::set<std::string>& known) const;

 private:
  struct Files;
  std::unique_ptr<Files> files_;
  std::vector<std::string> names_;
  std::map<std::string, std::string> map_;
};

// A dump compared with the layer that was computed: the answer of `mxcheck layer --against`.
struct Comparison {
  std::string text;
  int exit_code = 0;  // 0 where all that the dump has is equal, else 1
};
Comparison compare_with_dump(const LayerOptions& o, LayerData& layer, const LayerRouting& routing);

// A recipe as a flow of data: what flow_text and flow_svg draw, so that both say the same.
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
