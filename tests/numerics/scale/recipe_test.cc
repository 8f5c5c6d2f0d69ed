#include "numerics/scale/recipe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <vector>

#include "numerics/error.h"
#include "tests/numerics/scale/peer_table.h"

namespace mxcheck {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

float as_float(std::uint32_t bits) { return std::bit_cast<float>(bits); }

BlockScale scale_of(const Recipe& recipe, const std::vector<float>& block) {
  BlockAmax amax;
  for (const float x : block) {
    if (std::isnan(x))
      amax.has_nan = true;
    else
      amax.amax = std::max(amax.amax, std::fabs(x));
  }
  return block_scale(recipe, Format::e4m3, amax);
}

std::uint32_t code_in(const char* recipe, const std::vector<float>& block, float x) {
  const Recipe r = recipe_named(recipe);
  return encode_element(r, Format::e4m3, scale_of(r, block), x);
}

TEST(Recipe, every_implementation_gives_its_byte_for_every_amax_of_the_table) {
  for (const peers::Row& row : peers::kTable) {
    for (std::size_t column = 0; column < std::size(peers::kColumns); ++column) {
      if (row.bytes[column] == peers::kNone) continue;
      const Recipe recipe = recipe_named(peers::kColumns[column]);
      EXPECT_EQ(scale_byte_for_amax(recipe, Format::e4m3, as_float(row.amax)), row.bytes[column])
          << peers::kColumns[column] << " of 0x" << std::hex << row.amax;
    }
  }
}

TEST(Recipe, the_short_list_of_amax_tells_apart_every_two_recipes_that_differ) {
  const auto recipes = all_recipes();
  const auto same_class = [](const std::string& a, const std::string& b) {
    return std::any_of(std::begin(peers::kEqualBytes), std::end(peers::kEqualBytes), [&](const auto& members) {
      const auto has = [&](const std::string& name) {
        return std::find(members.begin(), members.end(), name) != members.end();
      };
      return has(a) && has(b);
    });
  };
  for (const Recipe& a : recipes) {
    for (const Recipe& b : recipes) {
      if (a.name >= b.name || a.rule == ScaleRule::fp32 || b.rule == ScaleRule::fp32) continue;
      const bool told_apart =
          std::any_of(std::begin(peers::kTellingAmax), std::end(peers::kTellingAmax), [&](auto bits) {
            return scale_byte_for_amax(a, Format::e4m3, as_float(bits)) !=
                   scale_byte_for_amax(b, Format::e4m3, as_float(bits));
          });
      EXPECT_EQ(told_apart, !same_class(a.name, b.name)) << a.name << " and " << b.name;
    }
  }
}

// The blocks {0, -0}, {Inf, -Inf, 1} and {NaN, 1}: the byte, and the codes of the elements in that order.
struct Specials {
  const char* recipe;
  std::uint8_t zero_byte, plus_zero, minus_zero;
  std::uint8_t inf_byte, plus_inf, minus_inf, one_beside_inf;
  std::uint8_t nan_byte, nan, one_beside_nan;
};

constexpr Specials kSpecials[] = {
    {"rceil", 0, 0x00, 0x80, 255, 0x7F, 0x7F, 0x7F, 255, 0x7F, 0x7F},
    {"floor", 0, 0x00, 0x80, 255, 0x7F, 0x7F, 0x7F, 255, 0x7F, 0x7F},
    {"ceil", 0, 0x00, 0x80, 255, 0x7F, 0x7F, 0x7F, 255, 0x7F, 0x7F},
    {"even", 0, 0x00, 0x80, 255, 0x7F, 0x7F, 0x7F, 255, 0x7F, 0x7F},
    {"ocp", 0, 0x00, 0x80, 255, 0x7F, 0x7F, 0x7F, 255, 0x7F, 0x7F},
    {"te", 0, 0x00, 0x80, 254, 0x7E, 0xFE, 0x00, 119, 0x7F, 0x78},
    {"te_ftz", 0, 0x00, 0x80, 254, 0x7E, 0xFE, 0x00, 119, 0x7F, 0x78},
    {"torchao", 0, 0x00, 0x80, 255, 0x7F, 0x7F, 0x7F, 255, 0x7F, 0x7F},
    {"torchao_old", 0, 0x00, 0x80, 254, 0x7E, 0xFE, 0x00, 255, 0x7F, 0x00},
    {"torchao_0_18", 0, 0x00, 0x80, 254, 0x7E, 0xFE, 0x00, 255, 0x7F, 0x7F},
    {"torchao_0_18_floor", 0, 0x00, 0x80, 247, 0x7E, 0xFE, 0x00, 255, 0x7F, 0x00},
    {"torchao_0_18_ceil", 0, 0x00, 0x80, 247, 0x7E, 0xFE, 0x00, 255, 0x7F, 0x00},
    {"torchao_0_18_even", 0, 0x00, 0x80, 247, 0x7E, 0xFE, 0x00, 255, 0x7F, 0x00},
    {"torchao_floor", 0, 0x00, 0x80, 255, 0x7F, 0x7F, 0x7F, 255, 0x7F, 0x7F},
    {"torchao_floor_cuda", 0, 0x00, 0x80, 255, 0x7F, 0x7F, 0x7F, 255, 0x7F, 0x7F},
    {"torchao_ceil", 0, 0x00, 0x80, 255, 0x7F, 0x7F, 0x7F, 255, 0x7F, 0x7F},
    {"torchao_even", 0, 0x00, 0x80, 255, 0x7F, 0x7F, 0x7F, 255, 0x7F, 0x7F},
    {"deepgemm_host", 105, 0x00, 0x80, 254, 0x7F, 0x7F, 0x00, 254, 0x7F, 0x00},
    {"deepgemm_device", 0, 0x00, 0x80, 255, 0xFE, 0x7E, 0xFE, 119, 0x7F, 0x78},
    {"dsv3", 105, 0x00, 0x80, 255, 0x7F, 0x7F, 0x00, 119, 0x7F, 0x78},
    {"microxcaling_python", 0, 0x00, 0x00, 255, 0x7F, 0x7F, 0x7F, 255, 0x7F, 0x7F},
    {"microxcaling_cuda", 0, 0x00, 0x00, 255, 0x7F, 0x7F, 0x7F, 255, 0x7F, 0x7F},
    {"gfloat", 0, 0x00, 0x80, 254, 0x7E, 0xFE, 0x00, 255, 0xFF, 0xFF},
    {"thunderkittens", 88, 0x00, 0x80, 254, 0x7E, 0xFE, 0x00, 119, 0x7F, 0x78},
    {"triton", 0, 0x00, 0x80, 255, 0x7F, 0x7F, 0x00, 0, 0x7F, 0x00},
    {"triton_down", 0, 0x00, 0x80, 255, 0x7F, 0x7F, 0x00, 255, 0x7F, 0x00},
    {"cutlass_host", 0, 0x00, 0x80, 255, 0x7F, 0x7F, 0x7F, 255, 0x7F, 0x7F},
    {"cutlass_device", 0, 0x00, 0x80, 254, 0x7E, 0xFE, 0x00, 255, 0x7F, 0x7F},
};

TEST(Recipe, blocks_with_zero_infinity_and_nan_follow_each_implementation) {
  for (const Specials& s : kSpecials) {
    const Recipe r = recipe_named(s.recipe);
    const auto code = [&](const BlockScale& scale, float x) { return encode_element(r, Format::e4m3, scale, x); };
    const BlockScale zero = scale_of(r, {0.0F, -0.0F});
    EXPECT_EQ(zero.byte, s.zero_byte) << s.recipe;
    EXPECT_EQ(code(zero, 0.0F), s.plus_zero) << s.recipe;
    EXPECT_EQ(code(zero, -0.0F), s.minus_zero) << s.recipe;
    const BlockScale inf = scale_of(r, {kInf, -kInf, 1});
    EXPECT_EQ(inf.byte, s.inf_byte) << s.recipe;
    EXPECT_EQ(code(inf, kInf), s.plus_inf) << s.recipe;
    EXPECT_EQ(code(inf, -kInf), s.minus_inf) << s.recipe;
    EXPECT_EQ(code(inf, 1), s.one_beside_inf) << s.recipe;
    const BlockScale nan = scale_of(r, {kNan, 1});
    EXPECT_EQ(nan.byte, s.nan_byte) << s.recipe;
    EXPECT_EQ(code(nan, kNan), s.nan) << s.recipe;
    EXPECT_EQ(code(nan, 1), s.one_beside_nan) << s.recipe;
  }
}

TEST(Recipe, every_recipe_with_scale_bytes_has_a_row_of_specials) {
  for (const Recipe& r : all_recipes()) {
    if (r.rule == ScaleRule::fp32) continue;
    EXPECT_EQ(
        std::count_if(std::begin(kSpecials), std::end(kSpecials), [&](const auto& s) { return s.recipe == r.name; }), 1)
        << r.name;
  }
}

TEST(Recipe, torchaos_shared_golden_cases_hold) {
  const struct {
    const char* recipe;
    std::vector<float> block;
    float element;
    std::uint8_t byte;
    std::uint32_t code;
  } cases[] = {
      {"torchao", {0x1p-126F}, 0x1p-126F, 0, 0x40},
      {"torchao_floor", {0x1p-126F}, 0x1p-126F, 0, 0x40},
      {"torchao", {448, -448}, 448, 127, 0x7E},
      {"torchao", {448, -448}, -448, 127, 0xFE},
      {"torchao_floor", {448, -448}, -448, 127, 0xFE},
      {"torchao_floor", {std::numeric_limits<float>::max()}, std::numeric_limits<float>::max(), 246, 0x7E},
      {"torchao", {std::numeric_limits<float>::max()}, std::numeric_limits<float>::max(), 247, 0x78},
      {"torchao_floor", {as_float(0x7F7F0000)}, as_float(0x7F7F0000), 246, 0x7E},
      {"torchao", {as_float(0x7F7F0000)}, as_float(0x7F7F0000), 247, 0x78},
      {"torchao", {0x1p-133F}, 0x1p-133F, 0, 0x08},
      {"torchao", {0x1p-133F}, -0x1p-133F, 0, 0x88},
      {"torchao", {0x1p-149F}, 0x1p-149F, 0, 0x00},
      {"torchao", {0x1p-149F}, -0x1p-149F, 0, 0x80},
      {"torchao", {1, -0x1p-149F}, 1, 119, 0x78},
      {"torchao", {1, -0x1p-149F}, -0x1p-149F, 119, 0x80},
      {"torchao_floor", {480}, 480, 127, 0x7E},
      {"torchao", {480}, 480, 128, 0x77},
      {"torchao", {as_float(0x40600001)}, as_float(0x40600001), 121, 0x76},
      {"torchao_floor", {as_float(0x40600001)}, as_float(0x40600001), 120, 0x7E},
      {"torchao_even", {as_float(0x40600001)}, as_float(0x40600001), 120, 0x7E},
      {"torchao_floor", {as_float(0x43FFFFFF)}, as_float(0x43FFFFFF), 127, 0x7E},
      {"torchao", {as_float(0x43FFFFFF)}, as_float(0x43FFFFFF), 128, 0x78},
      {"torchao_ceil", {as_float(0x43FFFFFF)}, as_float(0x43FFFFFF), 128, 0x78},
      {"torchao_even", {as_float(0x43FFFFFF)}, as_float(0x43FFFFFF), 128, 0x78},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(scale_of(recipe_named(c.recipe), c.block).byte, c.byte) << c.recipe << " " << c.element;
    EXPECT_EQ(code_in(c.recipe, c.block, c.element), c.code) << c.recipe << " " << std::hexfloat << c.element;
  }
}

TEST(Recipe, an_infinite_amax_beside_zero_is_nan_on_deepgemms_device) {
  EXPECT_EQ(code_in("deepgemm_device", {kInf, 0}, 0), 0x7FU) << "0 * -Inf";
}

TEST(Recipe, float_scales_divide_or_multiply_as_their_implementation) {
  // Products next to a tie of E4M3: 306 / 408 * 448 = 336 between 320 and 352, 0.890625 / 4.75 * 448 = 84 between
  // 80, 88.
  const struct {
    const char* recipe;
    float amax, x;
    double value;
  } cases[] = {
      {"fp32", 408, 306, 320},
      {"fp32", 4.75F, 0.890625F, 80},
      {"dsv3_fp32", 408, 306, 320},
      {"dsv3_fp32", 4.75F, 0.890625F, 80},
      {"tilekernels_fp32", 408, 306, 352},
      {"deepgemm_fp32", 4.75F, 0.890625F, 88},
      {"tilekernels_fp32", 260, 195, 320},
      {"deepgemm_fp32", 260, 195, 320},  // 352 without the product's own rounding
  };
  for (const auto& c : cases) {
    EXPECT_EQ(decode(Format::e4m3, code_in(c.recipe, {c.amax}, c.x)), c.value) << c.recipe << " " << c.amax;
  }
}

TEST(Recipe, float_scales_are_stored_as_amax_over_the_largest_value) {
  EXPECT_EQ(scale_of(recipe_named("fp32"), {408, -1}).scale, 408.0F / 448.0F);
  EXPECT_EQ(scale_of(recipe_named("fp32"), {0}).scale, 1.0F);
  for (const char* name : {"dsv3_fp32", "deepgemm_fp32", "tilekernels_fp32"}) {
    EXPECT_EQ(scale_of(recipe_named(name), {0}).scale, 1e-4F / 448) << name;
    EXPECT_EQ(scale_of(recipe_named(name), {kInf, 1}).scale, kInf) << name;
    EXPECT_EQ(code_in(name, {kInf, 1}, kInf), 0x7FU) << name;
    EXPECT_EQ(code_in(name, {kInf, 1}, 1), 0x00U) << name;
    EXPECT_EQ(code_in(name, {kNan, 1}, kNan), 0x7FU) << name;
  }
  for (const char* name : {"deepgemm_fp32", "tilekernels_fp32"}) {
    EXPECT_TRUE(std::isnan(scale_of(recipe_named(name), {kNan, 1}).scale)) << name;
    EXPECT_EQ(code_in(name, {kNan, 1}, 1), 0x7FU) << name;
  }
  EXPECT_EQ(scale_of(recipe_named("dsv3_fp32"), {kNan, 1}).scale, 1.0F / 448) << "Triton's max drops NaN";
  EXPECT_EQ(code_in("dsv3_fp32", {kNan, 1}, 1), 0x7EU);
  EXPECT_TRUE(std::isnan(scale_of(recipe_named("fp32"), {kInf}).scale));
}

TEST(Recipe, a_block_of_nan_alone_has_the_clamps_byte_in_dsv3) {
  EXPECT_EQ(scale_of(recipe_named("dsv3"), {kNan}).byte, 105);
  EXPECT_EQ(scale_of(recipe_named("dsv3_fp32"), {kNan}).scale, 1e-4F / 448);
}

TEST(Recipe, torchao_0_18_takes_byte_zero_for_the_smallest_normal_scale) {
  for (const char* name : {"torchao_0_18_floor", "torchao_0_18_ceil", "torchao_0_18_even"}) {
    EXPECT_EQ(scale_of(recipe_named(name), {0x1p-133F}).byte, 0) << name;
    EXPECT_EQ(code_in(name, {0x1p-133F}, 0x1p-133F), 0x04U) << name << ": 2^-133 * 2^126";
  }
  EXPECT_EQ(code_in("torchao_0_18", {0x1p-126F}, 0x1p-126F), 0x00U) << "elements times 1";
  EXPECT_EQ(code_in("torchao_floor", {0x1p-133F}, 0x1p-133F), 0x08U);
}

TEST(Recipe, torchao_0_18_gives_infinity_the_byte_of_two_to_the_128) {
  const std::pair<Format, int> bytes[] = {
      {Format::e4m3, 247}, {Format::e5m2, 240}, {Format::e2m3, 253}, {Format::e3m2, 251}, {Format::e2m1, 253}};
  for (const char* name : {"torchao_0_18_floor", "torchao_0_18_ceil", "torchao_0_18_even"}) {
    for (const auto& [format, byte] : bytes) {
      const BlockScale inf = block_scale(recipe_named(name), format, {kInf, false});
      EXPECT_EQ(inf.byte, byte) << name << ", " << spec(format).name;
      EXPECT_EQ(encode_element(recipe_named(name), format, inf, kInf), spec(format).max_code) << name;
    }
    EXPECT_EQ(code_in(name, {kInf, 0x1p127F}, 0x1p127F), 0x70U) << name << ": its block is not poisoned";
  }
}

TEST(Recipe, microxcaling_rounds_ties_away_and_drops_the_sign_of_zero) {
  for (const char* name : {"microxcaling_python", "microxcaling_cuda"}) {
    EXPECT_EQ(code_in(name, {256, 17}, 17), 0x59U) << name;
    EXPECT_EQ(code_in(name, {256, 0x1p-10F}, 0x1p-10F), 0x01U) << name;
    EXPECT_EQ(code_in(name, {256, -0.0F}, -0.0F), 0x00U) << name;
  }
  EXPECT_EQ(code_in("ocp", {256, 17}, 17), 0x58U);
}

TEST(Recipe, microxcaling_drops_the_sign_of_a_quotient_or_of_every_zero) {
  const std::vector<float> underflows{0x1.45d538p+121F, -0x1.8fd288p-119F};  // x / 2^113 is below 2^-150
  EXPECT_EQ(code_in("microxcaling_python", underflows, -0x1.8fd288p-119F), 0x00U);
  EXPECT_EQ(code_in("microxcaling_python", {256, -0x1p-11F}, -0x1p-11F), 0x80U) << "an FP32 that rounds to -0";
  EXPECT_EQ(code_in("microxcaling_python", {0x1p121F, -0x1p-36F}, -0x1p-36F), 0x80U) << "the smallest FP32 quotient";
  EXPECT_EQ(code_in("microxcaling_python", {0x1p121F, -0x1p-37F}, -0x1p-37F), 0x00U) << "a tie, to zero";
  EXPECT_EQ(code_in("microxcaling_cuda", underflows, -0x1.8fd288p-119F), 0x00U);
  EXPECT_EQ(code_in("microxcaling_cuda", {256, -0x1p-11F}, -0x1p-11F), 0x00U);
  EXPECT_EQ(code_in("microxcaling_cuda", {256, -0x1p-10F}, -0x1p-10F), 0x81U);
}

TEST(Recipe, microxcalings_python_adds_its_half_in_fp32) {
  for (const float x : {0x1.fffffep-11F, -0x1.fffffep-11F}) {  // |x| / 2^-9 + 0.5 is a tie of FP32, and becomes 1
    const unsigned sign = x < 0 ? 0x80 : 0;
    EXPECT_EQ(code_in("microxcaling_python", {256, x}, x), sign | 0x01U);
    EXPECT_EQ(code_in("microxcaling_python", {256, x * 0.99F}, x * 0.99F), sign);
    EXPECT_EQ(code_in("microxcaling_cuda", {256, x}, x), 0x00U);
  }
  EXPECT_EQ(code_in("microxcaling_python", {256, 0x1.fffffcp-11F}, 0x1.fffffcp-11F), 0x00U);
  EXPECT_EQ(code_in("microxcaling_python", {256, 0x1.7ffffep-9F}, 0x1.7ffffep-9F), 0x01U) << "below 1.5 steps";
}

TEST(Recipe, torchao_old_did_not_scale_elements_at_byte_zero) {
  EXPECT_EQ(code_in("torchao_old", {0x1p-126F}, 0x1p-126F), 0x00U);
  EXPECT_EQ(code_in("torchao", {0x1p-126F}, 0x1p-126F), 0x40U);
  EXPECT_EQ(code_in("triton", {0x1p-133F}, 0x1p-133F), 0x04U) << "byte 1, although 0 is the exact rule's";
  EXPECT_EQ(code_in("triton", {0x1p-149F}, 0x1p-149F), 0x00U) << "the quotient is 0: byte 0, factor 0";
  EXPECT_EQ(code_in("triton_down", {0x1p-126F}, 0x1p-126F), 0x00U) << "factor 0 at byte 0";
}

TEST(Recipe, factors_from_shifted_exponents_are_zero_for_byte_254) {
  Recipe r;
  r.byte_min = 254;
  EXPECT_EQ(block_scale(r, Format::e4m3, {1}).factor, 0x1p-127);
  r.scaling = ElementScaling::shifted_exponent;
  EXPECT_EQ(block_scale(r, Format::e4m3, {1}).factor, 0);
}

TEST(Recipe, clamps_act_before_and_after_the_rule) {
  EXPECT_EQ(scale_byte_for_amax(recipe_named("deepgemm_host"), Format::e4m3, 1e-5F), 105);
  EXPECT_EQ(scale_byte_for_amax(recipe_named("thunderkittens"), Format::e4m3, 1e-10F), 88);
  Recipe r;
  r.byte_min = 10, r.byte_max = 120;
  EXPECT_EQ(scale_byte_for_amax(r, Format::e4m3, 0), 10);
  EXPECT_EQ(scale_byte_for_amax(r, Format::e4m3, 1e30F), 120);
}

TEST(Recipe, nan_is_left_to_the_reader_of_elements_when_refused) {
  Recipe r;
  r.nan = NanPolicy::refuse;
  EXPECT_EQ(block_scale(r, Format::e4m3, {1, true}).byte, 255);
  EXPECT_EQ(block_scale(r, Format::e4m3, {1, false}).byte, 119);
}

TEST(Recipe, scaling_a_block_by_a_power_of_two_shifts_the_byte_and_keeps_the_codes) {
  for (const char* name : {"rceil", "floor", "ceil", "even", "te", "torchao", "triton", "microxcaling_cuda"}) {
    const Recipe r = recipe_named(name);
    for (const float x : {300.0F, 1.0F, -0.3F, 449.0F, 511.0F}) {
      const BlockScale small = block_scale(r, Format::e4m3, {511});
      const BlockScale large = block_scale(r, Format::e4m3, {511 * 0x1p40F});
      EXPECT_EQ(small.byte + 40, large.byte) << name;
      EXPECT_EQ(encode_element(r, Format::e4m3, small, x), encode_element(r, Format::e4m3, large, x * 0x1p40F)) << name;
    }
  }
}

TEST(Recipe, aliases_name_one_of_a_pair) {
  EXPECT_EQ(recipe_named("deepgemm").name, "deepgemm_host");
  EXPECT_EQ(recipe_named("microxcaling").name, "microxcaling_python");
  EXPECT_EQ(recipe_named("cutlass").name, "cutlass_device");
}

TEST(Recipe, every_preset_names_what_it_was_checked_against) {
  const std::set<std::string> own{"rceil", "floor", "ceil", "even", "fp32"};
  for (const Recipe& r : all_recipes()) EXPECT_EQ(r.checked_against.empty(), own.contains(r.name)) << r.name;
}

TEST(Recipe, names_are_distinct) {
  std::set<std::string> names;
  for (const Recipe& r : all_recipes()) names.insert(r.name);
  EXPECT_EQ(names.size(), all_recipes().size());
}

TEST(Recipe, every_recipe_is_described_in_the_docs) {
  std::ifstream file(MXCHECK_NUMERICS_PAGE);
  const std::string page(std::istreambuf_iterator<char>(file), {});
  ASSERT_FALSE(page.empty()) << MXCHECK_NUMERICS_PAGE;
  const auto holds = [&page](std::string_view before, std::string_view name, std::string_view after) {
    return page.find(std::string(before).append(name).append(after)) != std::string::npos;
  };
  for (const Recipe& r : all_recipes()) {
    const auto row = page.find("\n| `" + r.name + "` |");
    ASSERT_NE(row, std::string::npos) << "no table row for " << r.name;
    const std::string end = r.checked_against.empty() ? " |" : " | " + r.checked_against + " |";
    const std::string line = page.substr(row + 1, page.find('\n', row + 1) - row - 1);
    EXPECT_TRUE(line.ends_with(end)) << line << " must end with what was checked: " << end;
  }
  for (const char* alias : {"deepgemm", "microxcaling", "cutlass"}) {
    EXPECT_TRUE(holds("`", alias, "`")) << "no word on the alias " << alias;
  }
}

TEST(Recipe, an_unknown_name_is_refused_with_the_known_ones) {
  try {
    recipe_named("rciel");
    FAIL() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_EQ(std::string(error.what()).rfind("unknown rule or preset 'rciel'; known are rceil, floor, ceil", 0), 0U)
        << error.what();
  }
}

}  // namespace
}  // namespace mxcheck
