// What a failing case of the operations on scaled blocks is shrunk to (operations/scaled_blocks/simpler.cc).

#include <gtest/gtest.h>

#include <algorithm>

#include "properties/process/candidate_process.h"
#include "tests/properties/drawn.h"
#include "tests/properties/toy.h"

namespace mxcheck {
namespace {

using test::draw_case;
using test::expect_well_formed;
using test::statement_named;
using test::three_variants;

std::vector<Case> simpler_cases(const Case& c, const Finding& finding) {
  return operation_named(c.variant.operation).simpler(c, finding);
}

// What each simpler case decreases: a shrink cannot go round in circles.
std::vector<std::int64_t> measure(const Case& c) {
  std::int64_t coordinates = 0;
  for (const Plant& p : c.plants) coordinates += p.row + p.col;
  const std::int64_t data = c.data == Data::zeros ? 0 : c.data == Data::codes ? 1 : 2;
  const auto flag = [](bool b) { return b ? std::int64_t{1} : std::int64_t{0}; };
  return {data,
          c.rows + c.cols,
          static_cast<std::int64_t>(c.experts.size()),
          flag(c.stride != 0),
          c.gather,
          flag(c.threads != 0),
          static_cast<std::int64_t>(c.plants.size()),
          coordinates,
          flag(blocks_case(c).pad != 0),
          flag(c.misaligned.inputs != decltype(c.misaligned.inputs){}) +
              flag(c.misaligned.outputs != decltype(c.misaligned.outputs){}),
          flag(c.seed > 1)};
}

TEST(Simpler, simpler_cases_are_simpler_and_well_formed) {
  const test::Toy toy("");
  const CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, std::chrono::seconds(5));
  Draw words(4);
  for (int i = 0; i < 400; ++i) {
    Case c = draw_case(statement_named("quantize_equals_the_reference"), three_variants(), process, words);
    if (c.elements() == 0) continue;
    Finding finding;
    if (i % 2 == 0) finding.relevant = {{c.rows - 1, c.cols - 1, 0x3F80}, {0, 0, 0x4000}};
    if (i % 3 == 0) c.plants = {{c.rows - 1, 0, 1}, {0, c.cols - 1, 2}};
    for (int depth = 0; depth < 200; ++depth) {
      const std::vector<Case> simpler = simpler_cases(c, finding);
      if (simpler.empty()) break;
      for (const Case& n : simpler) {
        expect_well_formed(n);
        ASSERT_NE(n, c);
        // Lexicographically smaller: going to zeros with the relevant elements planted is the one step that adds
        // plants.
        ASSERT_LT(measure(n), measure(c)) << to_text(c) << "\n" << to_text(n);
        ASSERT_EQ(n.variant, c.variant);
      }
      c = simpler[words.below(simpler.size())];
    }
    EXPECT_LE(c.elements(), 50'000);
  }
}

TEST(Simpler, the_boldest_step_keeps_the_relevant_elements_alone) {
  Case c = parse_case("op=quantize block=1x32 rows=70 cols=90 data=normal seed=5 experts=0,3,70");
  Finding f;
  f.relevant = {{10, 20, 0x3F80}, {10, 21, 0x4000}};
  const std::vector<Case> simpler = simpler_cases(c, f);
  const bool there = std::any_of(simpler.begin(), simpler.end(), [](const Case& n) {
    return n.rows == 1 && n.cols == 2 && n.data == Data::zeros &&
           n.plants == std::vector<Plant>{{0, 0, 0x3F80}, {0, 1, 0x4000}};
  });
  EXPECT_TRUE(there);
  blocks_of(c.variant).block = {32, 1};
  const std::vector<Case> columns = simpler_cases(c, f);
  EXPECT_TRUE(std::any_of(columns.begin(), columns.end(), [](const Case& n) { return n.rows == 2 && n.cols == 1; }));
}

}  // namespace
}  // namespace mxcheck
