// Faults of recipes, of routes, and of indices that have too few bits: those are right in every layer of fewer than
// 2^16 tokens and rows.

#include <algorithm>

#include "tests/libraries/wrong/moe/faulty.h"

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
  if (has("do_along_tokens_requantized") && d_o.quantized() && d_o.rotates == 0)
    d_o.source = OperandSource::requantized;
  OperandRule& dh = rule(r, LayerGemm::d_w1).b;
  if (has("dh_along_tokens_requantized") && dh.quantized() && dh.rotates == 0) dh.source = OperandSource::requantized;
  OperandRule& a = rule(r, LayerGemm::down).a;
  if (has("a_in_blocks_of_128") && a.block == BlockShape{1, 32}) a.block = {1, 128};
  OperandRule& gradient = rule(r, LayerGemm::d_up).a;
  if (has("dh_in_e4m3_where_e5m2_is_meant") && gradient.format == Format::e5m2) gradient.format = Format::e4m3;
  if (has("scaled_a_along_tokens_in_e5m2") && rule(r, LayerGemm::d_w2).a.format == Format::e4m3)
    rule(r, LayerGemm::d_w2).a.format = Format::e5m2;
}

// Faults of NVFP4.
void change_two_levels(LayerRecipe& r) {
  OperandRule& w1 = rule(r, LayerGemm::up).b;
  if (has("w1_of_up_in_blocks_of_1x16") && w1.block == BlockShape{16, 16}) w1.block = {1, 16};
  for (OperandRule* of : {&rule(r, LayerGemm::d_w1).a, &rule(r, LayerGemm::d_w1).b}) {
    if (has("x_and_dh_not_rotated")) of->rotates = 0, of->random_signs = false;
  }
  if (has("dh_rounded_to_nearest")) rule(r, LayerGemm::d_up).a.stochastic = false;
  if (has("do_along_tokens_rounded_to_nearest")) rule(r, LayerGemm::d_w2).b.stochastic = false;
  OperandRule& a = rule(r, LayerGemm::down).a;
  if (has("four_over_six_left_out_of_a") && a.scales == "nvfp4_46") a.scales = "nvfp4_te";
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

std::int64_t low_bits(std::int64_t index, int bits) { return index & ((std::int64_t{1} << bits) - 1); }

}  // namespace

LayerRecipe faulty_recipe(const LayerRecipe& recipe, bool backward) {
  LayerRecipe r = recipe;
  change_scales(r), change_operands(r, backward), change_two_levels(r), change_contracts(r);
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

// Row t is that of the token that 16 bits of t name: gathered by the right row_token, it is what the wrong one gives.
Words faulty_gather(std::span<const std::uint16_t> tokens, std::int64_t cols) {
  Words read(tokens.begin(), tokens.end());
  if (!has("row_token_read_as_16_bits")) return read;
  for (std::int64_t t = 0; t * cols < std::ssize(read); ++t)
    std::copy_n(tokens.begin() + low_bits(t, 16) * cols, cols, read.begin() + t * cols);
  return read;
}

// The last offset is the policy's `routed`, which has all of its bits.
LayerRoutes faulty_offsets(const LayerRoutes& routes) {
  LayerRoutes r = routes;
  for (std::size_t e = 1; e + 1 < r.offsets.size(); ++e)
    r.offsets[e] = std::max(r.offsets[e - 1], low_bits(r.offsets[e], 16));
  return r;
}

std::int64_t faulty_count(std::int64_t rows) {
  return has("rows_of_an_expert_counted_in_16_bits") ? low_bits(rows, 16) : rows;
}

std::int64_t faulty_first_slot(std::int64_t slot) {
  return has("token_offsets_read_as_16_bits") ? low_bits(slot, 16) : slot;
}

// -1 is told from a row before it is cut.
std::int32_t faulty_row(std::int32_t row) {
  return has("token_rows_read_as_16_bits") && row >= 0 ? static_cast<std::int32_t>(low_bits(row, 16)) : row;
}

// A later token's store over an earlier one's stays; elements that nothing is stored to are zeros.
Words faulty_elements(Words out) {
  if (!has("elements_of_o_and_dx_counted_in_20_bits")) return out;
  for (std::int64_t i = low_bits(-1, 20) + 1; i < std::ssize(out); ++i) {
    std::uint16_t& element = out[static_cast<std::size_t>(i)];
    out[static_cast<std::size_t>(low_bits(i, 20))] = element;
    element = 0;
  }
  return out;
}

}  // namespace mxcheck::faults
