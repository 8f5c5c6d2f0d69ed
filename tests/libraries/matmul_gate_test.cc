// The gate on GEMMs: a library that is the reference holds, and each fault is found and named.

#include "tests/libraries/gate_on.h"

namespace {

using mxcheck::test::expect_held, mxcheck::test::ShellAnswer, mxcheck::test::WrongLibrary;

ShellAnswer gate(const std::string& fault, const std::string& arguments) {
  return mxcheck::test::gate_on(MXCHECK_HOST_MATMUL, "MATMUL_FAULT=" + fault, arguments + " 2>&1");
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

class MatmulFaults : public testing::TestWithParam<WrongLibrary> {
 protected:
  static void expect_found(const std::string& statements) {
    const ShellAnswer ran = gate(GetParam().name, "--only '" + statements + "' --cases 150 --seed 1");
    mxcheck::test::expect_found(ran, GetParam(), GetParam().found_by);
    EXPECT_TRUE(ran.says("D differs from")) << ran.out;
  }
};

// The statement that finds it, asked alone by day; all about GEMMs at night.
TEST_P(MatmulFaults, are_found_and_named) { expect_found(GetParam().found_by); }
TEST_P(MatmulFaults, are_found_and_named_among_all_statements) { expect_found("matmul_*"); }

INSTANTIATE_TEST_SUITE_P(All, MatmulFaults, testing::ValuesIn(mxcheck::test::tabled_libraries("matmul")),
                         [](const auto& info) { return info.param.name; });

TEST(MatmulGate, d_that_is_cleared_before_c_is_read_from_it_is_found) {
  const WrongLibrary wrong = mxcheck::test::wrong_library("matmul", "d_cleared_first");
  mxcheck::test::expect_found(gate(wrong.name, "--only " + wrong.found_by + " --cases 60 --seed 1"), wrong,
                              wrong.found_by);
}

TEST(MatmulGate, a_counterexample_shows_the_steps) {
  const ShellAnswer ran = gate("fp32_sums", "--only matmul_sums_are_the_tensor_cores");
  EXPECT_TRUE(ran.says("expected, under sm90_bf16")) << ran.out;
  EXPECT_TRUE(ran.says("window 2^")) << ran.out;
}

}  // namespace
