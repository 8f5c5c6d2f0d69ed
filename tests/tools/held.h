#pragma once
// The gate's text about a library that is right.

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "tests/tools/shell.h"

namespace mxcheck::test {

inline void expect_held(const ShellAnswer& gate, std::initializer_list<const char*> statements) {
  EXPECT_EQ(gate.code, 0) << gate.out;
  for (const char* name : statements) {
    EXPECT_TRUE(gate.says(std::string("held          ") + name)) << name << "\n" << gate.out;
  }
}

}  // namespace mxcheck::test
