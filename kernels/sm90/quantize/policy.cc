#include "kernels/sm90/quantize/policy.h"

#include <algorithm>
#include <array>

namespace mxcheck_kernels::sm90 {
namespace {

constexpr std::array kRecipes{OfferedRecipe{"rceil", ScaleRule::rceil}, OfferedRecipe{"floor", ScaleRule::floor},
                              OfferedRecipe{"ocp", ScaleRule::floor}};
constexpr std::array kBlocks{Shape{1, 32}, Shape{32, 1}, Shape{32, 32}, Shape{1, 128}, Shape{128, 1}, Shape{128, 128}};

}  // namespace

Policy read_policy(QuantizeOperation operation, const mxcheck_policy* policy, DLDataType type) {
  const QuantizePolicy read = read_quantize_policy(operation, policy, type, kRecipes, kBlocks);
  Policy p;
  p.element = read.element, p.rule = read.rule, p.dtype = read.dtype;
  if (operation == QuantizeOperation::cast) return p;
  p.kind = read.block.rows == 1 ? BlockKind::row : read.block.cols == 1 ? BlockKind::column : BlockKind::square;
  p.block = static_cast<int>(std::max(read.block.rows, read.block.cols));
  p.tiled = read.layout == MXCHECK_TCGEN05;
  return p;
}

}  // namespace mxcheck_kernels::sm90
