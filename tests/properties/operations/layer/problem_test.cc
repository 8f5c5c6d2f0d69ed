// Calls of the steps of a layer: sizes, the way from a call back to its problem, the reference's answer.

#include "properties/operations/layer/problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "numerics/bytes.h"
#include "properties/core/check.h"
#include "properties/records/replay.h"
#include "reference/layer/swiglu.h"
#include "reference/quantize/quantize.h"
#include "tests/properties/operations/layer/some_steps.h"

namespace mxcheck {
namespace {

using Words = std::vector<std::uint16_t>;
using Codes = std::vector<std::uint8_t>;

// Every element by the formula, where this test and not the problem says what stands where.
TEST(StepProblems, swiglu_is_that_of_each_pair_in_its_order_and_codes_are_of_its_blocks) {
  for (const char* order : {"halves", "interleaved"}) {
    const Case c =
        parse_case(std::string("op=swiglu x=bf16 gate_up=") + order +
                   " outputs=values+rows+columns format=e4m3 recipe=rceil block=32 rows=40 cols=35 stride=38 "
                   "experts=0,3,3,40 data=normal seed=5");
    const SwigluProblem p(c);
    const std::vector<ExpectedTensor> answer = p.answer();
    ASSERT_EQ(answer.size(), 5U);
    const auto a = values_in<std::uint16_t>(answer[0].bytes);
    const auto value = [](std::uint16_t w) { return std::bit_cast<float>(std::uint32_t{w} << 16); };
    for (std::size_t i = 0; i < 40; ++i) {
      for (std::size_t j = 0; j < 35; ++j) {
        const bool halves = std::string(order) == "halves";
        const float g = value(p.h[i * 73 + (halves ? j : 2 * j)]);
        const float u = value(p.h[i * 73 + (halves ? 35 + j : 2 * j + 1)]);
        ASSERT_EQ(a[i * 35 + j], layer_bf16(swiglu(g, u)));
      }
    }
    const MatrixView view{Format::bf16, answer[0].bytes.data(), 40, 35, 35};
    const QuantizedTensor rows = quantize(view, Format::e4m3, {1, 32}, recipe_named("rceil"));
    EXPECT_EQ(answer[1].bytes, rows.codes.data);
    EXPECT_EQ(answer[2].bytes, rows.scales().data);
    const std::vector<std::int64_t> experts{0, 3, 3, 40};
    const QuantizedTensor columns = quantize(view, Format::e4m3, {32, 1}, recipe_named("rceil"), experts);
    const auto codes = values_in<std::uint8_t>(answer[3].bytes);
    const auto scales = values_in<std::uint8_t>(answer[4].bytes);
    ASSERT_EQ(scales.size(), 35U * 3);  // 3 rows, then 32 and 5
    for (std::size_t j = 0; j < 35; ++j) {
      for (std::size_t i = 0; i < 40; ++i) ASSERT_EQ(codes[j * 40 + i], columns.codes.code(i * 35 + j));
      for (std::size_t b = 0; b < 3; ++b) ASSERT_EQ(scales[j * 3 + b], columns.scales().code(b * 35 + j));
    }
  }
}

TEST(StepProblems, swiglu_backward_writes_in_the_header_s_order) {
  const Case c = parse_case(
      "op=swiglu_backward x=bf16 gate_up=halves outputs=values+rows+columns format=e5m2 recipe=fp32 block=32 "
      "scaled=e4m3 rows=40 cols=35 experts=0,3,40 data=normal seed=5");
  const SwigluProblem p(c);
  std::vector<std::string> names;
  for (const TensorInfo& info : p.outputs) names.push_back(info.name);
  EXPECT_EQ(names, (std::vector<std::string>{"ds", "scaled_a", "dh", "codes of dh", "scales of dh",
                                             "codes of transposed scaled_a", "scales of transposed scaled_a",
                                             "codes of transposed dh", "scales of transposed dh"}));
  EXPECT_EQ(p.order(), (std::vector<std::size_t>{0, 1, 2, 4, 3, 6, 5, 8, 7}));
  const std::vector<ExpectedTensor> answer = p.answer();
  EXPECT_EQ(answer[5].info.format, Format::e4m3);
  EXPECT_EQ(answer[3].info.format, Format::e5m2);
  EXPECT_EQ(answer[4].info.format, Format::fp32);
  EXPECT_EQ(answer[4].info.cols, 3);  // 70 columns in blocks of 32
  EXPECT_EQ(answer[6].info.cols, 3);  // 3 rows, then 32 and 5
  EXPECT_EQ(answer[8].info.rows, 70);
  const MatrixView dh{Format::bf16, answer[2].bytes.data(), 40, 70, 70};
  const QuantizedTensor rows = quantize(dh, Format::e5m2, {1, 32}, recipe_named("fp32"));
  EXPECT_EQ(answer[3].bytes, rows.codes.data);
  EXPECT_EQ(answer[4].bytes, rows.scales().data);
}

TEST(StepProblems, coded_h_is_code_times_scale) {
  const Case c = parse_case("op=swiglu x=e5m2 gate_up=halves outputs=values rows=3 cols=40 data=bits seed=5");
  const SwigluProblem p(c);
  ASSERT_EQ(p.h_scales.size(), 9U);
  const std::vector<float> h = p.values_of_h();
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 80; ++j) {
      const std::uint8_t scale = p.h_scales[i * 3 + j / 32];
      const double code = decode(Format::e5m2, p.h_codes[i * 80 + j]);
      const auto want = static_cast<float>(std::ldexp(code, scale - 127));
      if (std::isnan(want) || scale == 255) {
        EXPECT_TRUE(std::isnan(h[i * 80 + j]));
      } else {
        EXPECT_EQ(h[i * 80 + j], want);
      }
    }
  }
}

