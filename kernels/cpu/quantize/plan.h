#pragma once
// A policy read: what is offered, and nothing else gets past here.

#include <cstdint>

#include "kernels/candidate.h"
#include "kernels/cpu/quantize/element.h"
#include "kernels/cpu/quantize/scale_map.h"

namespace mxcheck_cpu {

enum class Operation : std::uint8_t { quantize, quantize_dual, dequantize, scale_layout, cast };

struct Plan {
  Element element = Element::e4m3;
  Rule rule = Rule::rceil;
  Wide wide = Wide::bf16;
  Shape block;
  mxcheck_layout layout = MXCHECK_COMPACT;
};

// Throws Refusal: INVALID for a policy that cannot be read, UNSUPPORTED for what is not offered. scale_layout looks at
// neither format, recipe nor type; dequantize and cast not at the recipe, cast
// not at block and layout.
Plan read_policy(Operation operation, const mxcheck_policy* policy, DLDataType wide);

}  // namespace mxcheck_cpu
