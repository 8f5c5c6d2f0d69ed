// Goldens of the gate's cases: that they hold a case's tensors, the texts that are refused, and what is said of a
// candidate that differs.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/format/packing.h"
#include "properties/core/operation.h"
#include "properties/goldens/case.h"
#include "properties/goldens/suite.h"
#include "properties/operations/matmul/problem.h"
#include "tests/properties/diagnosis/golden_parts.h"
#include "tests/properties/goldens/specs.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using golden_parts::Tensors;

constexpr const char* kAddsC =
    "op=matmul:sm90_fp8 format=e4m3 format_b=e4m3 block=none block_b=none scales=none groups=none d=fp32 rows=5 cols=6 "
    "depth=64 data=normal seed=4 adds=1 alpha=0.5";
constexpr const char* kMasked =
    "op=matmul:sm90_fp8+promote128 format=e4m3 format_b=e4m3 block=1x128 block_b=128x128 scales=fp32 groups=masked "
    "d=bf16 rows=24 cols=4 depth=256 counts=3,0,8 data=normal seed=7";
constexpr const char* kNvfp4 =
    "op=matmul:sm90_bf16+decode format=e2m1 format_b=e2m1 block=1x16 block_b=1x16 scales=e4m3 groups=none d=fp32 "
    "rows=3 cols=4 depth=40 data=normal seed=9 alpha=0.25";

GoldenTensors golden_of_case(const std::string& text) {
  return golden_parts::made(test::golden_of("case", R"("case": ")" + text + "\""));
}

Tensors outputs_of(const GoldenTensors& golden) {
  Tensors outputs;
  for (const DatasetInfo& info : golden.info.datasets) {
    if (info.role == Role::output) outputs.emplace(info.name, golden.tensors.at(info.name));
  }
  return outputs;
}

TEST(CaseGolden, holds_the_inputs_and_the_answer_of_the_case) {
  const GoldenTensors golden = golden_of_case(std::string("matmuls: ") + kAddsC);
  const MatmulProblem problem(parse_case(kAddsC));
  EXPECT_EQ(attribute(golden.info.attributes, "case"), to_text(problem.c));
  EXPECT_EQ(attribute(golden.info.attributes, "case_depth"), "64");
  EXPECT_EQ(golden.tensors.at("A").data, problem.a);
  EXPECT_EQ(golden.tensors.at("B").data, problem.b);
  EXPECT_EQ(golden.tensors.at("C").data, problem.c_values);
  EXPECT_EQ(golden.tensors.at("d").data, problem.answer()[0].bytes);
  EXPECT_EQ(golden.tensors.at("d").shape, (std::vector<std::int64_t>{5, 6}));
  EXPECT_EQ(golden.info.find("A")->format, "float8_e4m3fn");
}

TEST(CaseGolden, has_packed_codes_one_a_byte) {
  const GoldenTensors golden = golden_of_case(kNvfp4);
  const MatmulProblem problem(parse_case(kNvfp4));
  EXPECT_EQ(golden.info.find("A")->format, "float4_e2m1fn");
  EXPECT_EQ(golden.tensors.at("A").shape, (std::vector<std::int64_t>{3, 40}));
  EXPECT_EQ(golden.tensors.at("A").data, problem.a);
  EXPECT_EQ(golden.tensors.at("scales_of_A").data, problem.scales_a);
}

// One small case of each operation's first variant: whatever an operation is, its cases are goldens that are equal to
// themselves.
TEST(CaseGolden, exists_for_every_operation) {
  int seen = 0;
  for (const Operation* operation : all_operations()) {
    SCOPED_TRACE(operation->name());
    const std::string text = operation->name() == "matmul" ? "matmul:sm90_bf16" : std::string(operation->name());
    const std::vector<Variant> variants = operation->askable(text);
    ASSERT_FALSE(variants.empty());
    Case c;
    c.variant = variants.front();
    c.rows = 6, c.cols = 32, c.data = Data::normal, c.seed = 3;
    operation->fit(c);
    std::string text_of_case = to_text(c);
    if (operation->name().starts_with("moe_")) text_of_case += " inner=16 k=2 experts=0,6,6,12";
    const GoldenTensors golden = golden_of_case(text_of_case);
    const Tensors outputs = outputs_of(golden);
    EXPECT_FALSE(outputs.empty());
    EXPECT_TRUE(golden_parts::judged(golden, outputs).equal());
    ++seen;
  }
  EXPECT_GT(seen, 15);
}

