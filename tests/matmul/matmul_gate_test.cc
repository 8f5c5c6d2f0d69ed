// The gate on GEMMs: a library that is the reference holds, and each fault is found and named.

#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "tests/tools/held.h"

namespace {

using mxcheck::test::expect_held;
using mxcheck::test::ShellAnswer;

ShellAnswer gate(const std::string& fault, const std::string& arguments) {
  return mxcheck::test::run_shell("MATMUL_FAULT=" + fault +
                                  " " MXCHECK_TOOL " gate --candidate " MXCHECK_HOST_MATMUL " " + arguments + " 2>&1");
}

// In two: each must be done well within a test's time, on a slow machine too.
TEST(MatmulGate, the_reference_as_a_candidate_equals_its_contracts) {
  expect_held(gate("", "--only 'matmul*' --cases 60 --seed 1"),
              {"matmul_equals_its_contract", "matmul_of_small_integers_is_exact", "matmul_sums_are_the_tensor_cores"});
}

TEST(MatmulGate, the_reference_as_a_candidate_behaves) {
  expect_held(gate("", "--only '[!m]*' --cases 40 --seed 1"),
              {"the_same_call_gives_the_same_bytes", "bad_arguments_are_refused_and_nothing_is_written"});
}

// By day: what does not make each call many times over, for GEMMs on the host are slow.
TEST(MatmulGate, the_reference_as_a_candidate_stays_inside_and_refuses) {
  expect_held(gate("", "--only '[bn]*' --cases 40 --seed 1"),
              {"nothing_is_accessed_outside_the_tensors", "bad_arguments_are_refused_and_nothing_is_written"});
}

TEST(MatmulGate, the_reference_as_a_candidate_repeats_itself_and_its_sums_are_right) {
  expect_held(gate("", "--only '*[el]_s[ua]*' --cases 40 --seed 1"),
              {"the_same_call_gives_the_same_bytes", "matmul_sums_are_the_tensor_cores"});
}

constexpr const char* kEquals = "matmul_equals_its_contract";
constexpr const char* kSums = "matmul_sums_are_the_tensor_cores";

struct Fault {
  const char* name;
  const char* statement;  // that finds it, asked alone by day; all about GEMMs at night
  const char* named;      // what the report must say, or nothing
  friend void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }
};

class MatmulFaults : public testing::TestWithParam<Fault> {
 protected:
  static void expect_found(const std::string& statements) {
    const ShellAnswer ran = gate(GetParam().name, "--only '" + statements + "' --cases 150 --seed 1");
    EXPECT_EQ(ran.code, 1) << ran.out;
    EXPECT_TRUE(ran.says(std::string("FAILED        ") + GetParam().statement)) << ran.out;
    EXPECT_TRUE(ran.says("D differs from")) << ran.out;
    EXPECT_TRUE(ran.says(GetParam().named)) << ran.out;
  }
};

TEST_P(MatmulFaults, are_found_and_named) { expect_found(GetParam().statement); }
TEST_P(MatmulFaults, are_found_and_named_among_all_statements) { expect_found("matmul_*"); }

INSTANTIATE_TEST_SUITE_P(All, MatmulFaults,
                         testing::Values(Fault{"fp32_sums", kSums, "exactly those of contract ieee_fp32"},
                                         Fault{"backwards", kSums, "+descending"}, Fault{"no_promotion", kEquals, ""},
                                         Fault{"promotes_every_256", kEquals, ""}, Fault{"a_scale_first", kEquals, ""},
                                         Fault{"k_block_dropped", kEquals, "the last block of 128 of k left out"},
                                         Fault{"output_cut", kEquals, "D cut to BF16 in place of rounded"},
                                         Fault{"scale_before", kEquals, "A's scales taken from the block of k before"},
                                         Fault{"c_forgotten", kSums, "C not added"},
                                         Fault{"last_row_zero", kEquals, "all observed are zero"}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(MatmulGate, d_that_is_cleared_before_c_is_read_from_it_is_found) {
  const ShellAnswer ran = gate("d_cleared_first", "--only matmul_updates_c_in_place --cases 60 --seed 1");
  EXPECT_EQ(ran.code, 1) << ran.out;
  EXPECT_NE(ran.out.find("D differs where C is in its memory"), std::string::npos) << ran.out;
}

TEST(MatmulGate, a_counterexample_shows_the_steps) {
  const ShellAnswer ran = gate("fp32_sums", "--only matmul_sums_are_the_tensor_cores");
  EXPECT_TRUE(ran.says("expected, under sm90_bf16")) << ran.out;
  EXPECT_TRUE(ran.says("window 2^")) << ran.out;
}

}  // namespace
