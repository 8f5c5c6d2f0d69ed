// dequantize_nvfp4: what its cases hold, the values that follow, and whether they tell slips apart.

#include "properties/operations/nvfp4/dequantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <bitset>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "kernels/candidate.h"
#include "numerics/bytes.h"
#include "numerics/format/codec.h"
#include "numerics/format/packing.h"
#include "properties/core/check.h"
#include "properties/operations/nvfp4/problem.h"
#include "properties/operations/scaled_blocks/geometry.h"
#include "tests/properties/spoilt_runner.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

Case values_case(const std::string& recipe, Format type, std::uint64_t seed, const std::string& layout = "compact") {
  return parse_case("op=dequantize_nvfp4 format=e2m1 recipe=" + recipe + " block=1x16 layout=" + layout +
                    " x=" + std::string(spec(type).name) + " rows=16 cols=256 data=slots seed=" + std::to_string(seed));
}

std::vector<Case> edge_cases(const std::string& recipe, Format type) {
  const Case c = values_case(recipe, type, 0);
  for (const Statement& s : dequantize_nvfp4_statements()) {
    if (s.corners) return s.corners(c.variant, Suite::quick);
  }
  return {};
}

TEST(DequantizeNvfp4, a_value_is_code_times_block_scale_under_the_scale_of_the_tensor) {
  struct Example {
    const char* recipe;
    float stored;
    std::vector<float> values;  // of the codes 3 (1.5), 15 (-6), 8 (-0), 1 (0.5) under 0x3A (1.25)
  };
  for (const Example& e :
       {Example{"nvfp4", 4, {7.5, -30, -0.0F, 2.5}}, Example{"nvfp4_vllm", 4, {0.46875, -1.875, -0.0F, 0.15625}},
        Example{"nvfp4_te", 2688 * 4, {7.5, -30, -0.0F, 2.5}}, Example{"nvfp4_46", 1536 * 4, {7.5, -30, -0.0F, 2.5}}}) {
    Case c = values_case(e.recipe, Format::fp32, 1);
    c.rows = 1, c.cols = 4, c.data = Data::zeros;
    const DequantizeNvfp4Problem p(c, {0xF3, 0x18}, {0x3A}, e.stored);
    const std::vector<float> values = values_in<float>(p.answer()[0].bytes);
    ASSERT_EQ(values.size(), 4U);
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(e.values[i])) << e.recipe << i;
  }
}

TEST(DequantizeNvfp4, scale_bytes_have_signs_and_two_of_them_are_nan) {
  Case c = values_case("nvfp4", Format::fp32, 1);
  c.rows = 1, c.cols = 64, c.data = Data::zeros;
  std::vector<std::uint8_t> codes(32, 0x20);  // 0, then 1
  const DequantizeNvfp4Problem p(c, codes, {0x7F, 0xFF, 0xB8, 0x80}, 1);
  const std::vector<float> values = values_in<float>(p.answer()[0].bytes);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_TRUE(std::isnan(values[i])) << i;
  EXPECT_EQ(values[33], -1);
  for (const std::size_t i : {32U, 48U, 49U}) EXPECT_TRUE(values[i] == 0 && std::signbit(values[i])) << i;
}

TEST(DequantizeNvfp4, what_follows_the_last_code_of_an_odd_row_counts_for_nothing) {
  Case c = values_case("nvfp4_te", Format::bf16, 6);
  c.rows = 40, c.cols = 17, c.data = Data::normal;
  const DequantizeNvfp4Problem p(c);
  std::vector<std::uint8_t> other = p.codes;
  bool is_used = false;
  for (std::size_t row = 0; row < 40; ++row) is_used |= other[row * 9 + 8] > 0xF, other[row * 9 + 8] ^= 0xF0;
  EXPECT_TRUE(is_used);
  EXPECT_EQ(DequantizeNvfp4Problem(c, other, p.scales, p.tensor_scale[0]).answer()[0].bytes, p.answer()[0].bytes);
}

// A problem that is read from a call equals the one that made it: a record can be replayed.
TEST(DequantizeNvfp4, a_problem_of_a_call_has_the_same_answer) {
  for (const Recipe& recipe : two_level_recipes()) {
    for (const std::string layout : {"compact", "tcgen05"}) {
      Case c = values_case(recipe.name, Format::bf16, 78, layout);
      c.rows = 150, c.cols = 131, c.data = Data::bits, c.experts = {0, 40, 40, 150};
      const DequantizeNvfp4Problem p(c);
      const Call call = p.call();
      ASSERT_EQ(call.inputs.size(), 4U);
      const DequantizeNvfp4Problem again(call);
      EXPECT_EQ(again.tensor_scale, p.tensor_scale);
      EXPECT_EQ(again.answer()[0].bytes, p.answer()[0].bytes) << recipe.name;
      EXPECT_EQ(p.answer()[0].bytes.size(), 150U * 131U * 2U);
    }
  }
}