TEST(CaseGolden, refuses_what_is_no_case_and_what_is_too_large) {
  const auto refused = [](const std::string& text, const std::string& why) {
    SCOPED_TRACE(text);
    test::expect_error(ErrorKind::usage, why, [&] { (void)golden_case(text); });
  };
  refused("", "op");
  refused("op=sort rows=3", "there is no operation 'sort'");
  const std::string quantize = "op=quantize format=e4m3 recipe=rceil block=1x32 layout=compact x=bf16 ";
  refused(quantize + "rows=4 cols=32 stride=40 data=normal seed=1", "leave them out");
  refused(quantize + "rows=4 cols=32 threads=2 data=normal seed=1", "leave them out");
  refused(quantize + "rows=100000000 cols=32 data=normal seed=1", "of that size");
  const std::string product =
      "op=matmul:sm90_fp8 format=e4m3 format_b=e4m3 block=none block_b=none scales=none groups=none d=fp32 ";
  refused(product + "rows=1 cols=1 depth=1000000000 data=normal seed=1", "of that size");
  refused(product + "rows=0 cols=0 depth=1000000000 data=normal seed=1", "of that size");
  refused(product + "rows=20000 cols=20000 depth=5000 data=normal seed=1", "of that size");
  refused(
      "op=matmul:sm90_fp8 format=e4m3 format_b=e4m3 block=none block_b=none scales=none groups=rows d=fp32 rows=1 "
      "cols=8192 depth=8192 experts=0,0,1 data=normal seed=1",
      "of that size");
}

TEST(CaseGolden, a_difference_has_its_cause_and_its_steps) {
  const GoldenTensors golden = golden_of_case(kAddsC);
  const MatmulProblem problem(parse_case(kAddsC));
  Tensors candidate = outputs_of(golden);
  Matmul without_c = problem.matmul(problem.contract());
  without_c.c = nullptr;
  matmul(without_c, candidate.at("d").data.data());
  const GoldenVerdict verdict = golden_parts::judged(golden, candidate);
  const DatasetResult& d = golden_parts::result_of(verdict, "d");
  EXPECT_EQ(d.verdict, DatasetVerdict::different);
  EXPECT_NE(golden_parts::first_cause(d).find("C not added"), std::string::npos) << golden_parts::first_cause(d);
  ASSERT_FALSE(d.element.empty());
  EXPECT_EQ(d.element.front(), "expected, under sm90_fp8:");
}

TEST(CaseGolden, rows_that_may_hold_anything_are_not_compared) {
  const GoldenTensors golden = golden_of_case(kMasked);
  EXPECT_EQ(attribute(golden.info.find("d")->attributes, "open"), "24:64 64:128");
  Tensors candidate = outputs_of(golden);
  std::vector<std::byte>& d = candidate.at("d").data;
  std::fill(d.begin() + 24, d.begin() + 128, std::byte{0xA5});
  EXPECT_TRUE(golden_parts::judged(golden, candidate).equal());
  d[23] ^= std::byte{1};
  EXPECT_FALSE(golden_parts::judged(golden, candidate).equal());
}

TEST(CaseGolden, a_forged_one_is_refused) {
  const auto forged = [](const char* key, const std::string& value, const std::string& why) {
    GoldenTensors golden = golden_of_case(kMasked);
    for (auto& [name, text] : golden.info.attributes) text = name == key ? value : text;
    for (auto& [name, text] : golden.info.datasets.back().attributes) text = name == key ? value : text;
    Tensors candidate = outputs_of(golden);
    candidate.at("d").data.front() ^= std::byte{1};
    test::expect_error(ErrorKind::golden, why, [&] { (void)golden_parts::judged(golden, candidate); });
  };
  forged("case", "op=sort", "its attribute case: there is no operation 'sort'");
  for (const char* open : {"1", "1:", ":4", "9:4", "0:100000", "0:4,", "0:4  8:9", "-1:4", "0:18446744073709551616"})
    forged("open", open, "the attribute open of its dataset d");
}

}  // namespace
}  // namespace mxcheck
