// Gate and up value in either order: the same layer, W1's columns another way round, whatever the reference says.
//
// Columns of W1, H and dH change their places. What is summed or quantized along them, 2n, is not the same then: dX, a
// sum over them in their order, of every recipe; H and O where W1's blocks have several columns; dW1 where dH's do.

#include <algorithm>

#include "properties/core/check.h"
#include "properties/operations/moe/statements.h"

namespace mxcheck {
namespace {

using Bytes = std::vector<std::byte>;

// Whether a scale is that of the same elements in any order of the operand's rows: 2n of W1 in up and of dH in d_w1,
// whose rows, as the GEMM reads them, are those columns.
bool is_free_of_order(const OperandRule& rule) {
  return !rule.quantized() || rule.block.rows == 1 || rule.of_whole_tensor();
}

bool has_h_in_any_order(const LayerRecipe& recipe) { return is_free_of_order(recipe.gemm(LayerGemm::up).b); }

bool has_dw1_in_any_order(const LayerRecipe& recipe) {
  const OperandRule& dh = recipe.gemm(LayerGemm::d_w1).b;
  const OperandRule& source = recipe.gemm(LayerGemm::d_up).a;  // blocks along 2n
  const bool is_as_in_d_up = dh.quantized() && dh.source == OperandSource::requantized;
  return is_free_of_order(dh) && (!is_as_in_d_up || !source.quantized() || source.of_whole_tensor());
}

bool has_both_orders(const Variant& v, std::span<const Variant> offered) {
  if (!is_moe(v) || moe_of(v).gate_up != MXCHECK_INTERLEAVED) return false;
  const LayerRecipe& recipe = layer_recipe_of(v);
  const bool h_has_no_blocks = !recipe.kept_h.quantized();  // blocks along 2n
  if (!h_has_no_blocks || (!is_moe_backward(v) && !has_h_in_any_order(recipe))) return false;
  Variant halves = v;
  moe_of(halves).gate_up = MXCHECK_HALVES;
  return offers(offered, halves);
}

// Rows of n pairs as they are in halves.
Bytes in_halves(const Bytes& interleaved, std::int64_t n, std::size_t width) {
  Bytes halves(interleaved.size());
  const std::size_t row = 2 * static_cast<std::size_t>(n) * width;
  for (std::size_t at = 0; at < halves.size(); at += width) {
    const std::size_t column = at % row / width;
    const std::size_t to = column / 2 + (column % 2 == 0 ? 0 : static_cast<std::size_t>(n));
    std::copy_n(interleaved.begin() + static_cast<std::ptrdiff_t>(at), width,
                halves.begin() + static_cast<std::ptrdiff_t>(at - at % row + to * width));
  }
  return halves;
}

std::optional<Finding> either_order(CheckContext& context, const Case& c) {
  const std::int64_t n = moe_case(c).inner;
  const LayerRecipe& recipe = layer_recipe_of(c.variant);
  const MoeProblem interleaved(c);
  Case other = c;
  moe_of(other.variant).gate_up = MXCHECK_HALVES;
  MoeProblem halves(other);  // its W1 is drawn as the same gates and up values
  // The same H too, where that of W1 in blocks of several columns would be another.
  if (is_moe_backward(c.variant)) halves.h[0].bytes = in_halves(interleaved.h[0].bytes, n, 2);
  const MoePair pair = run_both(context, halves, interleaved);
  if (!pair.usable) return pair.finding;
  for (std::size_t i = 0; i < halves.outputs.size(); ++i) {
    const TensorInfo& info = halves.outputs[i];
    if (info.name == "dx" || (info.name == "dw1" && !has_dw1_in_any_order(recipe))) continue;
    Bytes observed = pair.after.outputs[i];
    if (info.name == "h" || info.name == "dw1") observed = in_halves(observed, n, bytes_of_element(info));
    if (auto f = differ(info, pair.before.outputs[i], observed,
                        info.name + " of gates and up values interleaved is not that of halves"))
      return f;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Statement> moe_order_law_statements() {
  Statement s = moe_law(
      "gate_and_up_interleaved_give_the_layer_of_halves",
      "W1 with its columns in the other order gives the same O, H, dW1, dW2 and dS, in that order",
      [](const Variant&) { return true; }, either_order);
  s.applies = has_both_orders;
  return {s};
}

}  // namespace mxcheck
