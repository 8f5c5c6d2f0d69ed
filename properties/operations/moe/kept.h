#pragma once
// H and X as they are kept, as tensors of a call: what the forward pass writes and the backward pass reads.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "properties/core/compare.h"
#include "reference/layer/layer.h"

namespace mxcheck {

// One tensor, or codes and scales.
struct KeptTensor {
  TensorInfo info;
  std::vector<std::byte> bytes;
};

// The tensors in which a rule keeps `rows` rows of `cols` columns: names, types and sizes; no bytes.
std::vector<TensorInfo> kept_infos(const std::string& name, const OperandRule& rule, std::int64_t rows,
                                   std::int64_t cols);
// The rule by which a recipe keeps X: BF16, or up's operand.
OperandRule kept_x_rule(const LayerRecipe& recipe);

std::vector<KeptTensor> kept_tensors(const std::string& name, const OperandRule& rule, const LayerOperand& from);
// The same the other way; as many bytes as kept_infos says.
LayerOperand kept_operand(const OperandRule& rule, const std::vector<KeptTensor>& from, std::int64_t rows,
                          std::int64_t cols, bool by_token);

}  // namespace mxcheck
