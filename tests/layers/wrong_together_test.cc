// The gate on a library that is wrong at one layer's dimensions, or where three things meet. Several seeds: that these
// are found is no luck.

#include <gtest/gtest.h>

#include <string>

#include "tests/tools/shell.h"

namespace {

using mxcheck::test::ShellAnswer;

ShellAnswer gate(const std::string& wrong, const std::string& operation, const std::string& arguments) {
  return mxcheck::test::run_shell("WRONG_OF=" MXCHECK_CPU_LIBRARY " WRONG_OPERATION=" + operation + " WRONG=" + wrong +
                                  " " MXCHECK_TOOL " gate --candidate " MXCHECK_WRONG_LIBRARY " --only " + operation +
                                  "_equals_the_reference " + arguments + " 2>&1");
}

TEST(WrongTogether, right_everywhere_holds_and_every_layer_was_met) {
  for (const char* operation : {"quantize", "route"}) {
    const ShellAnswer ran = gate("nowhere", operation, "--seed 1 --coverage");
    EXPECT_EQ(ran.code, 0) << ran.out;
    EXPECT_TRUE(ran.says("  layers: DeepSeek-V3: ")) << ran.out;
    EXPECT_FALSE(ran.says("(not met)")) << ran.out;
  }
}

TEST(WrongTogether, at_the_width_of_a_layer_is_found_by_the_quick_suite) {
  for (const char* seed : {"1", "2", "3"}) {
    const ShellAnswer ran = gate("width", "quantize", std::string("--seed ") + seed);
    EXPECT_EQ(ran.code, 1) << ran.out;
    EXPECT_TRUE(ran.says("cols=2880")) << ran.out;
  }
}

TEST(WrongTogether, at_the_experts_of_a_layer_is_found_by_the_quick_suite) {
  for (const char* seed : {"1", "2", "3"}) {
    const ShellAnswer ran = gate("router", "route", std::string("--seed ") + seed);
    EXPECT_EQ(ran.code, 1) << ran.out;
    EXPECT_TRUE(ran.says("cols=384 k=8")) << ran.out;
  }
}

TEST(WrongTogether, where_three_axes_meet_is_found_by_the_full_suite) {
  for (const char* seed : {"1", "2", "3"}) {
    const ShellAnswer ran = gate("triple", "quantize", std::string("--suite full --seed ") + seed);
    EXPECT_EQ(ran.code, 1) << ran.out;
    EXPECT_TRUE(ran.says("format=e5m2")) << ran.out;
  }
}

}  // namespace
