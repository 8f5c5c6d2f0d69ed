// Goldens of NVFP4: what their files hold, the specs that are refused, and the causes that a difference has.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "goldens/data/embedded.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/scale/recipe.h"
#include "properties/goldens/suite.h"
#include "properties/operations/nvfp4/golden.h"
#include "reference/quantize/quantize.h"
#include "reference/quantize/scale_layout.h"
#include "reference/quantize/word_order.h"
#include "tests/properties/diagnosis/golden_parts.h"
#include "tests/properties/goldens/specs.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using golden_parts::Tensors;

std::string nvfp4_spec(const std::string& recipe, const std::string& more = "", const std::string& block = "1x16") {
  return test::golden_of("quantize_nvfp4",
                         R"("input": {"real": "layer0.x", "rows_of": [0, 50], "cols_of": [0, 75]}, "recipe": ")" +
                             recipe + R"(", "block": ")" + block + "\"" + more);
}

std::string values_spec(const std::string& recipe, const std::string& scale) {
  return test::golden_of("dequantize_nvfp4", R"("recipe": ")" + recipe + R"(", "tensor_scale": ")" + scale + "\"");
}

Tensor part_of_real() {
  const Tensor& whole = real_tensor("layer0.x");
  Tensor part = make_tensor(Format::bf16, {50, 75});
  for (std::size_t i = 0; i < 50 * 75; ++i) part.set_code(i, whole.code(i / 75 * 512 + i % 75));
  return part;
}

TEST(Nvfp4Golden, holds_the_references_answer_under_the_given_scale) {
  const std::vector<std::int64_t> offsets{0, 33, 33, 50};
  const GoldenTensors g = golden_parts::made(nvfp4_spec(
      "nvfp4_te",
      R"(, "tensor_scale": "41480000", "offsets": [0, 33, 33, 50], "layouts": ["tcgen05"], "pad_byte": 90)"));
  const Tensor x = part_of_real();
  const std::vector<float> amax{12.5};
  const QuantizedTensor q = quantize({Format::bf16, x.data.data(), 50, 75, 75}, Format::e2m1, {1, 16},
                                     any_recipe_named("nvfp4_te"), {.outer = amax}, offsets);
  EXPECT_EQ(g.tensors.at("x").data, x.data);
  EXPECT_EQ(g.tensors.at("tensor_scale").data, to_bytes(amax));
  EXPECT_EQ(g.tensors.at("codes").data, q.codes.data);
  EXPECT_EQ(g.tensors.at("scales").data, q.scales().data);
  const std::vector<std::uint8_t> compact = values_in<std::uint8_t>(q.scales().data);
  EXPECT_EQ(g.tensors.at("scales_tcgen05").data,
            to_bytes(to_layout(ScaleLayout::tcgen05, {{33, 0, 17}, 5, {1, 16}}, compact, 90)));
  EXPECT_EQ(g.tensors.at("values_bf16").data, to_bytes(dequantize_bf16(q, offsets)));
}

TEST(Nvfp4Golden, without_a_scale_it_is_that_of_the_inputs_own_amax) {
  const GoldenTensors g = golden_parts::made(nvfp4_spec("nvfp4", "", "16x16"));
  const Tensor x = part_of_real();
  const QuantizedTensor q =
      quantize({Format::bf16, x.data.data(), 50, 75, 75}, Format::e2m1, {16, 16}, any_recipe_named("nvfp4"));
  EXPECT_EQ(g.tensors.at("tensor_scale").data, q.levels[1].scales.data);
  EXPECT_EQ(g.tensors.at("codes").data, q.codes.data);
  EXPECT_EQ(g.tensors.at("scales").shape, (std::vector<std::int64_t>{4, 5}));
  EXPECT_EQ(g.tensors.at("values").data, to_bytes(dequantize(q)));
}

