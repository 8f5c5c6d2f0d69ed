// Signals that ask for an end: the handler runs within the scope alone, and an ignored signal stays ignored.

#include "tools/common/end_signals.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>

namespace mxcheck {
namespace {

std::atomic<int> inner = 0, outer = 0;

class EndSignalsTest : public testing::Test {
 protected:
  void SetUp() override { inner = outer = 0; }
};

TEST_F(EndSignalsTest, are_handled_in_the_scope_and_as_before_after_it) {
  const EndSignals around([](int) { ++outer; });
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    {
      const EndSignals within([](int) { ++inner; });
      raise(signal);
      raise(signal);
    }
    raise(signal);
  }
  EXPECT_EQ(inner, 6);
  EXPECT_EQ(outer, 3);
}

TEST_F(EndSignalsTest, that_are_ignored_stay_so) {
  const auto before = std::signal(SIGHUP, SIG_IGN);
  {
    const EndSignals within([](int) { ++inner; });
    raise(SIGHUP);
    raise(SIGTERM);
  }
  raise(SIGHUP);
  std::signal(SIGHUP, before);
  EXPECT_EQ(inner, 1);
}

TEST_F(EndSignalsTest, of_the_same_kind_may_be_caught_once) {
  const EndSignals around([](int) { ++outer; });
  {
    const EndSignals within([](int) { ++inner; }, static_cast<int>(SA_RESETHAND));
    raise(SIGINT);
    struct sigaction now = {};
    sigaction(SIGINT, nullptr, &now);
    EXPECT_EQ(now.sa_handler, SIG_DFL);  // a second one would end the process
  }
  raise(SIGINT);
  EXPECT_EQ(inner, 1);
  EXPECT_EQ(outer, 1);
}

}  // namespace
}  // namespace mxcheck
