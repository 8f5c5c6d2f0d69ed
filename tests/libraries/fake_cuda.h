#pragma once
// The gate on a library of this folder, with the driver of host memory in the place of CUDA's.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "properties/gate/gate.h"
#include "tests/libraries/catalogue.h"

namespace mxcheck::test {

class FakeCuda : public testing::Test {
 protected:
  void SetUp() override { setenv("LD_LIBRARY_PATH", MXCHECK_FAKE_CUDA, 1); }
  void TearDown() override {
    for (const char* name : {"LD_LIBRARY_PATH", "FAKE_CUDA", "FAKE_MODEL", "FAKE_NO_DEVICE", "FAKE_GPUS", "FAKE_LOG",
                             "FAKE_OTHER_MODEL", "FAKE_WRONG_GPU", "FAKE_FAULTY_GPU", "CUDA_VISIBLE_DEVICES"})
      unsetenv(name);
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