TEST(Nvfp4Golden, has_every_code_under_every_scale_byte) {
  const GoldenTensors g = golden_parts::made(values_spec("nvfp4_vllm", "40800000"));  // S = 4
  const std::vector<float> values = values_in<float>(g.tensors.at("values").data);
  ASSERT_EQ(values.size(), 4096U);
  EXPECT_EQ(values[0x38 * 16 + 7], 1.5F);
  EXPECT_EQ(values[0xB9 * 16 + 3], -1.125F * 1.5F / 4);
  EXPECT_TRUE(std::isnan(values[0x7F * 16]) && std::isnan(values[0xFF * 16 + 9]));
}

TEST(Nvfp4Golden, specs_are_refused_with_the_place_and_what_would_be_right) {
  const std::pair<std::string, std::string> table[] = {
      {nvfp4_spec("te"), "goldens[0].recipe: has one level of scales: a recipe of NVFP4 is needed"},
      {nvfp4_spec("nvfp5"), "goldens[0].recipe: "},
      {nvfp4_spec("nvfp4", "", "1x32"), "goldens[0].block: is \"1x16\" or \"16x16\""},
      {nvfp4_spec("nvfp4", R"(, "tensor_scale": "00000000")"), "goldens[0].tensor_scale: is bits of a positive finite"},
      {nvfp4_spec("nvfp4", R"(, "tensor_scale": "7f800000")"), "goldens[0].tensor_scale: is bits of a positive finite"},
      {nvfp4_spec("nvfp4", R"(, "layouts": ["tcgen05"])", "16x16"),
       "goldens[0].layouts: are [\"tcgen05\"], of blocks of 1x16"},
      {nvfp4_spec("nvfp4", R"(, "layouts": ["deepgemm"])"), "goldens[0].layouts: are [\"tcgen05\"]"},
      {nvfp4_spec("nvfp4", R"(, "format": "e2m1")"), "format"},
      {test::golden_of("dequantize_nvfp4", R"("recipe": "nvfp4")"), "lacks \"tensor_scale\""},
  };
  for (const auto& [golden, message] : table) {
    test::expect_error(ErrorKind::usage, message,
                       [&, text = test::suite_with(golden)] { (void)parse_suite(text, "t"); });
  }
}

// 64 x 96 of the real tensor, rounded stochastically by words.
std::string words_spec(const std::string& words, const std::string& more = "") {
  return test::golden_of("quantize_nvfp4",
                         R"("input": {"real": "layer0.x", "rows_of": [0, 64], "cols_of": [0, 96]}, "recipe": )"
                         R"("nvfp4_te", "block": "1x16", "words": ")" +
                             words + "\"" + more);
}
constexpr const char* kSeed = R"(, "seed": 81985529216486895, "first_call": 12)";

TEST(Nvfp4Golden, is_rounded_by_the_words_of_a_kernel) {
  const GoldenTensors g = golden_parts::made(words_spec("te_tuned:rows_of_both", kSeed));
  const Tensor& x = g.tensors.at("x");
  Recipe recipe = any_recipe_named("nvfp4_te");
  recipe.rounding = Rounding::stochastic;
  const std::vector<std::uint32_t> words =
      ordered_words(word_order_named("te_tuned"), {64, 96, WordOutput::rows_of_both},
                    {81985529216486895, 12, WordBytes::instruction});
  EXPECT_EQ(
      g.tensors.at("codes").data,
      quantize({Format::bf16, x.data.data(), 64, 96, 96}, Format::e2m1, {1, 16}, recipe, {.words = words}).codes.data);
}

TEST(Nvfp4Golden, words_are_refused_with_the_place) {
  const std::pair<std::string, std::string> table[] = {
      {words_spec("te_tuned"), "lacks \"seed\""},
      {words_spec("te", kSeed), "goldens[0].words: unknown word order 'te'"},
      {words_spec("te_tuned:x", kSeed), "goldens[0].words: unknown output of words 'x'"},
      {words_spec("te_tuned", R"(, "seed": -1)"), "goldens[0].seed"},
      {words_spec("te_tuned", R"(, "seed": 1, "word_bytes": "0321")"), "goldens[0].word_bytes: unknown order of bytes"},
      {nvfp4_spec("nvfp4", R"(, "seed": 1)"), "goldens[0].seed: is of words"},
  };
  for (const auto& [golden, message] : table) {
    test::expect_error(ErrorKind::usage, message,
                       [&, text = test::suite_with(golden)] { (void)parse_suite(text, "t"); });
  }
  test::expect_error(ErrorKind::usage, "multiples of 32", [] {
    (void)golden_parts::made(nvfp4_spec("nvfp4_te", std::string(R"(, "words": "te_tuned")") + kSeed));
  });
}

