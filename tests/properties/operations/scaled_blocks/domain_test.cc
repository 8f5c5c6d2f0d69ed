// Cases that are made from the domain of the operations on scaled blocks.

#include <gtest/gtest.h>

#include "properties/core/limits.h"
#include "properties/process/candidate_process.h"
#include "tests/properties/drawn.h"
#include "tests/properties/toy.h"

namespace mxcheck {
namespace {

using test::draw_case;
using test::expect_well_formed;
using test::statement_named;
using test::three_variants;

TEST(ScaledBlocksDomain, random_cases_are_well_formed_small_and_of_many_shapes) {
  const test::Toy toy("");
  const CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, std::chrono::seconds(5));
  int experts = 0, strides = 0, misaligned = 0, empty = 0, long_rows = 0, many_experts = 0;
  Draw words(1);
  for (int i = 0; i < 3000; ++i) {
    const Case c = draw_case(statement_named("quantize_equals_the_reference"), three_variants(), process, words);
    expect_well_formed(c);
    EXPECT_LE(c.elements(), 50'000);
    experts += c.experts.empty() ? 0 : 1, strides += c.stride > c.cols ? 1 : 0,
        misaligned += c.misaligned.any() ? 1 : 0;
    empty += c.elements() == 0 ? 1 : 0, long_rows += c.cols >= 1024 ? 1 : 0,
        many_experts += c.experts.size() > 9 ? 1 : 0;
  }
  for (const int count : {experts, strides, misaligned, empty, long_rows, many_experts}) EXPECT_GE(count, 60);  // 2 %
}

// What is wanted of a case is where it is, or there is no case.
TEST(ScaledBlocksDomain, a_case_is_in_the_bins_that_were_wanted) {
  const test::Toy toy("");
  const CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, std::chrono::seconds(5));
  const Statement& s = statement_named("quantize_equals_the_reference");
  const auto domain = operation_named("quantize").domain({s, three_variants(), process});
  Draw draw(5);
  int made = 0;
  for (std::size_t a = 0; a < domain->axes().size(); ++a) {
    for (int bin = 0; bin < static_cast<int>(domain->axes()[a].bins.size()); ++bin) {
      Bins wanted(domain->axes().size(), kAnyBin);
      wanted[a] = bin;
      const auto c = domain->make(wanted, domain->most_work(Suite::quick), draw);
      if (!c) continue;
      ++made;
      EXPECT_EQ(domain->bins_of(*c)[a], bin) << domain->axes()[a].name << " " << to_text(*c);
      EXPECT_EQ(parse_case(to_text(*c)), *c);
    }
  }
  EXPECT_GT(made, 150);
}

TEST(ScaledBlocksDomain, stays_within_the_candidates_multiples_and_limits) {
  for (const char* mode : {"multiples", "limits"}) {
    const test::Toy toy(mode);
    const CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, std::chrono::seconds(5));
    Draw words(2);
    int nonempty = 0;
    for (int i = 0; i < 1000; ++i) {
      const Case c = draw_case(statement_named("quantize_equals_the_reference"), three_variants(), process, words);
      expect_well_formed(c);
      ASSERT_TRUE(is_within_limits(c, *process.operation("quantize"))) << to_text(c);
      nonempty += c.elements() > 0 ? 1 : 0;
    }
    EXPECT_GT(nonempty, 700);
  }
}

TEST(ScaledBlocksDomain, multiples_larger_than_the_usual_case_end_the_draw) {
  const test::Toy toy("huge_multiples");
  const CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, std::chrono::seconds(5));
  Draw words(3);
  for (int i = 0; i < 100; ++i)
    (void)draw_case(statement_named("quantize_equals_the_reference"), three_variants(), process, words);
}

}  // namespace
}  // namespace mxcheck
