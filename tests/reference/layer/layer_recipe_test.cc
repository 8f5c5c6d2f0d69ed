// Recipes as data: those that are built in can be, and those that cannot are refused with the reason.

#include "reference/layer/layer_recipe.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "tests/reference/common/test_matrix.h"

namespace mxcheck {
namespace {

using test::thrown_by;

TEST(LayerRecipe, built_in_ones_can_be_and_have_names_of_their_own) {
  std::set<std::string> names;
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    EXPECT_NO_THROW(check(recipe)) << recipe.name;
    EXPECT_TRUE(names.insert(recipe.name).second) << recipe.name;
    EXPECT_EQ(layer_recipe_named(recipe.name), recipe);
    EXPECT_FALSE(recipe.meaning.empty());
  }
  EXPECT_EQ(names, (std::set<std::string>{"bf16", "mxfp8", "mxfp8_floor", "mxfp8_e5m2_grad", "dsv3", "dsv3_pow2",
                                          "dsv3_128x128_grad", "fp8_tensor", "broken"}));
}

TEST(LayerRecipe, says_what_its_name_says) {
  const LayerRecipe& mx = layer_recipe_named("mxfp8");
  for (const GemmRule& gemm : mx.gemms) {
    EXPECT_EQ(gemm.contract, "sm90_bf16+decode");
    EXPECT_EQ(gemm.a, (OperandRule{Format::e4m3, {1, 32}, "rceil"}));
    EXPECT_EQ(gemm.b, gemm.a);
  }
  const LayerRecipe& e5m2 = layer_recipe_named("mxfp8_e5m2_grad");
  for (const LayerGemmSpec& gemm : kLayerGemms) {
    const bool gradient_a = gemm.a == "dO" || gemm.a == "dH";
    const bool gradient_b = gemm.b == "dO" || gemm.b == "dH";
    EXPECT_EQ(e5m2.gemm(gemm.value).a.format, gradient_a ? Format::e5m2 : Format::e4m3) << gemm.name;
    EXPECT_EQ(e5m2.gemm(gemm.value).b.format, gradient_b ? Format::e5m2 : Format::e4m3) << gemm.name;
  }
  const LayerRecipe& pow2 = layer_recipe_named("dsv3_pow2");
  EXPECT_EQ(pow2.gemm(LayerGemm::down).b.block, (BlockShape{128, 128}));
  EXPECT_EQ(pow2.gemm(LayerGemm::d_w1).a.source, OperandSource::requantized);
  EXPECT_EQ(pow2.kept_h, (OperandRule{Format::e5m6, {1, 128}, "rceil"}));
  EXPECT_TRUE(pow2.keeps_quantized_x);
  EXPECT_EQ(layer_recipe_named("dsv3_128x128_grad").gemm(LayerGemm::d_up).a.block, (BlockShape{128, 128}));
  EXPECT_FALSE(layer_recipe_named("bf16").gemm(LayerGemm::up).a.quantized());
}

GemmRule& gemm_of(LayerRecipe& r, LayerGemm g) { return r.gemms[static_cast<std::size_t>(g)]; }

struct Impossible {
  std::string_view from;
  std::function<void(LayerRecipe&)> change;
  std::string_view reason;
};

TEST(LayerRecipe, that_cannot_be_is_refused_with_the_reason) {
  const std::vector<Impossible> cases{
      {"mxfp8", [](auto& r) { gemm_of(r, LayerGemm::up).contract = "sm90_bf17"; },
       "layer recipe 'mxfp8', GEMM up: unknown contract"},
      {"mxfp8", [](auto& r) { gemm_of(r, LayerGemm::up).contract = "sm90_fp8"; },
       "GEMM up: contract sm90_fp8 takes no"},
      {"mxfp8", [](auto& r) { gemm_of(r, LayerGemm::d_w2).contract = "sm90_fp8+promote128"; },
       "GEMM d_w2: contract sm90_fp8+promote128 adds up every 128 of k, but scales of operand a change every 32"},
      {"mxfp8",
       [](auto& r) {
         gemm_of(r, LayerGemm::up).a.block = {32, 1}, gemm_of(r, LayerGemm::up).contract = "sm90_fp8+promote32";
       },
       "scales of operand a change every 1"},
      {"bf16", [](auto& r) { gemm_of(r, LayerGemm::down).contract = "sm90_fp8"; }, "GEMM down: contract sm90_fp8"},
      {"bf16", [](auto& r) { gemm_of(r, LayerGemm::down).contract = "sm90_bf16+decode"; }, "at most 8 bits"},
      {"dsv3", [](auto& r) { gemm_of(r, LayerGemm::up).a.format = Format::e5m6; }, "GEMM up: contract sm90_fp8"},
      {"dsv3", [](auto& r) { gemm_of(r, LayerGemm::up).a.format = Format::e8m0; }, "operand X: element format e8m0"},
      {"dsv3", [](auto& r) { gemm_of(r, LayerGemm::up).b.scales = "dsv4"; }, "operand W1: "},
      {"dsv3",
       [](auto& r) {
         gemm_of(r, LayerGemm::up).b.block = {1, 0};
       },
       "operand W1: a block of row"},
      {"dsv3", [](auto& r) { gemm_of(r, LayerGemm::d_w1).a.source = OperandSource::values; },
       "operand X: is made from values, but of X only the quantized one is kept"},
      {"dsv3",
       [](auto& r) {
         gemm_of(r, LayerGemm::up).a = {}, gemm_of(r, LayerGemm::up).b = {},
                    gemm_of(r, LayerGemm::up).contract = "sm90_bf16";
       },
       "operand X: is requantized, but up does not quantize it"},
      {"dsv3", [](auto& r) { gemm_of(r, LayerGemm::d_w2).a.source = OperandSource::requantized; },
       "operand A': is requantized: only X, dO and dH"},
      {"bf16", [](auto& r) { gemm_of(r, LayerGemm::d_w1).b.source = OperandSource::requantized; },
       "operand dH: bf16 is not quantized"},
      {"bf16", [](auto& r) { r.keeps_quantized_x = true; }, "only the quantized one is kept"},
      {"dsv3_pow2",
       [](auto& r) {
         r.kept_h.block = {128, 128};
       },
       "H kept: a block of 128x128"},
      {"dsv3_pow2", [](auto& r) { r.kept_h.format = Format::fp16; }, "H kept: element format fp16"},
      {"mxfp8", [](auto& r) { gemm_of(r, LayerGemm::d_up).contract = "sm90_bf16+decode+from_c"; }, "there is none"},
  };
  for (const Impossible& c : cases) {
    LayerRecipe recipe = layer_recipe_named(c.from);
    c.change(recipe);
    const auto thrown = thrown_by([&] { check(recipe); });
    EXPECT_EQ(thrown.kind, ErrorKind::usage);
    EXPECT_NE(thrown.text.find(c.reason), std::string::npos) << c.reason << "\nis not in: " << thrown.text;
  }
  EXPECT_NE(thrown_by([] { layer_recipe_named("mxfp9"); }).text.find("known are bf16, mxfp8"), std::string::npos);
}

}  // namespace
}  // namespace mxcheck
