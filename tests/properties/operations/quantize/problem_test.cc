#include "properties/operations/operations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "kernels/candidate.h"
#include "reference/quantize/scale_layout.h"

namespace mxcheck {
namespace {

constexpr BlockShape kShapes[] = {{1, 32}, {32, 1}, {32, 32}, {1, 128}, {128, 1}, {128, 128}, {1, 0}};

Case make_case(const char* operation, BlockShape block, int layout, std::vector<std::int64_t> experts = {}) {
  Case c;
  c.variant.operation = operation, c.variant.block = block, c.variant.layout = layout;
  c.rows = 150, c.cols = 131, c.data = Data::normal, c.seed = 3, c.experts = std::move(experts), c.pad = 90;
  return c;
}

TEST(Operations, scale_geometry_is_the_references) {
  for (BlockShape block : kShapes) {
    for (const std::vector<std::int64_t>& experts :
         {std::vector<std::int64_t>{}, {0, 150}, {0, 0, 31, 64, 150}, {0, 1, 2, 150, 150}}) {
      const Case c = make_case("quantize", block, 0, experts);
      const Quantized q = quantize(expand(c).view, Format::e4m3, block, recipe_named("rceil"), experts);
      const ScaleGeometry g = scale_geometry(c, block);
      EXPECT_EQ(g.rows, q.scale_rows) << to_text(block);
      EXPECT_EQ(g.cols, q.scale_cols);
      EXPECT_EQ(g.count(), static_cast<std::int64_t>(q.scales.size()));
      EXPECT_EQ(g.rows_of_expert, count_scale_rows_by_expert(q, experts));
      if (block.rows != 1 && block.cols != 1) {
        EXPECT_EQ(g.tiled_bytes, 0);
        continue;
      }
      const Case tiled = make_case("quantize", block, 1, experts);
      const std::vector<std::uint8_t> tiles = in_layout(tiled, g, q.scales);
      EXPECT_EQ(scale_bytes(g, MXCHECK_TCGEN05), static_cast<std::int64_t>(tiles.size())) << to_text(block);
      EXPECT_EQ(scale_bytes(g, MXCHECK_COMPACT), g.count());
      EXPECT_EQ(to_compact(tiled, g, tiles), q.scales);
      EXPECT_EQ(in_layout(c, g, q.scales), q.scales);
    }
  }
}

TEST(Operations, empty_shapes_have_empty_scales) {
  for (BlockShape block : kShapes) {
    Case c = make_case("quantize", block, 0);
    c.rows = 0;
    EXPECT_EQ(scale_geometry(c, block).count(), 0);
    c.rows = 3, c.cols = 0;
    EXPECT_EQ(scale_geometry(c, block).count(), 0);
  }
}

TEST(Operations, expected_tensors_have_the_sizes_that_the_call_hands_over) {
  for (const char* operation : {"quantize", "quantize_dual", "dequantize", "scale_layout"}) {
    for (int layout : {0, 1}) {
      for (const std::vector<std::int64_t>& experts : {std::vector<std::int64_t>{}, {0, 40, 150}}) {
        const Case c = make_case(operation, {1, 32}, layout, experts);
        const Problem p = make_problem(c);
        const Call call = p.call();
        const std::vector<ExpectedTensor> expected = reference_answer(p);
        ASSERT_EQ(call.outputs.size(), expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i) {
          EXPECT_EQ(call.outputs[i].bytes, expected[i].bytes.size()) << operation << ' ' << i;
          EXPECT_EQ(expected[i].info.name, p.outputs[i].name);
        }
        const std::size_t inputs = (c.variant.operation == "dequantize" ? 2U : 1U) + (experts.empty() ? 0U : 1U);
        EXPECT_EQ(call.inputs.size(), inputs) << operation;
        EXPECT_EQ(call.policy.rows, 150);
        EXPECT_EQ(call.policy.pad_byte, 90);
      }
    }
  }
}

TEST(Operations, a_strided_x_ends_with_its_last_element) {
  Case c = make_case("quantize", {1, 32}, 0);
  c.stride = 140;
  const Problem p = make_problem(c);
  EXPECT_EQ(p.call().inputs[0].bytes, 2U * (149U * 140U + 131U));
  EXPECT_EQ(p.call().inputs[0].row_stride, 140);
  c.stride = 0;
  const Problem dense = make_problem(c);
  EXPECT_EQ(dense.call().inputs[0].bytes, 2U * 150U * 131U);
  EXPECT_EQ(dense.call().inputs[0].row_stride, 0);
}

TEST(Operations, the_layout_change_of_the_reference_goes_there_and_back) {
  for (BlockShape block : {BlockShape{1, 32}, BlockShape{32, 1}}) {
    const Problem to_tiles = make_problem(make_case("scale_layout", block, MXCHECK_TCGEN05, {0, 40, 150}));
    Problem back = make_problem(make_case("scale_layout", block, MXCHECK_COMPACT, {0, 40, 150}));
    const std::vector<ExpectedTensor> tiles = reference_answer(to_tiles);
    back.scales.resize(tiles[0].bytes.size());
    std::memcpy(back.scales.data(), tiles[0].bytes.data(), back.scales.size());
    const std::vector<ExpectedTensor> compact = reference_answer(back);
    ASSERT_EQ(compact[0].bytes.size(), to_tiles.scales.size());
    EXPECT_EQ(std::memcmp(compact[0].bytes.data(), to_tiles.scales.data(), to_tiles.scales.size()), 0);
  }
}

TEST(Operations, the_explanation_isolates_the_culprits) {
  const Case c = make_case("quantize", {1, 32}, 0);
  const Problem p = make_problem(c);
  const std::vector<ExpectedTensor> expected = reference_answer(p);
  std::vector<std::byte> observed = expected[0].bytes;
  observed[131 * 2 + 70] ^= std::byte{1};
  Finding f;
  f.difference = compare(expected[0].info, expected[0].bytes, observed, 0xA5);
  ASSERT_TRUE(f.difference);
  explain(p, 0, f);
  std::string text;
  for (const std::string& line : f.element) text += line + "\n";
  for (const char* part : {"input     x(2, 70) = 0x", "place     element (0, 6) of block (2, 2)",
                           "block     rows 2 to 2, columns 64 to 95", "amax      0x", "scale     0x",
                           "scaled    x / 2^", "expected  0x", "observed  0x", "; 1 step away"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  ASSERT_EQ(f.culprits.size(), 2U);
  EXPECT_EQ(f.culprits[0].row, 2);
  EXPECT_EQ(f.culprits[0].col, 70);
}

TEST(Operations, a_plant_of_dequantize_is_a_code_and_the_scale_byte_of_its_block) {
  for (const char* layout : {"compact", "tcgen05"}) {
    const Case c = parse_case(std::string("op=dequantize block=32x1 layout=") + layout +
                              " x=bf16 rows=70 cols=3 experts=0,33,70 data=zeros seed=1 plant=69,2:fe01");
    const Problem p = make_problem(c);
    const ScaleGeometry g = scale_geometry(c, c.variant.block);
    const std::vector<std::uint8_t> scales = to_compact(c, g, p.scales);
    ASSERT_EQ(scales.size(), 12U);  // experts of 33 and 37 rows: two rows of blocks each
    for (std::size_t i = 0; i < scales.size(); ++i) EXPECT_EQ(scales[i], i == 11 ? 0xFE : 127) << i;
    for (std::size_t i = 0; i < p.codes.size(); ++i) EXPECT_EQ(p.codes[i], i == 69 * 3 + 2 ? 0x01 : 0) << i;
  }
}

TEST(Operations, gathered_rows_are_the_source_rows_that_the_index_names) {
  for (const std::int64_t source_rows : {1, 75, 150, 157, 300}) {
    Case c = make_case("quantize", {32, 1}, 0, {0, 33, 150});
    c.stride = 140, c.gather = source_rows;
    const Problem p = make_problem(c);
    const Call call = p.call();
    ASSERT_EQ(call.inputs.size(), 3U);
    EXPECT_EQ(call.inputs[0].shape, (std::vector<std::int64_t>{source_rows, 131}));
    EXPECT_TRUE(call.inputs[2].is_index);
    ASSERT_EQ(p.index.size(), 150U);
    std::vector<bool> named(static_cast<std::size_t>(source_rows));
    for (std::size_t i = 0; i < p.index.size(); ++i) {
      const auto from = static_cast<std::size_t>(p.index[i]);
      ASSERT_LT(from, named.size());
      named[from] = true;
      EXPECT_EQ(std::memcmp(call.inputs[0].data + from * 280, p.input.bytes.data() + i * 280, 262), 0);
    }
    for (std::size_t row = 0; row < named.size(); ++row) {
      if (named[row]) continue;
      EXPECT_EQ(std::to_integer<int>(call.inputs[0].data[row * 280]), 0xFF);  // NaN
    }
    const auto used = std::count(named.begin(), named.end(), true);
    EXPECT_EQ(used, std::min<std::int64_t>(150, source_rows));  // fewer source rows than rows: all of them, some twice
  }
}

TEST(Operations, an_x_that_is_given_is_gathered_without_repeats) {
  Case c = make_case("quantize", {1, 32}, 0);
  c.gather = 2;
  const Input x = expand(c);
  const Problem p = make_problem(c, x);
  EXPECT_EQ(p.input.bytes, x.bytes);
  EXPECT_EQ(p.c.gather, c.rows);
}

TEST(Operations, a_cast_has_codes_and_no_scales) {
  const Case c = parse_case(
      "op=cast format=e4m3 x=fp32 rows=1 cols=5 data=zeros seed=1 plant=0,0:43e00000 "
      "plant=0,1:7f800000 plant=0,2:ff7fffff plant=0,3:ffc00000 plant=0,4:3a800001");
  const std::vector<ExpectedTensor> answer = reference_answer(make_problem(c));
  ASSERT_EQ(answer.size(), 1U);
  constexpr int kCodes[] = {0x7E, 0x7E, 0xFE, 0x7F, 0x01};  // 448, inf and -FLT_MAX saturate, NaN, above half of 2^-9
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(std::to_integer<int>(answer[0].bytes[i]), kCodes[i]) << i;
}

}  // namespace
}  // namespace mxcheck
