// Each statement about dispatch and combine holds for the reference, and names what is wrong with a candidate that is
// not.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "numerics/bytes.h"
#include "tests/properties/operations/dispatch/some_routed.h"
#include "tests/properties/spoilt_runner.h"

namespace mxcheck {
namespace {

using test::bit_of;
using test::found;

constexpr const char* kDispatch =
    "op=dispatch x=e4m3 rows=13 cols=130 ranks=0,5,13 homes=scattered num=6 k=3 capacity=9 data=bits seed=5";
constexpr const char* kCombine =
    "op=combine x=bf16 weighted=1 rows=13 cols=30 ranks=0,5,13 homes=turns num=6 k=3 drops=20 capacity=9 "
    "data=boundaries seed=5";

TEST(DispatchLaws, every_statement_of_the_module_holds_for_the_reference) {
  test::expect_module_holds("dispatch", 9U, test::some_routed(), false);
}

TEST(DispatchLaws, equality_names_the_tensor) {
  const char* const names[] = {"codes of the rows", "scales of the rows", "row_token", "slot_rows", "counts"};
  for (std::size_t i = 0; i < std::size(names); ++i) {
    EXPECT_EQ(found("dispatch_equals_the_reference", parse_case(kDispatch), bit_of(i, 1)),
              names[i] + std::string(" differ from the reference"));
  }
  EXPECT_EQ(found("combine_equals_the_reference", parse_case(kCombine), bit_of(0, 1)), "o differ from the reference");
}

// The first and the last integer of an output exchanged.
void exchange(Outcome& outcome, std::size_t output) {
  std::vector<std::int32_t> values = values_in<std::int32_t>(outcome.outputs[output]);
  std::swap(values.front(), values.back());
  outcome.outputs[output] = to_bytes(values);
}

TEST(DispatchLaws, rows_and_slots_are_in_pairs) {
  const char* pairs = "dispatch_gives_every_kept_slot_a_row_of_its_own";
  const std::string moved =
      found(pairs, parse_case(kDispatch), [](const Call&, int, Outcome& outcome) { exchange(outcome, 3); });
  EXPECT_NE(moved.find("has it"), std::string::npos) << moved;
  const std::string twice = found(pairs, parse_case(kDispatch), [](const Call&, int, Outcome& outcome) {
    std::memcpy(outcome.outputs[3].data() + 4, outcome.outputs[3].data(), 4);
  });
  EXPECT_NE(twice.find("is that of slot 0 and of slot 1"), std::string::npos) << twice;
}

TEST(DispatchLaws, scales_travel_with_their_rows) {
  const char* rows = "rows_and_their_scales_are_those_of_their_token";
  EXPECT_EQ(found(rows, parse_case(kDispatch)), "");
  const std::string scales = found(rows, parse_case(kDispatch), [](const Call&, int, Outcome& outcome) {
    std::rotate(outcome.outputs[1].begin(), outcome.outputs[1].begin() + 2, outcome.outputs[1].end());
  });
  EXPECT_NE(scales.find("scales of the rows, row"), std::string::npos) << scales;
  const std::string codes = found(rows, parse_case(kDispatch), bit_of(0, 1, {false, 1}));
  EXPECT_TRUE(codes.empty() || codes.find("codes of the rows, row") == 0) << codes;
}

TEST(DispatchLaws, ranks_change_no_bit) {
  const char* ranks = "placement_and_ranks_change_no_bit_of_what_comes_back";
  EXPECT_EQ(found(ranks, parse_case(kCombine)), "");
  // The last of the four calls is combine over other ranks.
  EXPECT_EQ(found(ranks, parse_case(kCombine), bit_of(0, 4)),
            "o is another where tokens and experts are on other ranks");
}

TEST(DispatchLaws, a_claim_of_any_order_takes_every_order_and_nothing_else) {
  const Case c = parse_case(
      "op=combine:any_order x=bf16 weighted=1 rows=13 cols=30 ranks=0,5,13 homes=turns num=6 k=3 data=normal seed=5");
  EXPECT_EQ(found("combine_is_a_sum_of_its_products", c), "");
  EXPECT_EQ(found("combine_is_a_sum_of_its_products", c, bit_of(0, 1, {false, 1})),
            "o is outside of what any order of its sums can give");
  EXPECT_FALSE(test::statement_named("combine_equals_the_reference").applies(c.variant, {}));
  EXPECT_FALSE(test::statement_named("combine_reads_nothing_of_what_was_dropped").applies(c.variant, {}));
}

TEST(DispatchLaws, what_was_dropped_is_not_read) {
  EXPECT_EQ(found("combine_reads_nothing_of_what_was_dropped", parse_case(kCombine), bit_of(0, 2)),
            "o depends on slots that were dropped, or on rows of none");
  EXPECT_EQ(found("a_dropped_slot_of_combine_may_be_left_out", parse_case(kCombine), bit_of(0, 2)),
            "o is another where slots that were dropped are left out");
}

}  // namespace
}  // namespace mxcheck
