#pragma once
// Real tensors that travel inside the binary: slices of two MoE layers in training (goldens/data/README.md), so that
// every check can run on real data wherever the tool runs.

#include <string>
#include <string_view>

#include "goldens/io/tensor_file.h"

namespace mxcheck {

// "layer0.x", "layer3.dO" and so on, all BF16 and of rank 2, in the order of the file. Parsed once, on first use.
const SafetensorsFile& real_tensors();

// "layer0.router_logits" and "layer3.router_logits": 2048 tokens x 32 experts, BF16. In a separate file, so that loops
// over all of the tensors above do not include them.
const SafetensorsFile& real_router_logits();

// The tensor with this name, of either file; Error{usage} lists the names.
const Tensor& real_tensor(std::string_view name);

inline constexpr std::string_view kRealPrefix = "real:";
// "real:layer0.x" is such a tensor; anything else is what read_tensor reads.
Tensor tensor_at(const std::string& location);

}  // namespace mxcheck
