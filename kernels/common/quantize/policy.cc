#include "kernels/common/quantize/policy.h"

#include <string>

#include "kernels/common/arguments.h"
#include "kernels/common/names.h"

namespace mxcheck_kernels {
namespace {

Shape block_of(const mxcheck_policy& policy, std::span<const Shape> offered) {
  std::string names;
  for (const Shape& block : offered) {
    if (block.rows == policy.block_rows && block.cols == policy.block_cols) return block;
    names += (names.empty() ? "" : ", ") + std::to_string(block.rows) + "x" + std::to_string(block.cols);
  }
  unsupported("blocks of " + std::to_string(policy.block_rows) + " x " + std::to_string(policy.block_cols) +
              " are not offered: offered are " + names);
}

mxcheck_layout layout_of(std::int32_t layout) {
  if (layout == MXCHECK_COMPACT) return MXCHECK_COMPACT;
  if (layout == MXCHECK_TCGEN05) return MXCHECK_TCGEN05;
  unsupported("layout " + std::to_string(layout) + " is not offered: offered are 0 (compact), 1 (tcgen05)");
}

}  // namespace

QuantizePolicy read_quantize_policy(QuantizeOperation operation, const mxcheck_policy* policy, DLDataType type,
                                    std::span<const OfferedRecipe> recipes, std::span<const Shape> blocks) {
  const mxcheck_policy& p = policy_of<mxcheck_policy>(policy);
  QuantizePolicy read;
  if (operation != QuantizeOperation::scale_layout) {
    read.element = element_named(p.format);
    read.dtype = dtype_of("values", type);
  }
  if (operation == QuantizeOperation::quantize || operation == QuantizeOperation::quantize_dual) {
    read.rule = entry_named(recipes, "recipe", "recipe", p.recipe, [](const OfferedRecipe&) { return true; }).rule;
  }
  if (operation == QuantizeOperation::cast) return read;
  read.block = block_of(p, blocks);
  read.layout = layout_of(p.layout);
  const bool is_line = read.block.rows == 1 || read.block.cols == 1;
  if (!is_line && (read.layout == MXCHECK_TCGEN05 || operation == QuantizeOperation::scale_layout)) {
    unsupported("the tcgen05 layout is offered for blocks of one row or one column only");
  }
  if (operation == QuantizeOperation::quantize_dual && (read.block.rows != 1 || read.block.cols == 0)) {
    unsupported("quantize_dual is offered for blocks of 1x32 and 1x128 only");
  }
  return read;
}

}  // namespace mxcheck_kernels