TEST(StepProblems, rows_by_index_are_those_that_are_quantized) {
  const Case c = parse_case(
      "op=quantize_transposed format=e4m3 recipe=rceil block=32x1 layout=compact x=bf16 rows=50 cols=9 experts=0,20,50 "
      "gather=7 data=slots seed=5");
  const TransposedProblem p(c);
  const Input all = p.gathered();
  ASSERT_EQ(p.index.size(), 50U);
  for (std::int64_t i = 0; i < 50; ++i) {
    for (std::int64_t j = 0; j < 9; ++j) EXPECT_EQ(all.bits(i, j), p.x.bits(p.index[static_cast<std::size_t>(i)], j));
  }
  const QuantizedTensor q = quantize(all.view(), Format::e4m3, {32, 1}, recipe_named("rceil"), c.experts);
  const auto codes = values_in<std::uint8_t>(p.answer()[0].bytes);
  for (std::size_t j = 0; j < 9; ++j) {
    for (std::size_t i = 0; i < 50; ++i) ASSERT_EQ(codes[j * 50 + i], q.codes.code(i * 9 + j));
  }
}

TEST(StepProblems, the_policy_says_what_the_case_says) {
  const Case c = parse_case(
      "op=swiglu_backward x=bf16 gate_up=interleaved outputs=rows+columns format=e5m2 recipe=floor block=128 "
      "scaled=e4m3 rows=9 cols=8 data=normal seed=7 threads=2");
  const Policy packed = operation_named(c.variant.operation).policy(c);
  const auto p = read<mxcheck_swiglu_policy>(packed);
  EXPECT_EQ(p.policy.size, sizeof(mxcheck_swiglu_policy));
  EXPECT_STREQ(p.policy.format, "e5m2");
  EXPECT_STREQ(p.policy.recipe, "floor");
  EXPECT_STREQ(p.format_h, "");
  EXPECT_STREQ(p.format_scaled, "e4m3");
  EXPECT_EQ(p.policy.block_rows, 1);
  EXPECT_EQ(p.policy.block_cols, 128);
  EXPECT_EQ(p.policy.rows, 9);
  EXPECT_EQ(p.policy.cols, 8);
  EXPECT_EQ(p.policy.threads, 2);
  EXPECT_EQ(p.gate_up, MXCHECK_INTERLEAVED);
  EXPECT_EQ(p.outputs, MXCHECK_ROWS_CODED | MXCHECK_COLUMNS_CODED);
  const Policy plain =
      operation_named("swiglu").question(parse_variant("op=swiglu x=e4m3 gate_up=halves outputs=values"));
  const auto q = read<mxcheck_swiglu_policy>(plain);
  EXPECT_STREQ(q.format_h, "e4m3");
  EXPECT_EQ(std::string(q.policy.format) + q.policy.recipe + q.format_scaled, "");
  EXPECT_EQ(q.policy.block_rows + q.policy.block_cols + q.policy.rows + q.policy.cols, 0);
  const Policy weighted = operation_named("aggregate").question(parse_variant("op=aggregate weighted=1"));
  EXPECT_EQ(read<mxcheck_aggregate_policy>(weighted).weighted, 1);
}

