#pragma once
// The gate on the reference as a candidate, and what must hold of every library that is right.

#include <gtest/gtest.h>

#include <string>

#include "tests/tools/shell.h"

namespace mxcheck::test {

inline ShellAnswer gate_on_reference(const std::string& settings, const std::string& arguments) {
  return run_shell("REFERENCE='" + settings +
                   "' " MXCHECK_TOOL " gate --save '' --candidate " MXCHECK_REFERENCE_CANDIDATE " " + arguments);
}

inline void expect_right(const ShellAnswer& ran) {
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_EQ(ran.out.find("FAILED"), std::string::npos) << ran.out;
  EXPECT_EQ(ran.out.find("INCONCLUSIVE"), std::string::npos) << ran.out;
}

}  // namespace mxcheck::test
