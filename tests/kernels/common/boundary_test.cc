// No exception leaves a kernel library: each becomes a status and a message.

#include "kernels/common/boundary.h"

#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <string>

namespace mxcheck_kernels {
namespace {

// The policy's format tells what the operation of this test throws.
void run_or_throw(const mxcheck_call& call) {
  const std::string what = call.policy->format;
  if (what == "refusal") throw Refusal(MXCHECK_INVALID, "x is wrong");
  if (what == "memory") throw std::bad_alloc();
  if (what == "exception") throw std::runtime_error("an accident");
  if (what == "number") throw 7;
}
void check_or_throw(const mxcheck_policy* policy, DLDataType) {
  if (std::string(policy->format) != "offered") unsupported("not this one");
}
std::uint64_t workspace_of(const mxcheck_call& call) { return call.policy->rows < 0 ? throw std::bad_alloc() : 256; }

constexpr std::array kOperations{make_operation<check_or_throw, run_or_throw>("host"),
                                 make_cuda_operation<check_or_throw, run_or_throw, workspace_of>("device")};

struct TestCall {
  explicit TestCall(const char* format) {
    policy.format = format;
    call.size = sizeof call, call.policy = &policy, call.message = message.data(), call.message_bytes = message.size();
  }
  mxcheck_policy policy{};
  mxcheck_call call{};
  std::array<char, 12> message{};
};

TEST(Boundary, turns_exceptions_into_a_status_and_a_message) {
  struct Case {
    const char* thrown;
    mxcheck_status status;
    const char* message;
  };
  for (const Case& c :
       {Case{"nothing", MXCHECK_OK, ""}, Case{"refusal", MXCHECK_INVALID, "x is wrong"},
        Case{"memory", MXCHECK_NO_MEMORY, "out of memo"},  // cut to the buffer
        Case{"exception", MXCHECK_FAILED, "an accident"}, Case{"number", MXCHECK_FAILED, "unknown exc"}}) {
    TestCall t(c.thrown);
    EXPECT_EQ(kOperations[0].run(&t.call), c.status) << c.thrown;
    EXPECT_STREQ(t.message.data(), c.message);
    t.call.message = nullptr;
    EXPECT_EQ(kOperations[1].run(&t.call), c.status) << c.thrown;
  }
}

TEST(Boundary, refuses_a_call_that_is_too_small_to_have_a_message) {
  TestCall t("nothing");
  EXPECT_EQ(kOperations[0].run(nullptr), MXCHECK_INVALID);
  t.call.size = sizeof(mxcheck_call) - 1;
  EXPECT_EQ(kOperations[0].run(&t.call), MXCHECK_INVALID);
  EXPECT_EQ(kOperations[1].run(&t.call), MXCHECK_OK);  // a CUDA library does without `report`, the last field
  t.call.size = offsetof(mxcheck_call, report) - 1;
  EXPECT_EQ(kOperations[1].run(&t.call), MXCHECK_INVALID);
}

TEST(Boundary, supports_says_unsupported_whatever_is_thrown) {
  const TestCall offered("offered");
  const TestCall other("other");
  EXPECT_EQ(kOperations[0].supports(&offered.policy, DLDataType{}), MXCHECK_OK);
  EXPECT_EQ(kOperations[0].supports(&other.policy, DLDataType{}), MXCHECK_UNSUPPORTED);
}

TEST(Boundary, workspace_is_guarded_as_well) {
  TestCall t("nothing");
  std::uint64_t bytes = 0;
  EXPECT_EQ(kOperations[0].workspace, nullptr);
  EXPECT_EQ(kOperations[1].workspace(&t.call, &bytes), MXCHECK_OK);
  EXPECT_EQ(bytes, 256U);
  t.policy.rows = -1;
  EXPECT_EQ(kOperations[1].workspace(&t.call, &bytes), MXCHECK_NO_MEMORY);
}

}  // namespace
}  // namespace mxcheck_kernels
