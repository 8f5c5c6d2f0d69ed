// The gate on the emulated library: the contract's bits on top of the reference, and the manners of a candidate.

#include "tests/libraries/gate_on.h"

namespace {

using mxcheck::test::expect_held, mxcheck::test::run_shell;

mxcheck::test::ShellAnswer gate(const std::string& arguments) {
  return run_shell(MXCHECK_TOOL " gate --candidate " MXCHECK_SM100_EMULATED
                                " --jobs 1 --seed 1 --time-limit 120 --save '' " +
                   arguments + " 2>&1");
}

// By day: the statements whose cases are few and small. A call takes 5 to 300 ms.
TEST(Sm100Gate, wrong_calls_are_refused) {
  expect_held(gate("--only 'bad*' --cases 20"), {"bad_arguments_are_refused_and_nothing_is_written"});
}

TEST(Sm100Gate, small_integers_have_their_exact_product) {
  expect_held(gate("--only matmul_of_small_integers_is_exact --cases 10"), {"matmul_of_small_integers_is_exact"});
}

// At night, in parts: each must be done within a test's time.
TEST(Sm100Gate, products_have_the_contracts_bits) {
  expect_held(gate("--only matmul_equals_its_contract --cases 100"), {"matmul_equals_its_contract"});
}

TEST(Sm100Gate, c_is_updated_in_place) {
  expect_held(gate("--only matmul_updates_c_in_place --cases 40"), {"matmul_updates_c_in_place"});
}

TEST(Sm100Gate, nothing_is_accessed_outside) {
  expect_held(gate("--only 'nothing*' --cases 40"), {"nothing_is_accessed_outside_the_tensors"});
}

TEST(Sm100Gate, calls_repeat_themselves) {
  expect_held(gate("--only 'the_*' --cases 20"),
              {"the_same_call_gives_the_same_bytes", "the_thread_count_changes_nothing"});
}

TEST(Sm100Gate, nothing_is_kept) { expect_held(gate("--only 'ten_thousand*'"), {"ten_thousand_calls_keep_no_memory"}); }

TEST(Sm100Gate, refused_calls_change_nothing) {
  expect_held(gate("--only 'a_refused*' --cases 10"), {"a_refused_call_changes_nothing_after_it"});
}

}  // namespace
