#pragma once
// The tensors that a layer is run on, from files: what `mxcheck layer` takes.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reference/layer/layer.h"

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

}  // namespace mxcheck
