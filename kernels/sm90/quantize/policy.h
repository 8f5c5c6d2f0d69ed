#pragma once
// Parses a policy; throws Refusal for anything that this library does not support.

#include <cstdint>

#include "kernels/common/quantize/policy.h"
#include "kernels/sm90/quantize/dequantize.h"

namespace mxcheck_kernels::sm90 {

struct Policy {
  Element element = Element::e4m3;
  ScaleRule rule = ScaleRule::rceil;
  Dtype dtype = Dtype::bf16;
  BlockKind kind = BlockKind::row;
  int block = 32;  // 32 or 128
  bool tiled = false;
};

// Throws Refusal as read_quantize_policy() does.
Policy read_policy(QuantizeOperation operation, const mxcheck_policy* policy, DLDataType type);

}  // namespace mxcheck_kernels::sm90