std::string causes_of(const GoldenTensors& golden, const Tensors& candidate, const std::string& dataset) {
  const GoldenVerdict verdict = golden_parts::judged(golden, candidate);
  std::string all;
  for (const std::string& cause : golden_parts::result_of(verdict, dataset).causes) all += cause + "\n";
  return all;
}

TEST(Nvfp4Golden, a_difference_is_named_by_the_recipe_or_the_slip) {
  const GoldenSuite& suite = builtin_suite("nvfp4");
  const auto of_suite = [&](const std::string& name) {
    for (const GoldenSpec& one : suite.goldens) {
      if (one.name == name) {
        const MadeGolden m = one.kind->make(one, {});
        GoldenTensors g{m.info, {}};
        for (std::size_t i = 0; i < m.data.size(); ++i)
          g.tensors[m.info.datasets[i].name] = {"", m.info.datasets[i].dtype, m.info.datasets[i].shape, m.data[i]};
        return g;
      }
    }
    return GoldenTensors{};
  };
  const GoldenTensors te = of_suite("nvfp4_te_1x16"), older = of_suite("nvfp4_te_2_8_1x16");
  for (const char* dataset : {"codes", "scales"})
    test::expect_contains(causes_of(te, older.tensors, dataset), "recipe nvfp4_te_2_8");
  for (const char* dataset : {"values", "values_bf16"})
    test::expect_contains(causes_of(te, older.tensors, dataset),
                          "values follow from the candidate's own codes and scales");

  const GoldenTensors words = golden_parts::made(words_spec("te_tuned:columns_of_both", kSeed));
  for (const auto& [other, cause] :
       {std::pair{words_spec("te_tuned_2_13:columns_of_both", kSeed),
                  "words te_tuned_2_13:columns_of_both, bytes 0213"},
        {words_spec("te_tuned:columns_of_both", std::string(kSeed) + R"(, "word_bytes": "0123")"), "bytes 0123"},
        {words_spec("te_tuned:columns_of_both", R"(, "seed": 81985529216486895)"), "the first call is ignored"},
        {words_spec("te_tuned:columns_of_both", R"(, "seed": 2309737967, "first_call": 12)"),
         "the high half of the seed is dropped"},
        {test::golden_of(
             "quantize_nvfp4",
             R"("input": {"real": "layer0.x", "rows_of": [0, 64], "cols_of": [0, 96]}, "recipe": "nvfp4_te")"
             R"(, "block": "1x16")"),
         "rounded to nearest"}})
    test::expect_contains(causes_of(words, golden_parts::made(other).tensors, "codes"), cause);

  const GoldenTensors decoded = of_suite("dequantize_nvfp4");
  Tensors t = decoded.tensors;
  const std::vector<float> values = values_in<float>(t["values"].data);
  for (std::size_t i = 0; i < values.size(); ++i) {  // FP32 first, then BF16
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    if (!std::isnan(values[i])) t["values_bf16"].set_code(i, (bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  }
  test::expect_contains(causes_of(decoded, t, "values_bf16"),
                        "values are rounded to FP32 before they are rounded to BF16");
  for (std::size_t i = 0x80 * 16; i < values.size(); ++i)
    t["values"].set_code(i, std::bit_cast<std::uint32_t>(-values[i]));
  test::expect_contains(causes_of(decoded, t, "values"), "scales: the sign is dropped");
}

}  // namespace
}  // namespace mxcheck
