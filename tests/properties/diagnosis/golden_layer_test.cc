// Verdicts on layers and on SwiGLU: the step that is wrong, what only follows from it, and planted causes by name.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "numerics/bytes.h"
#include "properties/diagnosis/golden_verdict.h"
#include "reference/common/matrix.h"
#include "reference/layer/layer.h"
#include "tests/properties/diagnosis/golden_parts.h"
#include "tests/properties/goldens/specs.h"

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
    t.data.at(size_of(t.format) * 5) ^= std::byte{1};
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
  const QuantizedTensor q = quantize({Format::bf16, mine.at("A").data.data(), std::ssize(a) / 32, 32, 32}, Format::e4m3,
                                     block, recipe_named("rceil"));
  mine.at("down_a_codes").data = q.codes.data, mine.at("down_a_scales").data = q.scales().data;
  ASSERT_NE(mine.at("down_a_codes").data, layer().tensors.at("down_a_codes").data);
  const GoldenVerdict v = judged(layer(), mine);
  EXPECT_EQ(first_cause(result_of(v, "A")), "every element is that of SiLU rounded to BF16 before it multiplies u");
  EXPECT_EQ(first_cause(result_of(v, "down_a_codes")),
            "none of its own: every element follows from A of the candidate");
  // A candidate with few tensors: the cause lies in one that it lacks.
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
  EXPECT_NE(first_cause(r).find("follows from dS of the candidate"), std::string::npos) << first_cause(r);
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
  const QuantizedTensor q =
      quantize({Format::bf16, mine.at("A").data.data(), 70, 40, 40}, Format::e4m3, {1, 32}, recipe_named("rceil"));
  mine.at("A_e4m3_1x32_rceil_codes").data = q.codes.data;
  EXPECT_EQ(first_cause(result_of(judged(golden, mine), "A_e4m3_1x32_rceil_codes")),
            "they are right for the candidate's own A: only that is wrong");
  // dH's codes along tokens, in the order of rows.
  mine = outputs_of(golden);
  const Tensor dh = golden.tensors.at("dH");
  const std::vector<std::int64_t> offsets{0, 33, 33, 70};
  const QuantizedTensor columns =
      quantize({Format::bf16, dh.data.data(), 70, 80, 80}, Format::e4m3, {32, 1}, recipe_named("rceil"), offsets);
  mine.at("dH_T_e4m3_1x32_rceil_codes").data = columns.codes.data;
  EXPECT_NE(first_cause(result_of(judged(golden, mine), "dH_T_e4m3_1x32_rceil_codes")).find("not transposed"),
            std::string::npos);
  // Scales by another recipe, transposed.
  mine = outputs_of(golden);
  const QuantizedTensor floor =
      quantize({Format::bf16, dh.data.data(), 70, 80, 80}, Format::e4m3, {32, 1}, recipe_named("floor"), offsets);
  const ByteList turned = values_in<std::uint8_t>(transposed(floor.scales()).data);
  put(mine.at("dH_T_e4m3_1x32_rceil_scales"), turned);
  EXPECT_NE(first_cause(result_of(judged(golden, mine), "dH_T_e4m3_1x32_rceil_scales")).find("recipe floor"),
            std::string::npos);
}

}  // namespace

// Verdicts on routes: integers are integers, and common mistakes have names.

namespace {

using namespace golden_parts;

GoldenTensors make(const std::string& kind, const std::string& more) {
  return made(R"({"name": "g", "kind": ")" + kind + "\", " + more + "}");
}

DatasetResult judged_alone(const GoldenTensors& golden, const std::string& name, const Tensor& tensor) {
  return judged(golden, {{name, tensor}}, {name}).results.at(0);
}

constexpr const char* kTies = R"("input": {"ties": "bf16", "rows": 40, "cols": 12}, "top_k": 3)";

template <class T>
void set(Tensor& t, std::size_t i, T value) {
  std::memcpy(t.data.data() + i * sizeof(T), &value, sizeof(T));
}
template <class T>
T get(const Tensor& t, std::size_t i) {
  T value{};
  std::memcpy(&value, t.data.data() + i * sizeof(T), sizeof(T));
  return value;
}

