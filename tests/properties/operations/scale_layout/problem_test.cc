// The change of layout, both ways, and what a person reads of a difference.

#include "properties/operations/scale_layout/problem.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/candidate.h"
#include "numerics/bytes.h"
#include "properties/operations/scaled_blocks/expand.h"
#include "properties/operations/scaled_blocks/geometry.h"
#include "tests/properties/operations/scaled_blocks/some_case.h"

namespace mxcheck {
namespace {

using test::some_case;

TEST(ScaleLayoutProblems, the_layout_change_of_the_reference_goes_there_and_back) {
  for (BlockShape block : {BlockShape{1, 32}, BlockShape{32, 1}}) {
    const ScaleLayoutProblem to_tiles(some_case("scale_layout", block, MXCHECK_TCGEN05, {0, 40, 150}));
    const std::vector<ExpectedTensor> tiles = to_tiles.answer();
    const ScaleLayoutProblem back(some_case("scale_layout", block, MXCHECK_COMPACT, {0, 40, 150}),
                                  values_in<std::uint8_t>(tiles[0].bytes));
    const std::vector<ExpectedTensor> compact = back.answer();
    EXPECT_EQ(values_in<std::uint8_t>(compact[0].bytes), to_tiles.scales);
  }
}

TEST(ScaleLayoutProblems, the_input_is_in_the_layout_that_the_policy_does_not_name) {
  const ScaleLayoutProblem to_tiles(some_case("scale_layout", {1, 32}, MXCHECK_TCGEN05));
  EXPECT_EQ(to_tiles.call().inputs[0].shape, (std::vector<std::int64_t>{150, 5}));
  EXPECT_EQ(to_tiles.call().outputs[0].shape, (std::vector<std::int64_t>{2048}));
  const Case c = some_case("scale_layout", {1, 32}, MXCHECK_COMPACT);
  const ScaleLayoutProblem to_rows(c);
  EXPECT_EQ(to_rows.call().inputs[0].shape, (std::vector<std::int64_t>{2048}));
  EXPECT_EQ(to_rows.call().outputs[0].shape, (std::vector<std::int64_t>{150, 5}));
  EXPECT_EQ(to_compact(scale_geometry(c, {1, 32}), to_rows.scales, MXCHECK_TCGEN05), expand_scale_bytes(c, 750));
}

TEST(ScaleLayoutProblems, a_byte_of_the_tiles_is_explained_by_its_block) {
  const ScaleLayoutProblem p(some_case("scale_layout", {1, 32}, MXCHECK_TCGEN05));
  const ExpectedTensor expected = p.answer()[0];
  std::vector<std::byte> observed = expected.bytes;
  observed[2 * 16 + 3] ^= std::byte{1};
  Finding f;
  f.difference = compare(expected.info, expected.bytes, observed, 0xA5);
  ASSERT_TRUE(f.difference);
  p.explain(0, f);
  ASSERT_EQ(f.element.size(), 3U);
  EXPECT_EQ(f.element[0], "layout    byte 35 of the tcgen05 tiles is the scale of block (2, 3)");
  EXPECT_TRUE(f.element[1].starts_with("expected  0x")) << f.element[1];
}

TEST(ScaleLayoutProblems, what_is_saved_are_the_scales_that_went_in) {
  const ScaleLayoutProblem p(some_case("scale_layout", {1, 32}, MXCHECK_COMPACT));
  const std::vector<SavedTensor> saved = p.saved();
  ASSERT_EQ(saved.size(), 1U);
  EXPECT_TRUE(saved[0].info.is_vector);
  EXPECT_EQ(values_in<std::uint8_t>(saved[0].bytes), p.scales);
}

}  // namespace
}  // namespace mxcheck
