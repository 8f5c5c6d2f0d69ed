#include "kernels/sm90/quantize/policy.h"

#include <string>
#include <string_view>

#include "kernels/sm90/common/refusal.h"

namespace mxcheck_sm90 {
namespace {

Element element_by_name(const char* name) {
  if (name == nullptr) invalid("policy.format is null: must be e4m3 or e5m2");
  if (std::string_view(name) == "e4m3") return Element::e4m3;
  if (std::string_view(name) == "e5m2") return Element::e5m2;
  unsupported("format " + std::string(name) + " is not offered: offered are e4m3, e5m2");
}

Rule rule_by_name(const char* name) {
  if (name == nullptr) invalid("policy.recipe is null: must be rceil, floor or ocp");
  const std::string_view recipe(name);
  if (recipe == "rceil") return Rule::rceil;
  if (recipe == "floor" || recipe == "ocp") return Rule::floor;
  unsupported("recipe " + std::string(recipe) + " is not offered: offered are rceil, floor, ocp");
}

Wide wide_of(DLDataType type) {
  if (type.lanes == 1 && type.code == kDLBfloat && type.bits == 16) return Wide::bf16;
  if (type.lanes == 1 && type.code == kDLFloat && type.bits == 32) return Wide::fp32;
  unsupported("values of DLPack type code " + std::to_string(type.code) + ", " + std::to_string(type.bits) +
              " bits, are not offered: offered are bf16 and fp32");
}

void read_block(const mxcheck_policy& p, Policy& policy) {
  for (const int n : {32, 128}) {
    policy.block = n;
    policy.kind = BlockKind::row;
    if (p.block_rows == 1 && p.block_cols == n) return;
    policy.kind = BlockKind::column;
    if (p.block_rows == n && p.block_cols == 1) return;
    policy.kind = BlockKind::square;
    if (p.block_rows == n && p.block_cols == n) return;
  }
  unsupported("blocks of " + std::to_string(p.block_rows) + " x " + std::to_string(p.block_cols) +
              " are not offered: offered are 1x32, 32x1, 32x32, 1x128, 128x1, 128x128");
}

}  // namespace

Policy read_policy(Operation operation, const mxcheck_policy* p, DLDataType wide) {
  if (p == nullptr) invalid("policy is null");
  if (p->size < sizeof(mxcheck_policy)) {
    invalid("policy.size is " + std::to_string(p->size) + ": must be at least " +
            std::to_string(sizeof(mxcheck_policy)));
  }
  Policy policy;
  if (operation != Operation::scale_layout) {
    policy.element = element_by_name(p->format);
    policy.wide = wide_of(wide);
  }
  if (operation == Operation::quantize || operation == Operation::quantize_dual) policy.rule = rule_by_name(p->recipe);
  if (operation == Operation::cast) return policy;
  read_block(*p, policy);
  if (p->layout != MXCHECK_COMPACT && p->layout != MXCHECK_TCGEN05) {
    unsupported("layout " + std::to_string(p->layout) + " is not offered: offered are 0 (compact), 1 (tcgen05)");
  }
  policy.tiled = p->layout == MXCHECK_TCGEN05;
  if (policy.kind == BlockKind::square && (policy.tiled || operation == Operation::scale_layout)) {
    unsupported("the tcgen05 layout is offered for blocks of one row or one column only");
  }
  if (operation == Operation::quantize_dual && policy.kind != BlockKind::row) {
    unsupported("quantize_dual is offered for blocks of 1x32 and 1x128 only");
  }
  return policy;
}

}  // namespace mxcheck_sm90
