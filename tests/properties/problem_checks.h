#pragma once
// Checks that hold of every operation's problem.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "properties/core/check.h"
#include "properties/process/wire.h"
#include "properties/records/replay.h"

namespace mxcheck::test {

// Expected tensors have the sizes that the call hands over, and the problem's names.
inline void expect_tensors_of_the_call(const Problem& p) {
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
inline std::unique_ptr<Problem> expect_problem_of_the_call(const Problem& p) {
  std::unique_ptr<Problem> again = problem_of(p.call());
  const std::vector<ExpectedTensor> want = p.answer();
  const std::vector<ExpectedTensor> got = again->answer();
  EXPECT_EQ(want.size(), got.size()) << to_text(p.c);
  for (std::size_t i = 0; i < want.size() && i < got.size(); ++i)
    EXPECT_EQ(want[i].bytes, got[i].bytes) << to_text(p.c) << ' ' << i;
  return again;
}

}  // namespace mxcheck::test
