// Verdicts on layers and on SwiGLU: the step that is wrong, what only follows from it, and planted causes by name.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "numerics/bytes.h"
#include "properties/diagnosis/golden_verdict.h"
#include "reference/layer/layer.h"
#include "tests/goldens/make/layer_specs.h"
#include "tests/properties/diagnosis/golden_parts.h"

namespace mxcheck {
namespace {

using namespace golden_parts;
using Words = std::vector<std::uint16_t>;

const GoldenTensors& layer() {
  static const GoldenTensors golden = made(test::layer_of());
  return golden;
}

const GoldenTensors& swiglu_golden() {
  static const GoldenTensors golden = made(test::swiglu_of(R"(, "codes": [
    {"of": "A", "format": "e4m3", "block": "1x32", "recipe": "rceil"},
    {"of": "dH", "format": "e4m3", "block": "1x32", "recipe": "rceil", "along": "tokens"}])"));
  return golden;
}

Tensors outputs_of(const GoldenTensors& golden) {
  Tensors all;
  for (const DatasetInfo& info : golden.info.datasets) {
    if (info.role == Role::output) all[info.name] = golden.tensors.at(info.name);
  }
  return all;
}

float value(std::uint16_t bf16) { return std::bit_cast<float>(std::uint32_t{bf16} << 16); }

Words words_of(const GoldenTensors& golden, const std::string& name) {
  return values_in<std::uint16_t>(golden.tensors.at(name).data);
}

TEST(LayerGoldenVerdict, a_damaged_element_is_a_fault_of_its_step_alone) {
  EXPECT_TRUE(judged(layer(), outputs_of(layer())).equal());
  for (const char* name : {"up_b_scales", "H", "down_a_codes", "P", "dS", "dW2", "dX_rows", "dX"}) {
    Tensors mine = outputs_of(layer());
    Tensor& t = mine.at(name);
    t.data.at(size_of(t.dtype) * 5) ^= std::byte{1};
    const GoldenVerdict v = judged(layer(), mine);
    for (const DatasetResult& r : v.results)
      EXPECT_EQ(r.verdict == DatasetVerdict::different, r.expected.name == name) << name << " " << r.expected.name;
    const DatasetResult& r = result_of(v, name);
    EXPECT_EQ(r.difference->count, 1) << name;
    EXPECT_FALSE(attribute(r.expected.attributes, "step").empty());
    ASSERT_GE(r.element.size(), 3U) << name;
    EXPECT_TRUE(r.element[0].starts_with("own       1 of ")) << r.element[0];
  }
}

// SiLU in BF16 before it multiplies u, and all that comes of it.
TEST(LayerGoldenVerdict, what_follows_from_a_fault_is_no_fault) {
  Tensors mine = outputs_of(layer());
  const Words h = words_of(layer(), "H");
  Words a = words_of(layer(), "A");
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float g = value(h[i / 32 * 64 + i % 32]), u = value(h[i / 32 * 64 + 32 + i % 32]);
    a[i] = layer_bf16(value(layer_bf16(g * swiglu_sigmoid(g))) * u);
  }
  mine.at("A").data = to_bytes(a);
  const BlockShape block{1, 32};
  const Quantized q = quantize({Format::bf16, mine.at("A").data.data(), std::ssize(a) / 32, 32, 32}, Format::e4m3,
                               block, recipe_named("rceil"));
  mine.at("down_a_codes").data = to_bytes(q.codes), mine.at("down_a_scales").data = to_bytes(q.scales);
  ASSERT_NE(mine.at("down_a_codes").data, layer().tensors.at("down_a_codes").data);
  const GoldenVerdict v = judged(layer(), mine);
  EXPECT_EQ(first_cause(result_of(v, "A")), "every element is that of SiLU rounded to BF16 before it multiplies u");
  EXPECT_EQ(first_cause(result_of(v, "down_a_codes")),
            "none of its own: every element is what comes of A of the candidate");
  // Of few tensors: the cause lies in one that the candidate lacks.
  const GoldenVerdict few = judged(layer(), {{"A", mine.at("A")}}, {"A"});
  ASSERT_EQ(few.results.size(), 1U);
  EXPECT_EQ(few.results[0].verdict, DatasetVerdict::different);
}

TEST(LayerGoldenVerdict, a_candidate_may_have_few_tensors_and_those_of_another_form_are_told) {
  const Tensors all = outputs_of(layer());
  const Tensors few{{"O", all.at("O")}, {"dX", all.at("dX")}, {"dW1", all.at("dW1")}};
  EXPECT_TRUE(judged(layer(), few, {"O", "dX", "dW1"}).equal());
  const GoldenVerdict whole = judged(layer(), few);
  EXPECT_FALSE(whole.equal());
  EXPECT_EQ(result_of(whole, "H").verdict, DatasetVerdict::missing);
  EXPECT_EQ(result_of(whole, "dW1").verdict, DatasetVerdict::equal);
  Tensors cut = few;
  cut.at("O").shape = {39, 64}, cut.at("O").data.resize(39 * 64 * 2);
  EXPECT_EQ(result_of(judged(layer(), cut, {"O"}), "O").verdict, DatasetVerdict::wrong_shape);
}

TEST(LayerGoldenVerdict, d_logits_follows_from_a_wrong_ds) {
  Tensors mine = outputs_of(layer());
  for (const char* name : {"dS", "d_logits"}) {  // twice what is right, in every step of it
    auto values = values_in<float>(mine.at(name).data);
    for (float& v : values) v *= 2;
    mine.at(name).data = to_bytes(values);
  }
  const DatasetResult r = result_of(judged(layer(), mine), "d_logits");
  EXPECT_EQ(r.verdict, DatasetVerdict::different);
  EXPECT_NE(first_cause(r).find("comes of dS of the candidate"), std::string::npos) << first_cause(r);
}

void expect_cause(const std::string& name, const Words& words, const std::string& cause) {
  Tensors mine = outputs_of(swiglu_golden());
  mine.at(name).data = to_bytes(words);
  const DatasetResult r = result_of(judged(swiglu_golden(), mine), name);
  EXPECT_EQ(r.verdict, DatasetVerdict::different);
  EXPECT_NE(first_cause(r).find(cause), std::string::npos) << first_cause(r);
}

TEST(SwigluGoldenVerdict, planted_causes_are_named) {
  const GoldenTensors& golden = swiglu_golden();
  const Words h = words_of(golden, "H");
  const auto p = values_in<float>(golden.tensors.at("P").data),
             s = values_in<float>(golden.tensors.at("row_weight").data);
  Words silu, no_sigmoid, unweighted = words_of(golden, "A"), dh(h.size());
  for (std::size_t i = 0; i < p.size(); ++i) {
    const std::size_t gate = i / 40 * 80 + i % 40;
    const float g = value(h[gate]), u = value(h[gate + 40]);
    silu.push_back(layer_bf16(value(layer_bf16(g * swiglu_sigmoid(g))) * u));
    no_sigmoid.push_back(layer_bf16(g * u));
    const SwigluGradient d = swiglu_gradient(g, u, p[i]);  // without the weight
    dh[gate] = layer_bf16(d.dg), dh[gate + 40] = layer_bf16(d.du);
  }
  expect_cause("A", silu, "every element is that of SiLU rounded to BF16 before it multiplies u");
  expect_cause("A", no_sigmoid, "g * u without the sigmoid");
  expect_cause("scaled_A", unweighted, "A without the route's weight");
  expect_cause("dH", dh, "the route's weight left out of dA");
}

TEST(SwigluGoldenVerdict, codes_are_held_against_the_candidates_own_values_and_layout) {
  const GoldenTensors& golden = swiglu_golden();
  Tensors mine = outputs_of(golden);
  Words a = words_of(golden, "A");
  for (std::uint16_t& word : a) word ^= 0x8000;
  mine.at("A").data = to_bytes(a);
  const Quantized q =
      quantize({Format::bf16, mine.at("A").data.data(), 70, 40, 40}, Format::e4m3, {1, 32}, recipe_named("rceil"));
  mine.at("A_e4m3_1x32_rceil_codes").data = to_bytes(q.codes);
  EXPECT_EQ(first_cause(result_of(judged(golden, mine), "A_e4m3_1x32_rceil_codes")),
            "they are right for the candidate's own A: only that is wrong");
  // dH's codes along tokens, in the order of rows.
  mine = outputs_of(golden);
  const Tensor dh = golden.tensors.at("dH");
  const std::vector<std::int64_t> offsets{0, 33, 33, 70};
  const Quantized columns =
      quantize({Format::bf16, dh.data.data(), 70, 80, 80}, Format::e4m3, {32, 1}, recipe_named("rceil"), offsets);
  mine.at("dH_T_e4m3_1x32_rceil_codes").data = to_bytes(columns.codes);
  EXPECT_NE(first_cause(result_of(judged(golden, mine), "dH_T_e4m3_1x32_rceil_codes")).find("not transposed"),
            std::string::npos);
  // Scales by another recipe, transposed.
  mine = outputs_of(golden);
  const Quantized floor =
      quantize({Format::bf16, dh.data.data(), 70, 80, 80}, Format::e4m3, {32, 1}, recipe_named("floor"), offsets);
  Bytes turned(floor.scales.size());
  for (std::size_t i = 0; i < turned.size(); ++i) turned[i % 80 * 4 + i / 80] = floor.scales[i];
  put(mine.at("dH_T_e4m3_1x32_rceil_scales"), turned);
  EXPECT_NE(first_cause(result_of(judged(golden, mine), "dH_T_e4m3_1x32_rceil_scales")).find("recipe floor"),
            std::string::npos);
}

}  // namespace
}  // namespace mxcheck
