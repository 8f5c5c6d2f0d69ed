#pragma once
// The gate on the libraries of this folder, as a user calls it, and what must come of it.

#include <gtest/gtest.h>

#include <cstdlib>
#include <initializer_list>
#include <string>

#include "properties/gate/gate.h"
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

// The gate on a library of this folder, with the driver of host memory in the place of CUDA's.

class FakeCuda : public testing::Test {
 protected:
  void SetUp() override { setenv("LD_LIBRARY_PATH", MXCHECK_FAKE_CUDA, 1); }
  void TearDown() override {
    for (const char* name : {"LD_LIBRARY_PATH", "FAKE_CUDA", "FAKE_MODEL", "FAKE_NO_DEVICE"}) unsetenv(name);
  }
  static std::string file(const std::string& name) { return std::string(MXCHECK_FAKE_CUDA) + "/" + name; }
  static GateOptions options(const std::string& library, const std::string& only) {
    GateOptions o;
    o.tool = MXCHECK_TOOL, o.library = file(library), o.only = only, o.cases = 60, o.seed = 3;
    return o;
  }
  // Runs with what the library does wrong.
  static GateReport gate(const GateOptions& o, const char* mode = "") {
    setenv("FAKE_CUDA", mode, 1);
    return run_gate(o, [](const StatementResult&, bool) {});
  }
  static GateReport gate(const std::string& library, const char* mode, const std::string& only, bool record = false) {
    GateOptions o = options(library, only);
    o.record = record;
    return gate(o, mode);
  }
  // The finding of the first counterexample; empty when all statements held.
  static std::string found(const GateReport& report) {
    for (const StatementResult& r : report.statements) {
      if (r.counterexample) return r.counterexample->finding.summary;
    }
    return "";
  }
  // Expects what the catalogue has of a wrong library.
  static void expect_found(const GateReport& report, const WrongLibrary& wrong) {
    EXPECT_EQ(exit_code(report), wrong.exit_code());
    EXPECT_NE(found(report).find(wrong.says), std::string::npos) << found(report);
  }
};

}  // namespace mxcheck::test
