// Every law of quantization holds for the reference, and names what a candidate does that breaks it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "kernels/candidate.h"
#include "properties/operations/scaled_blocks/operation.h"
#include "tests/properties/spoilt_runner.h"

namespace mxcheck {
namespace {

using test::found;

Case case_of(const std::string& operation, const std::string& block, const std::string& rest) {
  return parse_case("op=" + operation + " format=e4m3 recipe=rceil block=" + block + " layout=" + rest);
}

// Changes output `output` of calls of this operation and block.
test::Spoil spoilt(const std::string& operation, BlockShape block, std::size_t output, std::byte (*change)(std::byte)) {
  return [=](const Call& call, int, Outcome& outcome) {
    const auto policy = read<mxcheck_policy>(call.policy);
    if (call.operation != operation || BlockShape{policy.block_rows, policy.block_cols} != block) return;
    for (std::byte& b : outcome.outputs[output]) b = change(b);
  };
}

// Changes an output of the second call alone: its input is the first one's, changed as the law says.
test::Spoil spoilt_second(std::size_t output, std::byte (*change)(std::byte)) {
  return [=](const Call&, int number, Outcome& outcome) {
    if (number != 2) return;
    for (std::byte& b : outcome.outputs[output]) b = change(b);
  };
}

std::byte next(std::byte b) { return b ^ std::byte{1}; }
std::byte at_least_120(std::byte b) { return std::max(b, std::byte{120}); }
std::byte without_sign(std::byte b) { return b & std::byte{0x7F}; }

struct Law {
  std::string name;
  std::string operation;
  std::string block;
  std::string data;
};
const std::vector<Law>& laws() {
  static const std::vector<Law> all{
      {"dequantize_inverts_quantize_on_representable_values", "quantize", "1x32", "codes"},
      {"column_cast_equals_row_cast_of_the_transpose", "quantize", "32x1", "boundaries"},
      {"dual_cast_equals_the_two_single_casts", "quantize_dual", "1x32", "specials"},
      {"scaling_by_a_power_of_two_shifts_scales_and_keeps_codes", "quantize", "1x32", "slots"},
      {"permuting_blocks_permutes_results", "quantize", "32x32", "normal"},
      {"the_sign_changes_codes_and_nothing_else", "quantize", "1x32", "bits"},
  };
  return all;
}

Case case_of(const Law& law, const std::string& layout = "compact") {
  return case_of(law.operation, law.block,
                 layout + " pad=7 x=bf16 rows=70 cols=131 stride=140 data=" + law.data + " seed=1");
}
Case case_of(const char* name) {
  for (const Law& law : laws()) {
    if (law.name == name) return case_of(law);
  }
  throw Error(ErrorKind::internal, "no such law");
}

TEST(QuantizeAlgebra, the_reference_keeps_every_law) {
  EXPECT_EQ(laws().size(), quantize_algebra_statements().size());
  for (const Law& law : laws()) {
    EXPECT_EQ(found(law.name, case_of(law)), "") << law.name;
    if (law.block != "32x32") {
      EXPECT_EQ(found(law.name, case_of(law, "tcgen05")), "") << law.name;
    }
    Case empty = case_of(law);
    empty.rows = 0;
    const std::string of_nothing = found(law.name, empty);
    EXPECT_TRUE(of_nothing.empty() || of_nothing == "nothing") << law.name << ": " << of_nothing;
  }
}

TEST(QuantizeAlgebra, a_round_trip_that_ends_elsewhere_is_found) {
  const char* law = "dequantize_inverts_quantize_on_representable_values";
  const char* words = "x is exactly representable, and dequantize(quantize(x)) is not x";
  EXPECT_EQ(found(law, case_of(law), spoilt("quantize", {1, 32}, 0, next)), words);
  EXPECT_EQ(found(law, case_of(law), spoilt("quantize", {1, 32}, 1, next)), words);
  EXPECT_EQ(found(law, case_of(law), spoilt("dequantize", {1, 32}, 0, next)), words);
}

TEST(QuantizeAlgebra, columns_of_another_cast_are_found) {
  const char* law = "column_cast_equals_row_cast_of_the_transpose";
  EXPECT_EQ(found(law, case_of(law), spoilt("quantize", {32, 1}, 0, next)),
            "column codes are not the row codes of the transpose");
  EXPECT_EQ(found(law, case_of(law), spoilt("quantize", {1, 32}, 1, next)),
            "column scales are not the row scales of the transpose");
}

TEST(QuantizeAlgebra, a_dual_cast_with_one_side_wrong_is_found) {
  const char* law = "dual_cast_equals_the_two_single_casts";
  const Case c = case_of(law);
  for (std::size_t output = 0; output < 4; ++output) {
    EXPECT_NE(found(law, c, spoilt("quantize_dual", {1, 32}, output, next)).find(" differ from the single cast's"),
              std::string::npos)
        << output;
  }
  EXPECT_NE(found(law, c, spoilt("quantize", {32, 1}, 1, next)), "");
}

// Seed 1 is a shift by -7.
TEST(QuantizeAlgebra, a_scale_with_a_least_byte_does_not_shift) {
  const char* law = "scaling_by_a_power_of_two_shifts_scales_and_keeps_codes";
  const Case c = case_of(law);
  EXPECT_EQ(found(law, c, spoilt("quantize", {1, 32}, 1, at_least_120)),
            "scales of x * 2^-7 are not those of x plus -7");
  EXPECT_EQ(found(law, c, spoilt_second(0, next)), "codes of x * 2^-7 are not those of x");
  EXPECT_EQ(found(law, parse_case("op=quantize format=e4m3 recipe=rceil block=1x32 layout=compact pad=0 x=bf16 rows=2 "
                                  "cols=40 data=specials seed=1")),
            "nothing");  // infinities do not shift
}

TEST(QuantizeAlgebra, a_block_that_depends_on_its_place_is_found) {
  const char* law = "permuting_blocks_permutes_results";
  const auto first_of = [](std::size_t output) -> test::Spoil {
    return [=](const Call&, int, Outcome& outcome) { outcome.outputs[output][0] ^= std::byte{1}; };
  };
  EXPECT_EQ(found(law, case_of(law), first_of(0)), "blocks that moved got other codes");
  EXPECT_EQ(found(law, case_of(law), first_of(1)), "blocks that moved got other scales");
}

TEST(QuantizeAlgebra, a_lost_sign_is_found) {
  const char* law = "the_sign_changes_codes_and_nothing_else";
  EXPECT_EQ(found(law, case_of(law), spoilt("quantize", {1, 32}, 0, without_sign)),
            "codes of -x are not those of x with the sign turned");
  EXPECT_EQ(found(law, case_of(law), spoilt_second(1, next)), "scales of -x are not those of x");
}

Case case_of(const char* law, const std::string& recipe, Format format, const std::string& block) {
  Case c = case_of(law);
  blocks_of(c.variant).recipe = recipe, blocks_of(c.variant).format = format;
  blocks_of(c.variant).block = block_shape_named(block);
  c.rows = 33, c.cols = 190, c.stride = 0;
  return c;
}

// The recipes whose scale follows the amax alone; NaN of formats without NaN is their largest value, whatever its sign.
constexpr const char* kFollowAmax[] = {"rceil",   "floor",         "ceil",         "ocp",          "te",
                                       "torchao", "torchao_floor", "torchao_ceil", "cutlass_host", "cutlass_device"};

TEST(QuantizeAlgebra, the_sign_turns_in_every_format_and_a_lost_one_is_found) {
  const char* law = "the_sign_changes_codes_and_nothing_else";
  for (const char* recipe : kFollowAmax) {
    for (const Format format : {Format::e4m3, Format::e5m2, Format::e2m1, Format::e2m3, Format::e3m2}) {
      for (const Data data : {Data::bits, Data::specials}) {
        Case c = case_of(law, recipe, format, "1x32");
        c.data = data;
        EXPECT_EQ(found(law, c), "") << to_text(c);
        const auto sign = static_cast<std::byte>(1U << (spec(format).bits - 1));
        const auto without = [sign](const Call&, int, Outcome& outcome) {
          for (std::byte& b : outcome.outputs[0]) b &= ~sign;
        };
        EXPECT_NE(found(law, c, without), "") << to_text(c);
        // A NaN that takes the sign of what it replaces.
        const auto turned = [sign](const Call&, int number, Outcome& outcome) {
          if (number == 2) std::fill(outcome.outputs[0].begin(), outcome.outputs[0].end(), sign);
        };
        EXPECT_NE(found(law, c, turned), "") << to_text(c);
      }
    }
  }
}

TEST(QuantizeAlgebra, codes_come_back_in_every_format_and_recipe_and_a_wrong_bit_is_found) {
  const char* law = "dequantize_inverts_quantize_on_representable_values";
  for (const char* recipe : kFollowAmax) {
    for (const Format format : kElementFormats) {
      for (const char* block : {"1x32", "32x1", "128x128"}) {
        const Case c = case_of(law, recipe, format, block);
        EXPECT_EQ(found(law, c), "") << to_text(c);
        const BlockShape shape = blocks_of(c.variant).block;
        EXPECT_NE(found(law, c, spoilt("quantize", shape, 0, next)), "") << to_text(c);
        EXPECT_NE(found(law, c, spoilt("quantize", shape, 1, next)), "") << to_text(c);
      }
    }
  }
}

// 384 is the only code above 256 here: `ceil` takes 2^1, under which odd multiples of 2^-9 are no codes, and all others
// are.
TEST(QuantizeAlgebra, what_ceil_cannot_hold_is_not_claimed_and_all_else_is) {
  const char* law = "dequantize_inverts_quantize_on_representable_values";
  const auto of = [](const char* plants) {
    return parse_case(
        "op=quantize format=e4m3 recipe=ceil block=1x32 layout=compact pad=0 x=fp32 rows=1 cols=3 "
        "data=zeros seed=1 plant=" +
        std::string(plants));
  };
  const auto second_is = [](std::uint8_t code) -> test::Spoil {
    return [code](const Call& call, int, Outcome& outcome) {
      if (call.operation == "quantize") outcome.outputs[0][1] = std::byte{code};
    };
  };
  EXPECT_EQ(found(law, of("0,0:43c00000 plant=0,1:3b000000")), "");                   // 2^-9, half a step
  EXPECT_EQ(found(law, of("0,0:43c00000 plant=0,1:3b000000"), second_is(0x01)), "");  // either neighbour
  EXPECT_EQ(found(law, of("0,0:43c00000 plant=0,1:3b800000")), "");                   // 2^-8, a step
  EXPECT_NE(found(law, of("0,0:43c00000 plant=0,1:3b800000"), second_is(0x00)), "");
  EXPECT_NE(found(law, of("0,0:43800000 plant=0,1:3b000000"), second_is(0x00)), "");  // 256 is a power of two
}

TEST(QuantizeAlgebra, laws_are_about_the_variants_that_they_hold_for) {
  const auto applies = [](const char* law, const Variant& v, const std::vector<Variant>& all) {
    return test::statement_named(law).applies(v, all);
  };
  const Variant row = case_of("quantize", "1x32", "compact pad=0 x=bf16 rows=1 cols=1 data=zeros seed=0").variant;
  Variant column = row;
  blocks_of(column).block = {32, 1};
  Variant dual = row;
  dual.operation = "quantize_dual";
  Variant back = row;
  back.operation = "dequantize";
  const char* transposes = "column_cast_equals_row_cast_of_the_transpose";
  EXPECT_TRUE(applies(transposes, column, {row, column}));
  EXPECT_FALSE(applies(transposes, column, {column}));
  EXPECT_FALSE(applies(transposes, row, {row, column}));
  const char* both = "dual_cast_equals_the_two_single_casts";
  EXPECT_TRUE(applies(both, dual, {row, column, dual}));
  EXPECT_FALSE(applies(both, dual, {row, dual}));
  const char* inverts = "dequantize_inverts_quantize_on_representable_values";
  EXPECT_TRUE(applies(inverts, row, {row, back}));
  EXPECT_FALSE(applies(inverts, row, {row}));
  EXPECT_TRUE(applies("permuting_blocks_permutes_results", row, {row}));
  // A least amax or quotient, a scale 0 and a lost -0 do not scale with x.
  for (const char* recipe : {"dsv3", "thunderkittens", "triton_down", "microxcaling_cuda"}) {
    Variant clamped = row;
    blocks_of(clamped).recipe = recipe;
    EXPECT_FALSE(applies("permuting_blocks_permutes_results", clamped, {clamped})) << recipe;
  }
  Variant two_complement = row;
  blocks_of(two_complement).format = Format::mxint8;
  EXPECT_FALSE(applies("the_sign_changes_codes_and_nothing_else", two_complement, {two_complement}));
}

}  // namespace
}  // namespace mxcheck
