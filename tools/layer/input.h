#pragma once
// The tensors that a layer is run on, its weights and its routes, from files: what `mxcheck layer` takes.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reference/layer/layer.h"
#include "reference/layer/routes.h"
#include "tools/route/router_options.h"

namespace mxcheck {

struct LayerFiles {
  std::vector<std::string> inputs;  // files in which names are looked up
  // Names of tensors in those files, or FILE:TENSOR.
  std::string x = "X", w1 = "W1", w2 = "W2", d_o;
  std::string w1_layout = "d-2n", w2_layout = "n-d";
  std::string experts;         // "layer0.experts.{}": torch's Linear weights, an expert a number
  std::string gate, up, down;  // patterns of their own; with `experts` they are the usual names
  std::string gate_up = "halves";
  std::string dtype;  // "bf16": 16-bit unsigned integers are its bits
};

// A tensor in BF16 with where it was, for messages.
struct Bf16Tensor {
  std::string where;
  std::vector<std::int64_t> shape;
  std::vector<std::uint16_t> words;
};

GateUp gate_up_of(const LayerFiles& files);

// Where the tensor of this name is: "a.safetensors:X". Error{input} when no file has it, or several have. `option` is
// for messages: "--x".
std::string location_of(const LayerFiles& files, const std::string& option, const std::string& name);

// Error{input} for another type, naming what would be right.
Bf16Tensor bf16_tensor(const LayerFiles& files, const std::string& option, const std::string& name);

// X or dO: [tokens, d], or with leading dimensions of 1.
Bf16Tensor token_tensor(const LayerFiles& files, const std::string& option, const std::string& name);

// "[4, 32, 64]"
std::string shape_in_brackets(const std::vector<std::int64_t>& shape);

// W1 and W2 as a layer's checkpoint holds them: one tensor each, in either order of its columns, or three tensors an
// expert.
struct LayerWeights {
  std::vector<std::uint16_t> w1;  // [E, d, 2n], as gate_up says
  std::vector<std::uint16_t> w2;  // [E, n, d]
  std::int64_t inner = 0;         // n
};

// Error{input} for sizes that do not agree with `experts` and `width`, which come from `routes_from` and `x_from`.
LayerWeights read_weights(const LayerFiles& files, std::int64_t experts, std::int64_t width,
                          const std::string& routes_from, const std::string& x_from);

// A layer's routes: computed from logits, or read from what `mxcheck route -o` wrote.
struct LayerRouting {
  std::string where;  // for messages
  LayerRoutes routes;
  std::int64_t tokens = 0, experts = 0;
  std::map<std::string, std::string> about;  // metadata: what made the routes
  // The gradient of the logits from that of each row's weight, for routes from logits under rule none; else nothing.
  std::optional<std::vector<float>> logits_gradient(std::span<const float> ds, int threads) const;

  // The inputs that logits_gradient() needs.
  Router router;
  std::vector<float> bias;
  std::vector<std::byte> logits;
  Format logits_dtype = Format::fp32;
  std::vector<std::int32_t> slot_experts;
};

LayerRouting routing_from_logits(const LayerFiles& files, const std::string& logits, const RouterOptions& options,
                                 int threads);
// FILE.safetensors or FILE.h5 with offsets, row_token, row_weight, token_offsets, token_rows; where experts and weights
// are there too, slots are theirs, best first. A layer's own file will do as well.
LayerRouting routing_from_file(const std::string& file);

}  // namespace mxcheck
