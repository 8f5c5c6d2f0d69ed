// The gate on routers: a library that is the reference holds, and each fault is found, by the statements that are about
// it, and named.

#include <gtest/gtest.h>

#include <initializer_list>
#include <ostream>
#include <string>

#include "tests/tools/held.h"

namespace {

using mxcheck::test::expect_held;
using mxcheck::test::ShellAnswer;

ShellAnswer gate(const std::string& fault, const std::string& arguments) {
  return mxcheck::test::run_shell("ROUTE_FAULT=" + fault +
                                  " " MXCHECK_TOOL " gate --save '' --candidate " MXCHECK_HOST_ROUTE " " + arguments +
                                  " 2>&1");
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

struct Fault {
  const char* name;
  std::initializer_list<const char*> failed;  // statements
  const char* named;                          // what the report must say, or nothing
  friend void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }
};

constexpr const char* kRoute = "route_equals_the_reference";
constexpr const char* kRound = "route_round_equals_the_reference";
constexpr const char* kMetadata = "route_metadata_equals_the_reference";
constexpr const char* kBackward = "route_backward_equals_the_reference";
constexpr const char* kOrder = "the_first_k_in_the_order_are_chosen";
constexpr const char* kTiles = "token_rounding_keeps_whole_tiles";
constexpr const char* kRows = "rows_by_expert_and_by_token_agree";
constexpr const char* kInverse = "metadata_is_a_permutation_and_its_inverse";
constexpr const char* kRefused = "bad_arguments_are_refused_and_nothing_is_written";

const Fault kFaults[] = {
    {"larger_index", {kRoute, kRound, kOrder, kTiles}, "ties that go to the larger index"},
    {"zeros_differ", {kRoute, kOrder}, "-0 below +0"},
    {"nan_first", {kRoute, kOrder}, "NaN before every number"},
    {"packed_order", {kRoute, kOrder}, "variant topk-softmax-packed"},
    {"last_group_ignored", {kRoute, kTiles}, "groups without the last of them"},
    {"bias_in_weights", {kRoute}, "the bias in weights too"},
    {"largest_not_subtracted", {kRoute, kRound}, "softmax without the largest subtracted"},
    {"scale_forgotten", {kRoute, kRound, kBackward, "scale_multiplies_every_weight"}, "scale left out"},
    {"wrong_set", {kRoute, kRound, kBackward, kOrder}, "variant softmax-topk"},
    {"not_renormalized", {kRoute, kBackward}, "variant softmax-topk"},
    {"top_k_minus_one", {kRoute, kOrder}, "goes to expert 0 twice"},
    {"duplicate_route", {kRoute, kOrder, "a_tile_of_one_keeps_token_choice"}, "twice"},
    {"rows_depend", {kRoute, "permuting_tokens_permutes_token_choice"}, ""},
    {"nan_accepted",
     {"a_nan_logit_is_refused_and_nothing_is_written"},
     "which is to be refused, and the candidate returned MXCHECK_OK"},
    {"half_up", {kRound, kTiles}, "a half that goes up"},
    {"half_even", {kRound, kTiles}, "rule nr-even"},
    {"weakest", {kRound, kTiles}, "the weakest tokens kept and admitted"},
    {"beyond_tokens", {kRound, kTiles}, "counts that go up beyond the number of tokens"},
    {"chosen_again", {kRound, kTiles, kRows}, "tokens admitted that had chosen the expert already"},
    {"sums_of_choice", {kRound}, "weights over the experts chosen before rounding"},
    {"layer_ignored", {kRound, kTiles}, "a layer of 0"},
    {"step_cut", {kRound, kTiles}, "a step of 32 bits"},
    {"count_off_by_one", {kRound, kTiles}, "chosen says"},
    {"tail_zero", {kRound, kTiles, kRows}, "behind the last, has token 0"},
    {"token_offsets_off", {kRound, kRows}, ""},
    {"row_twice", {kRound, kRows}, "token_rows has row"},
    {"descending", {kRound, kMetadata, kTiles, kRows, kInverse}, "tokens of an expert in descending order"},
    {"padding_zero", {kMetadata, kInverse}, ""},
    {"no_tiles", {kMetadata, kInverse}, "no multiple of"},
    {"bad_experts_dropped", {kRefused}, "the last route's expert is the number of experts"},
    {"sum_left_out", {kBackward}, "variant softmax-topk"},
    {"gradient_cut", {kBackward}, "gradient of the logits differ from the reference"},
};

class RouteFaults : public testing::TestWithParam<Fault> {};

TEST_P(RouteFaults, are_found_and_named) {
  ShellAnswer all;
  for (const char* statement : GetParam().failed) {
    const ShellAnswer ran = gate(GetParam().name, std::string("--seed 1 --cases 400 --only ") + statement);
    EXPECT_EQ(ran.code, 1) << ran.out;
    EXPECT_TRUE(ran.says(std::string("FAILED        ") + statement)) << statement << "\n" << ran.out;
    all.out += ran.out;
  }
  EXPECT_TRUE(all.says(GetParam().named)) << GetParam().named << "\n" << all.out;
}

INSTANTIATE_TEST_SUITE_P(All, RouteFaults, testing::ValuesIn(kFaults),
                         [](const auto& info) { return std::string(info.param.name); });

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
