// Where the groups of random cases begin along depth.

#include <gtest/gtest.h>

#include "properties/core/limits.h"
#include "properties/operations/matmul/operation.h"
#include "reference/common/matrix.h"
#include "tests/properties/drawn.h"
#include "tests/properties/limits_only.h"

namespace mxcheck {
namespace {

// Scales of a group that begins within a block of 128 are its own. Libraries that load 16 bytes at a time offer such
// groups at multiples of 16 alone, which ends drawn at random are too seldom: a library that took the scales of the
// block where the group's columns lie held every statement.
TEST(MatmulDomain, groups_along_depth_begin_within_blocks_where_16_bytes_do) {
  const test::LimitsOnly process({"matmul:sm90_fp8+promote128", "sm90_fp8+promote128"});
  const auto variants = askable_matmuls("matmul:sm90_fp8+promote128");
  int within = 0, apart = 0, anywhere = 0, whole = 0;
  Draw draw(1);
  for (int i = 0; i < 4000; ++i) {
    const Case c = test::draw_case(test::statement_named("matmul_equals_its_contract"), variants, process, draw);
    if (matmul_of(c.variant).groups != MXCHECK_DEPTH || matmul_case(c).depth == 0) continue;
    EXPECT_NO_THROW(check_offsets(c.experts, matmul_case(c).depth)) << to_text(c);
    EXPECT_EQ(parse_case(to_text(c)), c);
    // c.experts[e] is where group e begins; an empty one has no scales.
    bool is_whole = true, is_16 = true, is_apart = false;
    std::int64_t blocks = 0;
    for (std::size_t e = 0; e + 1 < c.experts.size(); ++e) {
      const std::int64_t first = c.experts[e], depth = c.experts[e + 1] - first;
      if (depth == 0) continue;
      is_whole = is_whole && first % 128 == 0;
      is_16 = is_16 && first % 16 == 0;
      is_apart = is_apart || first / 128 != blocks;  // the scales are not those of the first column's block
      blocks += (depth + 127) / 128;
    }
    whole += is_whole ? 1 : 0, anywhere += is_16 ? 0 : 1;
    within += is_16 && !is_whole ? 1 : 0, apart += is_16 && is_apart ? 1 : 0;
  }
  for (const int count : {within, apart, anywhere, whole}) EXPECT_GE(count, 80);  // 2 % of all
}

}  // namespace
}  // namespace mxcheck
