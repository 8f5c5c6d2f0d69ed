#pragma once
// The gate on the libraries of this folder, as a user calls it, and what must come of it.

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "tests/libraries/catalogue.h"
#include "tests/tools/shell.h"

namespace mxcheck::test {

#ifdef MXCHECK_TOOL
// `environment` is NAME=VALUE: what a library is told there.
inline ShellAnswer gate_on(const std::string& library, const std::string& environment, const std::string& arguments) {
  return run_shell(environment + " " MXCHECK_TOOL " gate --save '' --candidate " + library + " " + arguments);
}
#endif

#ifdef MXCHECK_REFERENCE_CANDIDATE
inline ShellAnswer gate_on_reference(const std::string& settings, const std::string& arguments) {
  return gate_on(MXCHECK_REFERENCE_CANDIDATE, "REFERENCE='" + settings + "'", arguments);
}
#endif

// Expects what must hold of every library that is right.
inline void expect_right(const ShellAnswer& ran) {
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_EQ(ran.out.find("FAILED"), std::string::npos) << ran.out;
  EXPECT_EQ(ran.out.find("INCONCLUSIVE"), std::string::npos) << ran.out;
}

// The gate's text about a library that is right.
inline void expect_held(const ShellAnswer& gate, std::initializer_list<const char*> statements) {
  EXPECT_EQ(gate.code, 0) << gate.out;
  for (const char* name : statements) {
    EXPECT_TRUE(gate.says(std::string("held          ") + name)) << name << "\n" << gate.out;
  }
}

// Expects what the catalogue has of a wrong one; `statement` is one of those that must find it.
inline void expect_found(const ShellAnswer& gate, const WrongLibrary& wrong, const std::string& statement) {
  EXPECT_EQ(gate.code, wrong.exit_code()) << gate.out;
  EXPECT_TRUE(gate.says("FAILED        " + statement)) << statement << "\n" << gate.out;
  EXPECT_TRUE(gate.says(wrong.says)) << wrong.says << "\n" << gate.out;
}

}  // namespace mxcheck::test
