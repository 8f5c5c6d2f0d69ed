#include "kernels/cpu/quantize/plan.h"

#include <array>
#include <string>
#include <string_view>

#include "kernels/cpu/refusal.h"

namespace mxcheck_cpu {
namespace {

Element element_by_name(const char* name) {
  if (name == nullptr) invalid("policy.format is null: must be e4m3 or e5m2");
  if (std::string_view(name) == "e4m3") return Element::e4m3;
  if (std::string_view(name) == "e5m2") return Element::e5m2;
  unsupported("format " + std::string(name) + " is not offered: offered are e4m3, e5m2");
}

Rule rule_by_name(const char* name) {
  if (name == nullptr) invalid("policy.recipe is null: must be rceil, floor, ocp, torchao or te");
  const std::string_view recipe(name);
  if (recipe == "rceil") return Rule::rceil;
  if (recipe == "floor" || recipe == "ocp") return Rule::floor;
  if (recipe == "torchao") return Rule::rceil_fp32;
  if (recipe == "te") return Rule::te;
  unsupported("recipe " + std::string(recipe) + " is not offered: offered are rceil, floor, ocp, torchao, te");
}

Wide wide_of(DLDataType type) {
  if (type.lanes == 1 && type.code == kDLBfloat && type.bits == 16) return Wide::bf16;
  if (type.lanes == 1 && type.code == kDLFloat && type.bits == 32) return Wide::fp32;
  unsupported("values of DLPack type code " + std::to_string(type.code) + ", " + std::to_string(type.bits) +
              " bits, are not offered: offered are bf16 and fp32");
}

Shape block_of(const mxcheck_policy& policy) {
  constexpr std::array<Shape, 7> kOffered{{{1, 32}, {32, 1}, {32, 32}, {1, 128}, {128, 1}, {128, 128}, {1, 0}}};
  for (const Shape& shape : kOffered) {
    if (shape.rows == policy.block_rows && shape.cols == policy.block_cols) return shape;
  }
  unsupported("blocks of " + std::to_string(policy.block_rows) + " x " + std::to_string(policy.block_cols) +
              " are not offered: offered are 1x32, 32x1, 32x32, 1x128, 128x1, 128x128, 1x0");
}

mxcheck_layout layout_of(std::int32_t layout) {
  if (layout == MXCHECK_COMPACT) return MXCHECK_COMPACT;
  if (layout == MXCHECK_TCGEN05) return MXCHECK_TCGEN05;
  unsupported("layout " + std::to_string(layout) + " is not offered: offered are 0 (compact), 1 (tcgen05)");
}

}  // namespace

Plan read_policy(Operation operation, const mxcheck_policy* policy, DLDataType wide) {
  if (policy == nullptr) invalid("policy is null");
  if (policy->size < sizeof(mxcheck_policy)) {
    invalid("policy.size is " + std::to_string(policy->size) + ": must be at least " +
            std::to_string(sizeof(mxcheck_policy)));
  }
  if (policy->threads < 0) invalid("policy.threads is " + std::to_string(policy->threads) + ": must be 0 or more");
  Plan plan;
  if (operation != Operation::scale_layout) {
    plan.element = element_by_name(policy->format);
    plan.wide = wide_of(wide);
  }
  if (operation == Operation::quantize || operation == Operation::quantize_dual) {
    plan.rule = rule_by_name(policy->recipe);
  }
  if (operation == Operation::cast) return plan;
  plan.block = block_of(*policy);
  plan.layout = layout_of(policy->layout);
  const bool is_line = plan.block.rows == 1 || plan.block.cols == 1;
  if (!is_line && (plan.layout == MXCHECK_TCGEN05 || operation == Operation::scale_layout)) {
    unsupported("the tcgen05 layout is offered for blocks of one row or one column only");
  }
  if (operation == Operation::quantize_dual && (plan.block.rows != 1 || plan.block.cols == 0)) {
    unsupported("quantize_dual is offered for blocks of 1x32 and 1x128 only");
  }
  return plan;
}

}  // namespace mxcheck_cpu