TEST(StepProblems, a_difference_is_explained_and_the_inputs_are_saved) {
  for (const Case& c : test::some_steps()) {
    if (c.elements() == 0) continue;
    const auto p = make_problem(c);
    const std::vector<ExpectedTensor> answer = p->answer();
    std::vector<std::vector<std::byte>> observed;
    for (const ExpectedTensor& t : answer) observed.push_back(t.bytes);
    for (std::size_t i = 0; i < answer.size(); ++i) {
      auto wrong = observed;
      wrong[i].back() ^= std::byte{0x11};
      const auto finding = first_difference(*p, answer, wrong, " from it");
      if (!finding) continue;  // a NaN, and another NaN
      EXPECT_GE(finding->element.size(), 3U) << to_text(c);
      EXPECT_FALSE(finding->relevant.empty()) << to_text(c);
      for (const Case& simpler : operation_named(c.variant.operation).simpler(c, *finding))
        EXPECT_EQ(parse_case(to_text(simpler)), simpler) << to_text(simpler);
    }
    EXPECT_EQ(p->saved().empty(), is_aggregate(c.variant) && layer_case(c).y_rows == 0 && p->saved().empty());
  }
}

// The lines of a finding about these outputs.
std::vector<std::string> matches_of(const Problem& p, const std::vector<Bytes>& observed) {
  Finding finding;
  tell_matches(p, p.answer(), observed, finding);
  return finding.matches;
}

float value_of(std::uint16_t word) { return std::bit_cast<float>(std::uint32_t{word} << 16); }
std::uint16_t cut(float x) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16); }

