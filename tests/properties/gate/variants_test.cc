#include "properties/gate/variants.h"

#include <gtest/gtest.h>

#include <map>

#include "properties/core/limits.h"
#include "tests/properties/drawn.h"
#include "tests/properties/toy.h"

namespace mxcheck {
namespace {

using test::expect_well_formed;
using test::statement_named;
using test::three_variants;

TEST(Variants, draws_well_formed_cases_of_many_shapes) {
  const test::Toy toy("");
  const CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, std::chrono::seconds(5));
  std::map<std::string, int> classes;
  Draw words(1);
  for (int i = 0; i < 3000; ++i) {
    const Case c = draw_case(statement_named("quantize_equals_the_reference"), three_variants(), process, words);
    expect_well_formed(c);
    EXPECT_LE(c.elements(), 50'000);
    for (const std::string& name : classes_of(c)) ++classes[name];
    for (std::int64_t extent : {31, 32, 33, 128}) classes["rows " + std::to_string(extent)] += c.rows == extent ? 1 : 0;
    for (std::int64_t extent : {31, 32, 33, 128}) classes["cols " + std::to_string(extent)] += c.cols == extent ? 1 : 0;
  }
  for (const auto& [name, count] : classes) {
    EXPECT_GE(count, 30) << name;
  }
  for (const char* name : {"experts", "experts without rows", "row stride", "shape empty", "shape with a cut block",
                           "shape one row or column", "shape of whole blocks"}) {
    EXPECT_GE(classes[name], 90) << name;  // 3 %
  }
}

TEST(Variants, stays_within_the_candidates_multiples_and_limits) {
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
    EXPECT_GT(nonempty, 900);
  }
}

TEST(Variants, multiples_larger_than_the_usual_case_end_the_draw) {
  const test::Toy toy("huge_multiples");
  const CandidateProcess process(MXCHECK_TOOL, MXCHECK_TOY, std::chrono::seconds(5));
  Draw words(3);
  for (int i = 0; i < 100; ++i)
    (void)draw_case(statement_named("quantize_equals_the_reference"), three_variants(), process, words);
}

}  // namespace
}  // namespace mxcheck
