#include "tools/common/progress.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace mxcheck {

struct ProgressPeek {
  static std::string after(Progress& progress, std::chrono::seconds s) { return progress.line(progress.begun_ + s); }
};

namespace {

using std::chrono::seconds;

TEST(Progress, says_how_much_is_done_and_what_is_left) {
  Progress progress("reading");
  EXPECT_EQ(ProgressPeek::after(progress, seconds(3)), "mxcheck: reading, 3 s");
  progress.now("reading", 0);
  EXPECT_EQ(ProgressPeek::after(progress, seconds(3)), "mxcheck: reading: 0 %, 3 s");
  progress.now("reading", 0.25);
  EXPECT_EQ(ProgressPeek::after(progress, seconds(10)), "mxcheck: reading: 25 %, 10 s, 30 s left");
  progress.now("reading", 0.999);
  EXPECT_EQ(ProgressPeek::after(progress, seconds(10)), "mxcheck: reading: 99 %, 10 s, 0 s left");
  double share = 0.5;
  progress.watch("reading", [&] { return share; });
  EXPECT_EQ(ProgressPeek::after(progress, seconds(10)), "mxcheck: reading: 50 %, 10 s, 10 s left");
  share = 0.8;
  EXPECT_EQ(ProgressPeek::after(progress, seconds(10)), "mxcheck: reading: 80 %, 10 s, 2 s left");
  progress.now("writing");
  EXPECT_EQ(ProgressPeek::after(progress, seconds(12)), "mxcheck: writing, 12 s");
}

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
