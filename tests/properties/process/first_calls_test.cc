#include "properties/process/first_calls.h"

#include <gtest/gtest.h>

#include "properties/core/policy.h"

namespace mxcheck {
namespace {

wire::Message call_of(std::int64_t rows, std::int64_t cols, const char* recipe = "te", std::uint64_t offset = 4096) {
  mxcheck_policy policy{};
  policy.format = "e4m3", policy.recipe = recipe;
  policy.block_rows = 1, policy.block_cols = 32, policy.rows = rows, policy.cols = cols;
  wire::Message message;
  message.policy = pack(policy);
  message.num_inputs = 1, message.num_outputs = 1;
  for (int i = 0; i < 2; ++i) {
    wire::Tensor& t = message.tensors[i];
    t.ndim = 2, t.shape[0] = rows, t.shape[1] = cols, t.offset = offset;
    t.dtype_code = i == 0 ? kDLBfloat : kDLUInt, t.dtype_bits = i == 0 ? 16 : 8;
  }
  return message;
}

TEST(FirstCalls, are_those_of_another_class_of_shapes) {
  FirstCalls calls;
  EXPECT_TRUE(calls.is_first("quantize", call_of(3, 65), false));
  EXPECT_FALSE(calls.is_first("quantize", call_of(3, 65), false));
  EXPECT_FALSE(calls.is_first("quantize", call_of(5, 99), false));
  for (const auto& [rows, cols] : {std::pair{3, 64}, {1, 65}, {0, 65}, {16, 65}, {3, 1}})
    EXPECT_TRUE(calls.is_first("quantize", call_of(rows, cols), false)) << rows << " x " << cols;
}

TEST(FirstCalls, are_those_of_another_policy_operation_type_or_alignment) {
  FirstCalls calls;
  EXPECT_TRUE(calls.is_first("quantize", call_of(3, 65), false));
  EXPECT_TRUE(calls.is_first("quantize", call_of(3, 65, "rceil"), false));
  EXPECT_TRUE(calls.is_first("quantize", call_of(3, 65, "te", 4098), false));
  EXPECT_TRUE(calls.is_first("cast", call_of(3, 65), false));
  wire::Message other = call_of(3, 65);
  other.tensors[0].dtype_code = kDLFloat, other.tensors[0].dtype_bits = 32;
  EXPECT_TRUE(calls.is_first("quantize", other, false));
}

TEST(FirstCalls, are_those_of_each_shape_where_shapes_are_static) {
  FirstCalls calls;
  EXPECT_TRUE(calls.is_first("quantize", call_of(3, 65), true));
  EXPECT_TRUE(calls.is_first("quantize", call_of(5, 99), true));
  EXPECT_FALSE(calls.is_first("quantize", call_of(5, 99), true));
}

TEST(FirstCalls, begin_again_in_a_fresh_process) {
  FirstCalls calls;
  EXPECT_TRUE(calls.is_first("quantize", call_of(3, 65), false));
  calls.forget();
  EXPECT_TRUE(calls.is_first("quantize", call_of(3, 65), false));
}

TEST(FirstCalls, are_counted_with_the_longest_by_name) {
  FirstCalls calls;
  (void)calls.is_first("quantize", call_of(3, 65), false);
  calls.took(std::chrono::milliseconds(500));
  (void)calls.is_first("quantize", call_of(16, 64), false);
  calls.took(std::chrono::milliseconds(1500));
  FirstCallCount sum;
  sum.add(0.25, "of another process");
  sum.add(calls.count());
  EXPECT_EQ(sum.calls, 3);
  EXPECT_DOUBLE_EQ(sum.seconds, 2.25);
  EXPECT_DOUBLE_EQ(sum.longest, 1.5);
  EXPECT_EQ(sum.longest_kind, "quantize e4m3 te 1x32, bf16 16 x 64");
}

}  // namespace
}  // namespace mxcheck
