// The gate on routers: a library that is the reference holds, and each fault is found, by the statements that are about
// it, and named.

#include "tests/libraries/gate_on.h"

namespace {

using mxcheck::test::expect_held, mxcheck::test::ShellAnswer;

ShellAnswer gate(const std::string& fault, const std::string& arguments) {
  return mxcheck::test::gate_on(MXCHECK_HOST_ROUTE, "ROUTE_FAULT=" + fault, arguments + " 2>&1");
}

// In three: each must be done well within a test's time, on a slow machine too.
TEST(Routes, the_reference_as_a_candidate_equals_itself) {
  expect_held(gate("", "--only '*route*_the_reference' --cases 300 --seed 1"),
              {"route_equals_the_reference", "route_round_equals_the_reference", "route_metadata_equals_the_reference",
               "route_backward_equals_the_reference", "every_row_of_a_small_alphabet_is_routed_as_the_reference"});
}

TEST(Routes, the_reference_as_a_candidate_keeps_the_laws) {  // those that no other pattern here selects
  expect_held(gate("", "--only '[emprs][veco][!u]*' --cases 300 --seed 2"),
              {"every_logit_is_scored_as_the_reference", "permuting_tokens_permutes_token_choice",
               "scale_multiplies_every_weight", "rows_by_expert_and_by_token_agree",
               "metadata_is_a_permutation_and_its_inverse"});
}

TEST(Routes, the_reference_as_a_candidate_behaves) {
  expect_held(gate("", "--only '[abnt]*' --cases 300 --seed 3"),
              {"a_nan_logit_is_refused_and_nothing_is_written", "the_first_k_in_the_order_are_chosen",
               "token_rounding_keeps_whole_tiles", "a_tile_of_one_keeps_token_choice",
               "nothing_is_accessed_outside_the_tensors", "the_thread_count_changes_nothing",
               "the_same_call_gives_the_same_bytes", "bad_arguments_are_refused_and_nothing_is_written",
               "a_refused_call_changes_nothing_after_it"});
}

class RouteFaults : public testing::TestWithParam<mxcheck::test::WrongLibrary> {};

TEST_P(RouteFaults, are_found_and_named) {
  ShellAnswer all;
  for (const std::string& statement : GetParam().statements()) {
    const ShellAnswer ran = gate(GetParam().name, "--seed 1 --cases 400 --only " + statement);
    EXPECT_EQ(ran.code, GetParam().exit_code()) << ran.out;
    EXPECT_TRUE(ran.says("FAILED        " + statement)) << statement << "\n" << ran.out;
    all.out += ran.out;
  }
  EXPECT_TRUE(all.says(GetParam().says)) << GetParam().says << "\n" << all.out;
}

INSTANTIATE_TEST_SUITE_P(All, RouteFaults, testing::ValuesIn(mxcheck::test::tabled_libraries("route")),
                         [](const auto& info) { return info.param.name; });

TEST(Routes, a_counterexample_shows_the_order_and_the_decision) {
  const ShellAnswer order = gate("larger_index", "--seed 1 --only route_equals_the_reference");
  for (const char* part : {"token     0: ", "rank 0    expert 0: logit 0x0000 = ", "; chosen", "; not chosen",
                           "expected  0\n", "observed  1\n"}) {
    EXPECT_TRUE(order.says(part)) << part << "\n" << order.out;
  }
  const ShellAnswer decision = gate("half_up", "--seed 1 --only route_round_equals_the_reference");
  for (const char* part : {"tokens chose it, rule nr-", "to multiples of", "lost) or up", "it keeps", "rank 0"})
    EXPECT_TRUE(decision.says(part)) << part << "\n" << decision.out;
}

TEST(Routes, a_counterexample_is_reproduced_from_its_line) {
  const std::string line =
      "'route_round_equals_the_reference: op=route_round variant=softmax-topk x=bf16 nan=refuse bias=0 limited=0 "
      "rule=nr-f weights=renorm rows=3 cols=1 k=1 tile=2 data=zeros seed=1'";
  EXPECT_EQ(gate("", "--reproduce " + line).code, 0);
  EXPECT_EQ(gate("count_off_by_one", "--reproduce " + line).code, 1);
}

}  // namespace
