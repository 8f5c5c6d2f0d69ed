#include "properties/process/call_watch.h"

#include <gtest/gtest.h>

#include <cfenv>

namespace mxcheck {
namespace {

TEST(CallWatch, what_has_not_changed_is_not_told) {
  const SignalHandlers handlers = SignalHandlers::now();
  const CallWatch watch(handlers);
  std::feraiseexcept(FE_INEXACT | FE_OVERFLOW);  // raised, not trapped: any sum of floats does it
  EXPECT_EQ(watch.undo_changes(), "");
  std::feclearexcept(FE_ALL_EXCEPT);
}

TEST(CallWatch, a_change_is_told_once_and_undone) {
  const SignalHandlers handlers = SignalHandlers::now();
  const CallWatch watch(handlers);
  std::fesetround(FE_UPWARD);
  struct sigaction action {};
  action.sa_handler = [](int) {};
  sigaction(SIGBUS, &action, nullptr);
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &mask, nullptr);
  const std::string told = watch.undo_changes();
  EXPECT_EQ(told.find("installed a handler for SIGBUS, which hides accesses outside of tensors; changed the "
                      "floating-point environment: rounding "),
            0U)
      << told;
  EXPECT_TRUE(told.ends_with("; changed the signal mask")) << told;
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  struct sigaction is {};
  sigaction(SIGBUS, nullptr, &is);
  EXPECT_NE(is.sa_handler, action.sa_handler);
  EXPECT_EQ(watch.undo_changes(), "");
}

TEST(SignalHandlers, of_other_signals_are_a_librarys_own_affair_when_it_is_loaded) {
  const SignalHandlers before = SignalHandlers::now();
  struct sigaction action {};
  action.sa_handler = [](int) {};
  sigaction(SIGFPE, &action, nullptr);
  EXPECT_EQ(before.undo_changes(false), "");
  EXPECT_EQ(before.undo_changes(true), "installed a handler for SIGFPE");
}

TEST(Conduct, of_a_reply_is_added_to_and_cut_where_it_does_not_fit) {
  wire::Reply reply;
  add_conduct(reply, "one");
  add_conduct(reply, "two");
  EXPECT_STREQ(reply.conduct, "one; two");
  add_conduct(reply, std::string(1000, 'x'));
  EXPECT_EQ(std::string(reply.conduct).size(), sizeof(reply.conduct) - 1);
}

}  // namespace
}  // namespace mxcheck
