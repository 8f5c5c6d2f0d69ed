#include "tools/common/progress.h"

#include <gtest/gtest.h>

#include <chrono>

namespace mxcheck {
namespace {

// What a terminal is shown comes after two seconds, for which no test waits.
TEST(Progress, says_nothing_without_a_terminal_and_ends_at_once) {
  const auto begun = std::chrono::steady_clock::now();
  testing::internal::CaptureStderr();
  {
    Progress progress("one");
    progress.now("two");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(2));
}

}  // namespace
}  // namespace mxcheck
