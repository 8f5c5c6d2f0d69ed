// Faults of recipes and of routes.

#include <algorithm>

#include "tests/faults/moe/faulty.h"

namespace mxcheck::faults {
namespace {

GemmRule& rule(LayerRecipe& r, LayerGemm gemm) { return r.gemms[static_cast<std::size_t>(gemm)]; }

void floor_scales(OperandRule& rule) {
  if (rule.quantized() && rule.scales == "rceil") rule.scales = "floor";
}

void change_scales(LayerRecipe& r) {
  if (has("x_scales_floor")) floor_scales(rule(r, LayerGemm::up).a);
  if (has("a_scales_floor")) floor_scales(rule(r, LayerGemm::down).a);
  if (has("w2_scales_floor_in_d_down")) floor_scales(rule(r, LayerGemm::d_down).b);
  if (has("dh_scales_floor")) floor_scales(rule(r, LayerGemm::d_up).a);
  if (has("scaled_a_scales_floor_along_tokens")) floor_scales(rule(r, LayerGemm::d_w2).a);
  if (has("dh_scales_floor_along_tokens")) floor_scales(rule(r, LayerGemm::d_w1).b);
  if (has("kept_h_scales_floor")) floor_scales(r.kept_h);
  if (has("fp32_scales_are_powers_of_two") && r.name == "dsv3") {
    rule(r, LayerGemm::d_up).a.scales = rule(r, LayerGemm::d_up).b.scales = "rceil";
  }
}

void change_operands(LayerRecipe& r, bool backward) {
  OperandRule& x = rule(r, LayerGemm::d_w1).a;
  if (has("kept_x_not_requantized") && backward) x.source = OperandSource::values, r.keeps_quantized_x = false;
  OperandRule& d_o = rule(r, LayerGemm::d_w2).b;
  if (has("do_along_tokens_requantized") && d_o.quantized()) d_o.source = OperandSource::requantized;
  OperandRule& dh = rule(r, LayerGemm::d_w1).b;
  if (has("dh_along_tokens_requantized") && dh.quantized()) dh.source = OperandSource::requantized;
  OperandRule& a = rule(r, LayerGemm::down).a;
  if (has("a_in_blocks_of_128") && a.block == BlockShape{1, 32}) a.block = {1, 128};
  OperandRule& gradient = rule(r, LayerGemm::d_up).a;
  if (has("dh_in_e4m3_where_e5m2_is_meant") && gradient.format == Format::e5m2) gradient.format = Format::e4m3;
  if (has("scaled_a_along_tokens_in_e5m2") && rule(r, LayerGemm::d_w2).a.format == Format::e4m3)
    rule(r, LayerGemm::d_w2).a.format = Format::e5m2;
}

void change_contracts(LayerRecipe& r) {
  const auto replace = [&](LayerGemm gemm, std::string_view from, const char* to) {
    if (rule(r, gemm).contract == from) rule(r, gemm).contract = to;
  };
  if (has("up_summed_exactly")) {
    replace(LayerGemm::up, "sm90_bf16", "exact");
    replace(LayerGemm::up, "sm90_bf16+decode", "exact+decode");
  }
  if (has("d_w1_summed_from_the_last_token")) {
    replace(LayerGemm::d_w1, "sm90_bf16", "sm90_bf16+descending");
    replace(LayerGemm::d_w1, "sm90_bf16+decode", "sm90_bf16+decode+descending");
  }
  if (has("d_up_promoted_from_the_last_block"))
    replace(LayerGemm::d_up, "sm90_fp8+promote128", "sm90_fp8+promote128+descending");
  if (has("scales_of_d_w2_multiplied_one_after_another"))
    replace(LayerGemm::d_w2, "sm90_fp8+promote128", "sm90_fp8+promote128+a_first");
}

}  // namespace

LayerRecipe faulty_recipe(const LayerRecipe& recipe, bool backward) {
  LayerRecipe r = recipe;
  change_scales(r), change_operands(r, backward), change_contracts(r);
  return r;
}

// For sums over a token's rows alone: these routes need be none.
LayerRoutes faulty_routes(const LayerRoutes& routes, bool backward) {
  LayerRoutes r = routes;
  for (std::size_t t = 0; t + 1 < r.token_offsets.size(); ++t) {
    const auto begin = r.token_rows.begin() + r.token_offsets[t];
    const auto end = r.token_rows.begin() + r.token_offsets[t + 1];
    if (has("rows_of_a_token_in_their_order")) std::sort(begin, end);
    if (has("slots_from_the_last_to_the_first_in_dx") && backward) std::reverse(begin, end);
    if (has("dropped_slot_is_row_0") && !r.row_token.empty()) std::replace(begin, end, -1, 0);
    if (has("slots_after_a_dropped_one_left_out")) std::fill(std::find(begin, end, -1), end, -1);
    std::transform(begin, end, begin, faulty_row);
    if (has("slots_beyond_two_left_out") && end - begin > 2) std::fill(begin + 2, end, -1);
  }
  return r;
}

}  // namespace mxcheck::faults
