#pragma once
// Which rounding a black box that casts follows, and which recipe one that quantizes: docs/identify.md.
//
//   const CastBox cast = [](std::span<const float> x) { return codes; };
//   identify_cast(Format::e4m3, cast).explaining        // {"nearest_even, saturate"}
//   const QuantizeBox quantizes = [](const QuantizeCall& call) { return QuantizeAnswer{codes, scales}; };
//   identify_quantize(Format::e4m3, {1, 32}, quantizes) // .explaining of recipes by name
//   const ScaleBox scales = [](float amax) { return byte; };
//   identify_scale(Format::e4m3, scales)
//
// Casts are compared on every code's value, every middle between two codes and its neighbours in FP32, and special
// values; any two NaN codes are equal. Recipes are compared on blocks of amax values at which rules differ, with
// elements at ties, and blocks with NaN and Inf: bytes are equal or they are not. Two recipes that give the same bytes
// there are both named.
//
// Errors: Error{usage} for formats that are not quantized to, and answers of another size; what the box throws.
//
// Does not promise: to name stochastic rounding. Inputs are FP32.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "properties/identify/match.h"
#include "reference/common/matrix.h"

namespace mxcheck {

using CastBox = std::function<std::vector<std::uint32_t>(std::span<const float> values)>;
Match identify_cast(Format format, const CastBox& box);

struct QuantizeCall {
  Format format = Format::e4m3;
  BlockShape block;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<float> x;
};
struct QuantizeAnswer {
  std::vector<std::uint32_t> codes;   // rows x cols
  std::vector<std::uint32_t> scales;  // row-major: E8M0 bytes, or FP32 words
  bool fp32_scales = false;
};
using QuantizeBox = std::function<QuantizeAnswer(const QuantizeCall& call)>;
Match identify_quantize(Format format, BlockShape block, const QuantizeBox& box);

// The E8M0 byte of a block whose amax this is; NaN and Inf are asked too.
using ScaleBox = std::function<std::uint32_t(float amax)>;
Match identify_scale(Format format, const ScaleBox& box);

}  // namespace mxcheck
