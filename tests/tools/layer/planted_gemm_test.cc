// Faults planted in GEMMs and their operands are named: made by layers of other inputs, or other recipes.

#include "tests/tools/layer/planted.h"

namespace mxcheck {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): all of it is for these tests

// The tensor of a layer that was computed from other inputs, or under another recipe.
Bytes of_layer(const std::string& tensor, void (*change)(LayerData&), const std::string& recipe = "mxfp8") {
  LayerData d = layer_of(recipe);
  change(d);
  compute(d);
  for (const LayerTensor& t : tensors_of(d)) {
    if (t.name == tensor) return {t.data.begin(), t.data.end()};
  }
  return {};
}

TEST(LayerPlanted, rows_and_weights) {
  expect_named("W1 transposed", "H", of_layer("H", [](LayerData& d) {
                 const Words w = d.w1;
                 for (std::size_t e = 0; e < 4; ++e) {
                   for (std::size_t i = 0; i < 64; ++i) {
                     for (std::size_t j = 0; j < 96; ++j) d.w1[e * 6144 + i * 96 + j] = w[e * 6144 + j * 64 + i];
                   }
                 }
               }));
  expect_named("gate and up exchanged in W1", "H", of_layer("H", [](LayerData& d) {
                 const Words w = d.w1;
                 for (std::size_t i = 0; i < w.size(); ++i) d.w1[i / 96 * 96 + (i + 48) % 96] = w[i];
               }));
  expect_named("each expert's rows times the next expert's W2", "Y",
               of_layer("Y", [](LayerData& d) { std::rotate(d.w2.begin(), d.w2.begin() + 64 * 48, d.w2.end()); }));
  // Row r of X[gather] is that of row r - 1: every row a token of its own.
  LayerData d = layer_of("mxfp8");
  Words x;
  for (std::int64_t r = 0; r < d.rows(); ++r) {
    const std::int32_t token = d.routes.row_token[static_cast<std::size_t>(std::max<std::int64_t>(r - 1, 0))];
    x.insert(x.end(), d.x.begin() + token * 64, d.x.begin() + (token + 1) * 64);
  }
  d.x = x;
  d.shape.tokens = d.rows();
  std::vector<std::int32_t> experts;
  for (std::size_t e = 0; e < 4; ++e)
    experts.insert(experts.end(), static_cast<std::size_t>(d.routes.offsets[e + 1] - d.routes.offsets[e]),
                   static_cast<int>(e));
  d.routes = layer_routes(experts, d.routes.row_weight, 1, {}, 4);
  expect_named("each row gathered by the index of the row before it", "H",
               to_bytes(layer_forward(d.layer(), d.x, d.routes).h));
}

TEST(LayerPlanted, recipes_and_contracts) {
  expect_named("layer recipe mxfp8_floor", "H",
               of_layer("H", [](LayerData& d) { d.recipe = layer_recipe_named("mxfp8_floor"); }), "mxfp8", true);
  expect_named("scales of recipe floor of A", "down_a_codes",
               of_layer("down_a_codes", [](LayerData& d) { d.recipe.gemms[1].a.scales = "floor"; }));
  expect_named("the sum of contract exact+decode", "P",
               of_layer("P", [](LayerData& d) { d.recipe.gemms[2].contract = "exact+decode"; }));
  expect_named("blocks of 32x32 of W1", "up_b_codes", of_layer("up_b_codes", [](LayerData& d) {
                 d.recipe.gemms[0].b.block = {32, 32};
               }));
  expect_named("A in place of A'", "d_w2_a_codes", of_layer("d_w2_a_codes", [](LayerData& d) {
                 std::fill(d.routes.row_weight.begin(), d.routes.row_weight.end(), 1.0F);
               }));
  expect_named("quantized again from what the GEMM along rows made of it", "d_w1_b_codes",
               of_layer("d_w1_b_codes", [](LayerData& d) { d.recipe.gemms[5].b.source = OperandSource::requantized; }));
  expect_named("H in BF16 in place of H as it was kept", "dS",
               of_layer(
                   "dS", [](LayerData& d) { d.recipe.kept_h = OperandRule(); }, "dsv3_pow2"),
               "dsv3_pow2");
}

TEST(LayerPlanted, blocks_that_run_over_the_ends_of_experts) {
  const LayerData d = layer_of("mxfp8");
  const MatrixView dh{Format::bf16, std::as_bytes(std::span(d.backward.dh)).data(), d.rows(), 96, 96};
  const QuantizedTensor q = quantize(dh, Format::e4m3, {32, 1}, recipe_named("rceil"));
  expect_named("blocks along tokens that do not start again at each expert", "d_w1_b_codes", q.codes.data);
}

}  // namespace
}  // namespace mxcheck