TEST(RouteVerdict, minus_one_is_a_number_and_not_a_nan) {
  const GoldenTensors golden = make("route_metadata", R"("experts": 2, "tile": 4, "width": 1, "slots": [0, 1, 1])");
  Tensor rows = golden.tensors.at("row_token");
  EXPECT_EQ(judged_alone(golden, "row_token", rows).verdict, DatasetVerdict::equal);
  ASSERT_EQ(get<std::int32_t>(rows, 2), -1);
  set<std::int32_t>(rows, 2, -2);
  const DatasetResult r = judged_alone(golden, "row_token", rows);
  EXPECT_EQ(r.verdict, DatasetVerdict::different);
  EXPECT_EQ(r.difference->count, 1);
  EXPECT_EQ(r.element, (std::vector<std::string>{"expected  -1", "observed  -2"}));
  Tensor offsets = golden.tensors.at("offsets");
  set<std::int64_t>(offsets, 1, (std::int64_t{1} << 32) + 4);
  EXPECT_EQ(judged_alone(golden, "offsets", offsets).element.at(1), "observed  4294967300");
}

TEST(RouteVerdict, rows_behind_the_last_and_wide_indices_are_a_matter_of_form) {
  const GoldenTensors golden = make("route_metadata", R"("experts": 2, "tile": 4, "width": 1, "slots": [0, 1, 1])");
  Tensor rows = golden.tensors.at("row_token");
  rows.data.resize(rows.data.size() + 4, std::byte{0xFF});
  ++rows.shape[0];
  const DatasetResult r = judged_alone(golden, "row_token", rows);
  EXPECT_EQ(r.verdict, DatasetVerdict::wrong_shape);
  EXPECT_NE(r.notes.at(0).find("behind the last row"), std::string::npos) << r.notes.at(0);
  Tensor wide{"", Format::int64, {8}, std::vector<std::byte>(64)};
  EXPECT_NE(judged_alone(golden, "row_token", wide).notes.at(0).find("I32 is needed"), std::string::npos);
}

TEST(RouteVerdict, mistakes_have_names) {
  const GoldenTensors golden = make("route", kTies + std::string(R"(, "scale": "40200000")"));
  const auto cause_of = [&](const std::string& dataset, const Tensor& t) {
    return first_cause(judged_alone(golden, dataset, t));
  };
  // Ties to the larger index: the same values by other experts.
  const MatrixView view{Format::bf16, golden.tensors.at("logits").data.data(), 40, 12, 12};
  Tensor larger = golden.tensors.at("experts_topk_softmax"), sorted = larger;
  for (std::int64_t t = 0; t < 40; ++t) {
    std::vector<std::int32_t> order{11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return view.at(t, a) > view.at(t, b); });
    std::vector<std::int32_t> three(3);
    for (std::size_t k = 0; k < 3; ++k) {
      const auto at = static_cast<std::size_t>(t) * 3 + k;
      three[k] = get<std::int32_t>(sorted, at);
      set(larger, at, order[k]);
    }
    std::sort(three.begin(), three.end());
    for (std::size_t k = 0; k < 3; ++k) set(sorted, static_cast<std::size_t>(t) * 3 + k, three[k]);
  }
  EXPECT_EQ(cause_of("experts_topk_softmax", larger), "every element is that of ties that go to the larger index");
  EXPECT_NE(cause_of("experts_topk_softmax", sorted).find("experts in the order of their index"), std::string::npos);
  EXPECT_NE(
      cause_of("weights_sigmoid", golden.tensors.at("weights_sigmoid_raw")).find("the golden's weights_sigmoid_raw"),
      std::string::npos);
  const GoldenTensors plain = make("route", kTies);
  EXPECT_NE(cause_of("weights_topk_softmax", plain.tensors.at("weights_topk_softmax")).find("no scale"),
            std::string::npos);
}

TEST(RouteVerdict, slips_of_losses_have_names) {
  const std::string more = R"(, "variant": "softmax-topk", "coefficient": )";
  const GoldenTensors golden = make("route_losses", kTies + more + R"("3c23d70a")");
  const GoldenTensors other = make("route_losses", kTies + more + R"("3f800000")");
  for (const char* name : {"balance_loss", "balance_gradient", "z_loss", "z_gradient"}) {
    EXPECT_EQ(judged_alone(golden, name, golden.tensors.at(name)).verdict, DatasetVerdict::equal) << name;
    EXPECT_NE(first_cause(judged_alone(golden, name, other.tensors.at(name))).find("no coefficient"), std::string::npos)
        << name;
  }
  Tensor halved = golden.tensors.at("z_gradient");
  for (std::size_t i = 0; i < halved.data.size() / 4; ++i) set(halved, i, get<float>(halved, i) / 2);
  EXPECT_EQ(first_cause(judged_alone(golden, "z_gradient", halved)),
            "every element is that of a gradient without the square's 2");
}