TEST(StepProblems, a_slip_in_swiglu_is_named_by_values_and_by_their_codes) {
  const std::vector<std::int64_t> experts{0, 3, 40};
  for (const bool halves : {true, false}) {
    const SwigluProblem p(parse_case(std::string("op=swiglu x=bf16 gate_up=") + (halves ? "halves" : "interleaved") +
                                     " outputs=values+rows+columns format=e4m3 recipe=rceil block=32 rows=40 cols=64 "
                                     "stride=70 experts=0,3,40 data=normal seed=5"));
    const auto with = [&](std::uint16_t (*of)(float g, float u)) {
      Words a;
      for (std::size_t i = 0; i < 40; ++i) {
        for (std::size_t j = 0; j < 64; ++j)
          a.push_back(of(value_of(p.h[i * 134 + (halves ? j : 2 * j)]),
                         value_of(p.h[i * 134 + (halves ? 64 + j : 2 * j + 1)])));
      }
      const Tensor t = tensor_of(Format::bf16, {40, 64}, a);
      const MatrixView view{Format::bf16, t.data.data(), 40, 64, 64};
      const QuantizedTensor rows = quantize(view, Format::e4m3, {1, 32}, recipe_named("rceil"));
      const QuantizedTensor columns = quantize(view, Format::e4m3, {32, 1}, recipe_named("rceil"), experts);
      return matches_of(p, {t.data, rows.codes.data, rows.scales().data, transposed(columns.codes).data,
                            transposed(columns.scales()).data});
    };
    using Names = std::vector<std::string>;
    EXPECT_EQ(with([](float g, float u) { return cut(swiglu(g, u)); }),
              Names{"truncation to BF16 in place of nearest, ties to even"});
    EXPECT_EQ(with([](float g, float u) { return layer_bf16(swiglu(u, g)); }), Names{"gate and up exchanged"});
    EXPECT_EQ(with([](float g, float u) { return layer_bf16(g * u); }), Names{"g * u without the sigmoid"});
    EXPECT_TRUE(with([](float g, float u) { return layer_bf16(swiglu(g, u)); }).empty());
    EXPECT_TRUE(with([](float g, float) { return layer_bf16(g + 1); }).empty());
  }
}

TEST(StepProblems, a_slip_in_the_gradient_is_named_beside_outputs_that_are_right) {
  const SwigluProblem p(
      parse_case("op=swiglu_backward x=e4m3 gate_up=halves outputs=values rows=33 cols=32 data=normal seed=5"));
  const std::vector<ExpectedTensor> right = p.answer();
  ASSERT_EQ(right.size(), 3U);  // dS, A', dH
  const std::vector<float> h = p.values_of_h();
  std::vector<Bytes> observed;
  for (const ExpectedTensor& t : right) observed.push_back(t.bytes);
  Words dh(h.size()), scaled;
  for (std::size_t i = 0; i < p.p.size(); ++i) {
    const std::size_t gate = i / 32 * 64 + i % 32;
    const SwigluGradient d = swiglu_gradient(h[gate], h[gate + 32], p.p[i]);
    dh[gate] = layer_bf16(d.dg), dh[gate + 32] = layer_bf16(d.du);
    const float a = value_of(layer_bf16(swiglu(h[gate], h[gate + 32])));
    scaled.push_back(layer_bf16(p.weights[i / 32] * (p.weights[i / 32] * a)));
  }
  observed[2] = to_bytes(dh);
  EXPECT_EQ(matches_of(p, observed), std::vector<std::string>{"the route's weight left out of dA"});
  observed[1] = to_bytes(scaled);
  EXPECT_EQ(
      matches_of(p, observed),
      std::vector<std::string>{"scaled_a: the route's weight applied twice; dh: the route's weight left out of dA"});
}

TEST(StepProblems, a_slip_in_the_sum_of_slots_is_named) {
  for (const bool weighted : {true, false}) {
    const AggregateProblem p(parse_case(std::string("op=aggregate weighted=") + (weighted ? "1" : "0") +
                                        " rows=20 cols=48 y=37 k=4 drops=10 data=normal seed=7"));
    Words o;
    for (std::size_t t = 0; t < 20; ++t) {
      for (std::size_t j = 0; j < 48; ++j) {
        float sum = 0;
        for (std::int64_t slot = p.slots.token_offsets[t]; slot < p.slots.token_offsets[t + 1]; ++slot) {
          const std::int32_t row = p.slots.token_rows[static_cast<std::size_t>(slot)];
          if (row < 0) continue;
          const auto at = static_cast<std::size_t>(row);
          sum = std::fma(weighted ? p.weights[at] : 1, value_of(p.y[at * 48 + j]), sum);
          sum = value_of(layer_bf16(sum));
        }
        o.push_back(layer_bf16(sum));
      }
    }
    EXPECT_EQ(matches_of(p, {to_bytes(o)}), std::vector<std::string>{"the sum kept in BF16"});
  }
}

}  // namespace
}  // namespace mxcheck