TEST(DequantizeNvfp4, edge_cases_pair_every_code_with_every_scale_byte) {
  for (const BlockShape block : {BlockShape{1, 16}, BlockShape{16, 16}}) {
    Case like = values_case("nvfp4", Format::fp32, 0);
    blocks_of(like.variant).block = block;
    const Statement equality = dequantize_nvfp4_statements().front();
    int whole = 0;
    for (const Case& c : equality.corners(like.variant, Suite::quick)) {
      const DequantizeNvfp4Problem p(c);
      const std::vector<std::uint8_t> codes = unpacked_rows(std::as_bytes(std::span(p.codes)), c.cols);
      const std::vector<std::uint8_t> scales = p.compact_scales();
      const std::vector<std::int64_t> index = p.scale_index();
      std::bitset<4096> seen;
      for (std::size_t i = 0; i < codes.size(); ++i)
        seen.set(scales[static_cast<std::size_t>(index[i])] * std::size_t{16} + codes[i]);
      whole += seen.all() ? 1 : 0;
    }
    EXPECT_EQ(whole, 37) << to_text(block);
  }
}

// Each named slip changes a value of an edge case: none can pass for the right thing.
TEST(DequantizeNvfp4, edge_cases_tell_every_slip_from_the_reference) {
  for (const char* recipe : {"nvfp4", "nvfp4_vllm", "nvfp4_te", "nvfp4_46"}) {
    for (const Format type : {Format::fp32, Format::bf16}) {
      std::set<std::string> told, named;
      for (const Case& c : edge_cases(recipe, type)) {
        if (c.elements() == 0) continue;
        const DequantizeNvfp4Problem p(c);
        const Bytes right = p.answer()[0].bytes;
        for (const Definition& row : p.definitions({})) {
          named.insert(row.name);
          if (!same_elements(p.outputs[0], right, row.bytes(0))) told.insert(row.name);
        }
      }
      std::vector<std::string> never;
      std::set_difference(named.begin(), named.end(), told.begin(), told.end(), std::back_inserter(never));
      EXPECT_TRUE(never.empty()) << recipe << " " << spec(type).name << ": " << never.size() << ", " << never[0];
      EXPECT_GT(named.size(), 25U);
    }
  }
}

TEST(DequantizeNvfp4, edge_cases_have_values_at_both_ends_of_fp32) {
  for (const char* recipe : {"nvfp4", "nvfp4_vllm", "nvfp4_46"}) {
    int subnormal = 0, infinite = 0, lost = 0;
    for (const Case& c : edge_cases(recipe, Format::fp32)) {
      const DequantizeNvfp4Problem p(c);
      const std::vector<std::uint8_t> codes = unpacked_rows(std::as_bytes(std::span(p.codes)), c.cols);
      const std::vector<float> values = values_in<float>(p.answer()[0].bytes);
      for (std::size_t i = 0; i < values.size(); ++i) {
        subnormal += std::fpclassify(values[i]) == FP_SUBNORMAL ? 1 : 0;
        infinite += std::isinf(values[i]) ? 1 : 0;
        lost += values[i] == 0 && codes[i] % 8 != 0 ? 1 : 0;
      }
    }
    EXPECT_GT(subnormal, 100) << recipe;
    EXPECT_GT(infinite, 50) << recipe;
    EXPECT_GT(lost, 100) << recipe;
  }
}

TEST(DequantizeNvfp4, a_value_is_explained_by_its_code_its_scale_and_the_tensors) {
  Case c = values_case("nvfp4_te", Format::fp32, 6, "tcgen05");
  c.data = Data::normal;
  const DequantizeNvfp4Problem p(c);
  const ExpectedTensor expected = p.answer()[0];
  const std::vector<float> values = values_in<float>(expected.bytes);
  std::size_t at = 300;
  while (std::isnan(values[at]) || values[at] == 0) ++at;
  std::vector<std::byte> observed = expected.bytes;
  observed[4 * at] ^= std::byte{1};
  Finding f;
  f.difference = compare(expected.info, expected.bytes, observed, 0xA5);
  ASSERT_TRUE(f.difference);
  p.explain(0, f);
  std::string text;
  for (const std::string& line : f.element) text += line + "\n";
  for (const char* part : {"input     code(1, ", "nibble of its byte", "place     element (0, ", "scale     0x",
                           "tensor    scale (amax) 0x", "expected  0x", "; 1 step away"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  ASSERT_EQ(f.relevant.size(), 1U);  // a code and its scale byte: the value, with the same scale of the tensor
  Case again = p.c;
  again.data = Data::zeros, again.plants = f.relevant;
  EXPECT_EQ(values_in<float>(DequantizeNvfp4Problem(again).answer()[0].bytes)[at], values[at]);
}

TEST(DequantizeNvfp4, values_that_do_not_scale_with_the_scale_of_the_tensor_break_the_law) {
  const char* law = "nvfp4_values_scale_with_the_tensor_scale";
  for (const char* recipe : {"nvfp4", "nvfp4_vllm", "nvfp4_te"}) {
    for (const Format type : {Format::fp32, Format::bf16}) {
      int said = 0;
      for (std::uint64_t seed = 1; seed < 9; ++seed) {
        const Case c = values_case(recipe, type, seed);
        const std::string right = test::found(law, c);
        EXPECT_TRUE(right.empty() || right == "nothing") << right;
        if (!right.empty()) continue;
        ++said;
        EXPECT_NE(test::found(law, c, test::bit_of(0, 2)).find("times those under it"), std::string::npos);
      }
      EXPECT_GE(said, 3) << recipe;
    }
  }
}

}  // namespace
}  // namespace mxcheck