TEST(RouteVerdict, a_bias_groups_and_nan_have_names) {
  const std::string bias =
      R"(, "bias": ["3f000000", "0", "bf000000", "0", "3f800000", "0", "0", "40000000", "0", "0", "0", "0"])";
  const GoldenTensors plain = make("route", kTies);
  const std::pair<std::string, std::string> table[] = {{bias, "no bias"},
                                                       {R"(, "groups": 4, "groups_kept": 2)", "no groups"}};
  for (const auto& [more, cause] : table) {
    const GoldenTensors golden = make("route", kTies + more);
    const std::string name = "experts_softmax_topk";
    EXPECT_NE(first_cause(judged_alone(golden, name, plain.tensors.at(name))).find(cause), std::string::npos) << cause;
  }
  const std::string nan =
      R"("input": {"ties": "bf16", "rows": 40, "cols": 12, "plant": [[0, 0, "PLANT"], [5, 3, "PLANT"]]},
                           "top_k": 3, "nan": "last", "variants": ["topk-softmax"])";
  const auto planted = [&](const std::string& bits) {
    std::string text = nan;
    for (std::size_t at; (at = text.find("PLANT")) != std::string::npos;) text.replace(at, 5, bits);
    return make("route", text);
  };
  const std::string name = "experts_topk_softmax";
  EXPECT_NE(
      first_cause(judged_alone(planted("7fc0"), name, planted("7f80").tensors.at(name))).find("NaN taken for +Inf"),
      std::string::npos);
}

TEST(RouteVerdict, roundings_are_told_apart) {
  const std::string spec = R"("input": {"loads": [4, 12, 3, 5], "dtype": "fp32"}, "variant": "softmax-topk", "top_k": 1,
                             "tile": 8, "rules": ["nr-f", "nr-even", "up"])";
  const GoldenTensors golden = make("route_round", spec), raw = make("route_round", spec + R"(, "weights": "raw")");
  EXPECT_NE(first_cause(judged_alone(golden, "offsets_nr_f", golden.tensors.at("offsets_nr_even")))
                .find("golden's offsets_nr_even"),
            std::string::npos);
  EXPECT_NE(first_cause(judged_alone(golden, "row_weight_up", raw.tensors.at("row_weight_up"))).find("raw scores"),
            std::string::npos);
  EXPECT_NE(
      first_cause(judged_alone(raw, "row_weight_up", golden.tensors.at("row_weight_up"))).find("scores divided by"),
      std::string::npos);
}

TEST(RouteVerdict, roundings_have_the_names_of_the_gate) {
  const std::string input = R"("input": {"ties": "fp32", "rows": 40, "cols": 4}, "variant": "softmax-topk", "top_k": 2,
                              "tile": 8)";
  const std::string bias = R"(, "bias": ["3f000000", "0", "bf000000", "40000000"])";
  const GoldenTensors golden = make("route_round", input + bias + R"(, "rules": ["up"])");
  const GoldenTensors plain = make("route_round", input + R"(, "rules": ["up"])");
  const GoldenTensors down = make("route_round", input + bias + R"(, "rules": ["down"])");
  EXPECT_NE(first_cause(judged_alone(golden, "chosen", plain.tensors.at("chosen"))).find("no bias"), std::string::npos);
  EXPECT_NE(first_cause(judged_alone(golden, "offsets_up", down.tensors.at("offsets_down"))).find("rule down"),
            std::string::npos);
  // Lists by row end with the last row.
  Tensor tokens = golden.tensors.at("row_token_up");
  const Tensor& offsets = golden.tensors.at("offsets_up");
  for (std::size_t e = 0; e < 4; ++e) {
    const auto begin = static_cast<std::size_t>(get<std::int64_t>(offsets, e));
    const auto end = static_cast<std::size_t>(get<std::int64_t>(offsets, e + 1));
    for (std::size_t i = begin; i < end; ++i)
      set(tokens, i, get<std::int32_t>(golden.tensors.at("row_token_up"), begin + end - 1 - i));
  }
  EXPECT_EQ(first_cause(judged_alone(golden, "row_token_up", tokens)),
            "every element is that of tokens of an expert in descending order");
}

}  // namespace
}  // namespace mxcheck
