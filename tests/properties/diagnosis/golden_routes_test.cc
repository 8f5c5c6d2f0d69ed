// Verdicts on routes: integers are integers, and common mistakes have names.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "properties/diagnosis/golden_verdict.h"
#include "reference/common/matrix.h"
#include "tests/properties/diagnosis/golden_parts.h"

namespace mxcheck {
namespace {

using namespace golden_parts;

GoldenTensors make(const std::string& kind, const std::string& more) {
  return made(R"({"name": "g", "kind": ")" + kind + "\", " + more + "}");
}

DatasetResult judged(const GoldenTensors& golden, const std::string& name, const Tensor& tensor) {
  return golden_parts::judged(golden, {{name, tensor}}, {name}).results.at(0);
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
  EXPECT_EQ(judged(golden, "row_token", rows).verdict, DatasetVerdict::equal);
  ASSERT_EQ(get<std::int32_t>(rows, 2), -1);
  set<std::int32_t>(rows, 2, -2);
  const DatasetResult r = judged(golden, "row_token", rows);
  EXPECT_EQ(r.verdict, DatasetVerdict::different);
  EXPECT_EQ(r.difference->count, 1);
  EXPECT_EQ(r.element, (std::vector<std::string>{"expected  -1", "observed  -2"}));
  Tensor offsets = golden.tensors.at("offsets");
  set<std::int64_t>(offsets, 1, (std::int64_t{1} << 32) + 4);
  EXPECT_EQ(judged(golden, "offsets", offsets).element.at(1), "observed  4294967300");
}

TEST(RouteVerdict, rows_behind_the_last_and_wide_indices_are_a_matter_of_form) {
  const GoldenTensors golden = make("route_metadata", R"("experts": 2, "tile": 4, "width": 1, "slots": [0, 1, 1])");
  Tensor rows = golden.tensors.at("row_token");
  rows.data.resize(rows.data.size() + 4, std::byte{0xFF});
  ++rows.shape[0];
  const DatasetResult r = judged(golden, "row_token", rows);
  EXPECT_EQ(r.verdict, DatasetVerdict::wrong_shape);
  EXPECT_NE(r.notes.at(0).find("behind the last row"), std::string::npos) << r.notes.at(0);
  Tensor wide{"", Dtype::i64, {8}, std::vector<std::byte>(64)};
  EXPECT_NE(judged(golden, "row_token", wide).notes.at(0).find("I32 is needed"), std::string::npos);
}

TEST(RouteVerdict, mistakes_have_names) {
  const GoldenTensors golden = make("route", kTies + std::string(R"(, "scale": "40200000")"));
  const auto cause_of = [&](const std::string& dataset, const Tensor& t) {
    return first_cause(judged(golden, dataset, t));
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
  EXPECT_EQ(cause_of("experts_topk_softmax", larger), "every element is that of ties to the larger index");
  EXPECT_NE(cause_of("experts_topk_softmax", sorted).find("experts in the order of their index"), std::string::npos);
  EXPECT_NE(
      cause_of("weights_sigmoid", golden.tensors.at("weights_sigmoid_raw")).find("the golden's weights_sigmoid_raw"),
      std::string::npos);
  const GoldenTensors plain = make("route", kTies);
  EXPECT_NE(cause_of("weights_topk_softmax", plain.tensors.at("weights_topk_softmax")).find("no scale"),
            std::string::npos);
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
    EXPECT_NE(first_cause(judged(golden, name, plain.tensors.at(name))).find(cause), std::string::npos) << cause;
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
  EXPECT_NE(first_cause(judged(planted("7fc0"), name, planted("7f80").tensors.at(name))).find("NaN taken for +Inf"),
            std::string::npos);
}

TEST(RouteVerdict, roundings_are_told_apart) {
  const std::string spec = R"("input": {"loads": [4, 12, 3, 5], "dtype": "fp32"}, "variant": "softmax-topk", "top_k": 1,
                             "tile": 8, "rules": ["nr-f", "nr-even", "up"])";
  const GoldenTensors golden = make("route_round", spec), raw = make("route_round", spec + R"(, "weights": "raw")");
  EXPECT_NE(first_cause(judged(golden, "offsets_nr_f", golden.tensors.at("offsets_nr_even")))
                .find("golden's offsets_nr_even"),
            std::string::npos);
  EXPECT_NE(first_cause(judged(golden, "row_weight_up", raw.tensors.at("row_weight_up"))).find("raw scores"),
            std::string::npos);
  EXPECT_NE(first_cause(judged(raw, "row_weight_up", golden.tensors.at("row_weight_up"))).find("scores divided by"),
            std::string::npos);
}

}  // namespace
}  // namespace mxcheck
