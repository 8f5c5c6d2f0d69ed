#pragma once
// A policy read: what is offered, and nothing else gets past here.

#include <cstdint>

#include "kernels/candidate.h"
#include "kernels/sm90/quantize/dequantize.h"

namespace mxcheck_sm90 {

enum class Operation : std::uint8_t { quantize, quantize_dual, dequantize, scale_layout, cast };

struct Policy {
  Element element = Element::e4m3;
  Rule rule = Rule::rceil;
  Wide wide = Wide::bf16;
  BlockKind kind = BlockKind::row;
  int block = 32;  // 32 or 128
  bool tiled = false;
};

// Throws Refusal: INVALID for a policy that cannot be read, UNSUPPORTED for what is not offered. scale_layout looks at
// neither format, recipe nor type; dequantize and cast not at the recipe; cast not at block and layout.
Policy read_policy(Operation operation, const mxcheck_policy* policy, DLDataType wide);

}  // namespace mxcheck_sm90
