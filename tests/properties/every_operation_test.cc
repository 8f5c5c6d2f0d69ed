// Rules that the variants and the problems of every operation keep.

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "properties/core/check.h"
#include "properties/process/wire.h"
#include "properties/records/replay.h"
#include "tests/properties/operations/dispatch/some_routed.h"
#include "tests/properties/operations/layer/some_steps.h"
#include "tests/properties/operations/matmul/some_matmuls.h"
#include "tests/properties/operations/moe/some_layers.h"
#include "tests/properties/operations/router/some_cases.h"
#include "tests/properties/operations/scaled_blocks/some_case.h"

namespace mxcheck {
namespace {

// Expected tensors have the sizes that the call hands over, and the problem's names.
void expect_tensors_of_the_call(const Problem& p) {
  const Call call = p.call();
  const std::vector<ExpectedTensor> expected = p.answer();
  ASSERT_EQ(call.outputs.size(), expected.size());
  ASSERT_LE(call.inputs.size() + call.outputs.size() + 2, static_cast<std::size_t>(wire::kMaxTensors));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(call.outputs[i].bytes, expected[i].bytes.size()) << to_text(p.c) << ' ' << i;
    EXPECT_EQ(expected[i].info.name, p.outputs[i].name);
    EXPECT_EQ(call.outputs[i].is_index, expected[i].info.integer_bits == 32);
    EXPECT_EQ(call.outputs[i].is_offsets, expected[i].info.integer_bits == 64);
  }
  std::vector<std::size_t> order = p.order();
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], i);
  EXPECT_EQ(order.size(), expected.size());
}

// The problem that the call gives back has the same answer.
std::unique_ptr<Problem> expect_problem_of_the_call(const Problem& p) {
  std::unique_ptr<Problem> again = problem_of(p.call());
  const std::vector<ExpectedTensor> want = p.answer();
  const std::vector<ExpectedTensor> got = again->answer();
  EXPECT_EQ(want.size(), got.size()) << to_text(p.c);
  for (std::size_t i = 0; i < want.size() && i < got.size(); ++i)
    EXPECT_EQ(want[i].bytes, got[i].bytes) << to_text(p.c) << ' ' << i;
  return again;
}

std::vector<Case> some_of_every_operation() {
  std::vector<Case> all;
  for (const std::vector<Case>& some : {test::some_steps(), test::some_layers(), test::some_routes(),
                                        test::some_matmuls(), test::some_scaled_blocks(), test::some_routed()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

TEST(EveryOperation, variants_are_all_different_and_are_read_back_from_their_text) {
  std::vector<std::string> names;
  for (const Operation* operation : all_operations()) {
    if (operation->name() != "matmul") names.emplace_back(operation->name());
  }
  for (const char* contract : {"exact", "ieee_fp32", "sm90_fp8", "sm90_fp8+promote128", "sm90_bf16+decode",
                               "sm90_bf16+from_c", "sm90_tf32", "sm100_mxf8f6f4"})
    names.push_back(std::string("matmul:") + contract);
  for (const std::string& name : names) {
    const std::vector<Variant> all = operation_named(name).askable(name);
    std::set<std::string> texts;
    for (const Variant& v : all) {
      ASSERT_EQ(parse_variant(to_text(v)), v) << to_text(v);
      texts.insert(to_text(v));
    }
    EXPECT_FALSE(all.empty()) << name;
    EXPECT_EQ(texts.size(), all.size()) << name;
  }
}

TEST(EveryOperation, expected_tensors_have_the_sizes_that_the_call_hands_over) {
  for (const Case& c : some_of_every_operation()) expect_tensors_of_the_call(*make_problem(c));
}

TEST(EveryOperation, a_call_gives_its_problem_back) {
  for (const Case& c : some_of_every_operation()) {
    const std::unique_ptr<Problem> p = make_problem(c);
    const std::unique_ptr<Problem> again = expect_problem_of_the_call(*p);
    EXPECT_EQ(again->c.experts, c.experts) << to_text(c);
    EXPECT_EQ(again->call().inputs.size(), p->call().inputs.size()) << to_text(c);
    if (c.variant.operation == "scale_layout") continue;  // whose call does not say the type of values
    EXPECT_EQ(again->c.variant, c.variant) << to_text(c);
  }
}

TEST(EveryOperation, cases_are_read_back_from_their_text_and_shrink_to_others_that_are) {
  for (const Case& c : some_of_every_operation()) {
    ASSERT_EQ(parse_case(to_text(c)), c) << to_text(c);
    const Operation& operation = operation_named(c.variant.operation);
    for (const Case& n : operation.simpler(c, {})) {
      ASSERT_NE(n, c);
      ASSERT_EQ(parse_case(to_text(n)), n) << to_text(n);
    }
  }
}

}  // namespace
}  // namespace mxcheck
