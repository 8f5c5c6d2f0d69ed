#pragma once
// The effect of quantization on the operands of a layer's GEMMs: for the observations of a step.
//
//   forward_facts(layer, x, routes, layer_forward(...), facts);
//
// An operand is compared with the BF16 tensor that it stands for, also where it was made of another quantization of it.
// An element is saturated where its magnitude is above the format's largest number times the block's scale, rounded to
// FP32 (a scale of FP32 is rounded itself, and half of all blocks would count for their largest element otherwise);
// flushed where it is not 0 and its code is one of 0, or its block's scale is 0. A scale of two levels is the product
// of both. An operand that is rotated is compared with the rotated tensor.
//
// Errors: none of their own, but where it is said.

#include <cstdint>
#include <span>
#include <vector>

#include "reference/layer/layer.h"
#include "reference/training/step.h"

namespace mxcheck {

// The facts of the operands of up and down are appended; unquantized ones have no entry. x is the layer's input.
void forward_facts(const Layer& layer, std::span<const std::uint16_t> x, const LayerRoutes& routes,
                   const LayerForward& f, std::vector<OperandFacts>& facts);

// The facts of the operands of d_down, d_w2, d_up and d_w1 are appended likewise.
void backward_facts(const Layer& layer, std::span<const std::uint16_t> x, std::span<const std::uint16_t> d_o,
                    const LayerRoutes& routes, const LayerBackward& b, std::vector<OperandFacts>& facts);

// All of a layer that another engine computed: loads, and facts of every operand, made again from its two products.
// Errors: those of layer_forward and layer_backward.
LayerObservation observe_layer(Layer layer, std::span<const std::uint16_t> x, std::span<const std::uint16_t> d_o,
                               const LayerRoutes& routes, const KnownProducts& products);

// Rows of each expert.
std::vector<std::int64_t> expert_loads(const LayerRoutes& routes);

// Digests of tensors, to compare two computations of them: docs/training.md has the formula. No errors.

// The part of a tensor's digest that `values` add, which are its elements from `first` on; every NaN alike.
std::uint64_t tensor_digest(std::span<const float> values, int threads = 0, std::int64_t first = 0);
std::uint64_t tensor_digest(std::span<const std::uint16_t> bf16, int threads = 0);  // likewise
std::uint64_t digest_of_digests(std::span<const std::uint64_t> digests);

}  // namespace mxcheck
