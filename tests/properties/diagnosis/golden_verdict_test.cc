#include "properties/diagnosis/golden_verdict.h"

#include <gtest/gtest.h>

#include "properties/core/rng.h"
#include "reference/quantize/quantize.h"
#include "tests/properties/diagnosis/golden_parts.h"

namespace mxcheck {
namespace {

using namespace golden_parts;

TEST(GoldenVerdict, the_right_answer_is_equal_and_has_no_cause) {
  for (const GoldenTensors* golden : {&gradients(), &activations()}) {
    const GoldenVerdict v = judged(*golden, golden->tensors);
    EXPECT_TRUE(v.equal());
    for (const DatasetResult& r : v.results) EXPECT_TRUE(r.notes.empty() && r.causes.empty() && !r.difference);
    EXPECT_TRUE(judged(*golden, quantized_by(*golden, {rceil, nearest}), {"codes", "scales"}).equal());
  }
}

TEST(GoldenVerdict, one_cause_is_not_reported_as_two) {
  const GoldenVerdict v = judged(activations(), quantized_by(activations(), {floored, nearest}));
  EXPECT_EQ(first_cause(result_of(v, "codes")),
            "the codes are right for the candidate's own scales: only those are wrong");
  EXPECT_EQ(first_cause(result_of(v, "scales")).find("every scale is that of recipe floor (the same here: recipe ocp"),
            0U)
      << first_cause(result_of(v, "scales"));
}

TEST(GoldenVerdict, two_causes_are_reported_as_two) {
  const GoldenVerdict v = judged(activations(), quantized_by(activations(), {floored, ties_away}));
  EXPECT_EQ(first_cause(result_of(v, "codes")).find("every code is that of ties away from zero"), 0U);
  EXPECT_EQ(first_cause(result_of(v, "scales")).find("every scale is that of recipe floor"), 0U);
}

TEST(GoldenVerdict, noise_has_no_cause) {
  Tensors t = gradients().tensors;
  for (const char* name : {"codes", "scales", "scales_tcgen05", "scales_deepgemm"}) {
    for (std::size_t i = 0; i < t[name].data.size(); ++i)
      t[name].data[i] = static_cast<std::byte>(random_word(9, i) & 0xFF);
  }
  for (const DatasetResult& r : judged(gradients(), t).results) {
    EXPECT_EQ(r.verdict, DatasetVerdict::different);
    EXPECT_EQ(first_cause(r), "(none)") << r.expected.name;
  }
  t = gradients().tensors;
  t["codes"].data[77] ^= std::byte{1};
  const GoldenVerdict one = judged(gradients(), t);
  EXPECT_EQ(result_of(one, "codes").difference->count, 1);
}

TEST(GoldenVerdict, what_only_some_blocks_have_in_common_is_said) {
  Tensors t = gradients().tensors;
  Bytes scales = bytes_of(t["scales"]);
  for (std::uint8_t& b : scales) b = b == 255 ? 77 : b;  // no known rule
  put(t["scales"], scales);
  const DatasetResult r = result_of(judged(gradients(), t), "scales");
  ASSERT_FALSE(r.causes.empty());
  EXPECT_NE(r.causes.front().find("NaN"), std::string::npos) << r.causes.front();
}

TEST(GoldenVerdict, column_blocks_experts_and_float_scales_are_understood) {
  const std::string input = R"({"real": "layer3.x", "rows_of": [0, 100], "cols_of": [0, 200]})";
  const GoldenTensors experts =
      made(quantize_of(input, "32x1", "rceil", R"(, "offsets": [0, 33, 33, 100], "layouts": ["tcgen05"])"));
  EXPECT_TRUE(judged(experts, experts.tensors).equal());
  const Bytes x = bytes_of(experts.tensors.at("x"));
  const MatrixView view{Format::bf16, reinterpret_cast<const std::byte*>(x.data()), 100, 200, 200};
  Tensors t = experts.tensors;
  Quantized q = quantize(view, Format::e4m3, {1, 32}, recipe_named("rceil"));
  put(t["codes"], q.codes);
  EXPECT_NE(first_cause(result_of(judged(experts, t), "codes")).find("blocks of 1x32 in place of 32x1"),
            std::string::npos);
  const GoldenTensors fp32 = made(quantize_of(input, "1x128", "fp32"));
  t = fp32.tensors;
  q = quantize(view, Format::e4m3, {1, 128}, recipe_named("fp32"));
  Recipe reciprocal = recipe_named("fp32");
  reciprocal.scaling = ElementScaling::times_reciprocal;
  put(t["codes"], quantize(view, Format::e4m3, {1, 128}, reciprocal).codes);
  EXPECT_NE(first_cause(result_of(judged(fp32, t), "codes")).find("x times the reciprocal of the scale"),
            std::string::npos)
      << first_cause(result_of(judged(fp32, t), "codes"));
  const GoldenTensors nothing = made(quantize_of(R"({"real": "layer0.x", "rows_of": [0, 0]})"));
  EXPECT_TRUE(judged(nothing, nothing.tensors).equal());
}

}  // namespace
}  // namespace mxcheck
