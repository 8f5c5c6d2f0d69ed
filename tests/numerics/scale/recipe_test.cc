#include <boost/multiprecision/cpp_dec_float.hpp>

#include "numerics/format/codec.h"
#include "numerics/scale/block_scales.h"
#include "numerics/scale/recipe.h"
#include "numerics/scale/recipe_words.h"
#include "numerics/scale/scale_rule.h"
#include "tests/numerics/oracle.h"
#include "tests/numerics/scale/peer_table.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

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
    const BlockScale nan = scale_of(r, {kNaN, 1});
    EXPECT_EQ(nan.byte, s.nan_byte) << s.recipe;
    EXPECT_EQ(code(nan, kNaN), s.nan) << s.recipe;
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
  const std::tuple<const char*, std::vector<float>, float, std::uint8_t, std::uint32_t> cases[] = {
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
  for (const auto& [recipe, block, element, byte, code] : cases) {
    EXPECT_EQ(scale_of(recipe_named(recipe), block).byte, byte) << recipe << " " << element;
    EXPECT_EQ(code_in(recipe, block, element), code) << recipe << " " << std::hexfloat << element;
  }
}

TEST(Recipe, an_infinite_amax_beside_zero_is_nan_on_deepgemms_device) {
  EXPECT_EQ(code_in("deepgemm_device", {kInf, 0}, 0), 0x7FU) << "0 * -Inf";
}

TEST(Recipe, float_scales_divide_or_multiply_as_their_implementation) {
  // Products next to a tie of E4M3: 306 / 408 * 448 = 336 between 320 and 352, 0.890625 / 4.75 * 448 = 84 between
  // 80, 88.
  const std::tuple<const char*, float, float, double> cases[] = {
      {"fp32", 408, 306, 320},
      {"fp32", 4.75F, 0.890625F, 80},
      {"dsv3_fp32", 408, 306, 320},
      {"dsv3_fp32", 4.75F, 0.890625F, 80},
      {"tilekernels_fp32", 408, 306, 352},
      {"deepgemm_fp32", 4.75F, 0.890625F, 88},
      {"tilekernels_fp32", 260, 195, 320},
      {"deepgemm_fp32", 260, 195, 320},  // 352 without the product's own rounding
  };
  for (const auto& [recipe, amax, x, value] : cases)
    EXPECT_EQ(decode(Format::e4m3, code_in(recipe, {amax}, x)), value) << recipe << " " << amax;
}

TEST(Recipe, float_scales_are_stored_as_amax_over_the_largest_value) {
  EXPECT_EQ(scale_of(recipe_named("fp32"), {408, -1}).scale, 408.0F / 448.0F);
  EXPECT_EQ(scale_of(recipe_named("fp32"), {0}).scale, 1.0F);
  for (const char* name : {"dsv3_fp32", "deepgemm_fp32", "tilekernels_fp32"}) {
    EXPECT_EQ(scale_of(recipe_named(name), {0}).scale, 1e-4F / 448) << name;
    EXPECT_EQ(scale_of(recipe_named(name), {kInf, 1}).scale, kInf) << name;
    EXPECT_EQ(code_in(name, {kInf, 1}, kInf), 0x7FU) << name;
    EXPECT_EQ(code_in(name, {kInf, 1}, 1), 0x00U) << name;
    EXPECT_EQ(code_in(name, {kNaN, 1}, kNaN), 0x7FU) << name;
  }
  for (const char* name : {"deepgemm_fp32", "tilekernels_fp32"}) {
    EXPECT_TRUE(std::isnan(scale_of(recipe_named(name), {kNaN, 1}).scale)) << name;
    EXPECT_EQ(code_in(name, {kNaN, 1}, 1), 0x7FU) << name;
  }
  EXPECT_EQ(scale_of(recipe_named("dsv3_fp32"), {kNaN, 1}).scale, 1.0F / 448) << "Triton's max drops NaN";
  EXPECT_EQ(code_in("dsv3_fp32", {kNaN, 1}, 1), 0x7EU);
  EXPECT_TRUE(std::isnan(scale_of(recipe_named("fp32"), {kInf}).scale));
}

TEST(Recipe, a_block_of_nan_alone_has_the_clamps_byte_in_dsv3) {
  EXPECT_EQ(scale_of(recipe_named("dsv3"), {kNaN}).byte, 105);
  EXPECT_EQ(scale_of(recipe_named("dsv3_fp32"), {kNaN}).scale, 1e-4F / 448);
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
  for (const char* alias : {"deepgemm", "microxcaling", "cutlass"})
    EXPECT_TRUE(holds("`", alias, "`")) << "no word on the alias " << alias;
}

TEST(Recipe, an_unknown_name_is_refused_with_the_known_ones) {
  const Thrown t = thrown_by([] { recipe_named("rciel"); });
  EXPECT_EQ(t.kind, ErrorKind::usage);
  EXPECT_TRUE(t.text.starts_with("unknown rule or preset 'rciel'; known are rceil, floor, ceil")) << t.text;
}

bool same(const BlockScale& a, const BlockScale& b) {
  const auto bits = [](double x) { return std::isnan(x) ? 0 : std::bit_cast<std::uint64_t>(x); };
  return a.byte == b.byte && bits(a.scale) == bits(b.scale) && a.poisoned == b.poisoned &&
         bits(a.factor) == bits(b.factor) && a.divide == b.divide && a.round_fp32 == b.round_fp32;
}

// Amaxes of every binade: both ends, places in between, and the neighbourhood of where the byte changes.
std::vector<std::uint32_t> telling_amaxes(const Recipe& recipe, Format element) {
  std::vector<std::uint32_t> all;
  for (std::uint32_t first = 0; first < 0x7F800000; first += 0x800000) {
    for (std::uint32_t at = 0; at < 0x800000; at += 0x7FFFF) all.push_back(first + at);
    const std::uint32_t last = first + 0x7FFFFF;
    all.push_back(last);
    const auto byte = [&](std::uint32_t bits) { return scale_byte_for_amax(recipe, element, as_float(bits)); };
    if (!recipe.has_e8m0_scales()) continue;
    for (std::uint32_t low = first, high = last; byte(low) != byte(high) && high - low > 1;) {
      const std::uint32_t middle = low + (high - low) / 2;
      (byte(middle) == byte(low) ? low : high) = middle;
      if (high - low == 1) all.insert(all.end(), {low - 1, low, high, high + 1});
    }
  }
  for (const std::uint32_t bits : {0x7F800000U, 0U, 1U, 0x7FC00000U}) all.push_back(bits);
  return all;
}

TEST(BlockScales, are_block_scales_of_every_recipe_and_format_next_to_every_change_of_the_byte) {
  for (const Recipe& recipe : all_recipes()) {
    for (const Format element : kQuantizedFormats) {
      BlockScales scale_of(recipe, element);
      std::vector<BlockAmax> blocks;
      for (const std::uint32_t bits : telling_amaxes(recipe, element))
        blocks.push_back({as_float(bits), bits % 7 == 0});
      std::vector<std::uint8_t> bytes(blocks.size());
      std::vector<double> factors(blocks.size());
      const bool found = recipe.has_e8m0_scales() && scale_of.find(blocks, bytes.data(), factors.data());
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        const BlockScale right = block_scale(recipe, element, blocks[i]);
        ASSERT_TRUE(same(scale_of(blocks[i]), right)) << recipe.name << " " << spec(element).name << " " << i;
        EXPECT_FALSE(found && right.poisoned) << recipe.name;
        if (!recipe.has_e8m0_scales()) continue;
        ASSERT_EQ(bytes[i], right.byte) << recipe.name << " " << spec(element).name << " " << blocks[i].amax;
        if (right.poisoned) continue;
        ASSERT_EQ(factors[i], right.factor) << recipe.name << " " << spec(element).name;
      }
    }
  }
}

TEST(BlockScales, says_where_a_block_is_poisoned) {
  const Recipe recipe = recipe_named("rceil");
  BlockScales scale_of(recipe, Format::e4m3);
  std::uint8_t byte = 0;
  double factor = 0;
  const auto find = [&](BlockAmax block) { return scale_of.find(std::span(&block, 1), &byte, &factor); };
  EXPECT_TRUE(find({448, false}));
  EXPECT_EQ(byte, 127);
  EXPECT_EQ(factor, 1);
  EXPECT_FALSE(find({448, true}));
  EXPECT_EQ(byte, 255);
  EXPECT_FALSE(find({kInf, false}));
}

template <class Table>
void expect_names(const Table& table, const std::vector<std::string>& names) {
  EXPECT_EQ(names_in(table), names);
  for (const auto& [name, value] : table) {
    EXPECT_EQ(to_text(value), name);
    EXPECT_EQ(value_in(table, name), value);
  }
  EXPECT_EQ(value_in(table, "none of them"), std::nullopt);
}

TEST(RecipeWords, are_found_again) {
  expect_names(kNanPolicies, {"propagate", "drop", "refuse"});
  expect_names(kRoundings, {"nearest_even", "nearest_away", "toward_zero", "stochastic", "upward"});
  expect_names(kElementRoundings, {"nearest_even", "nearest_away", "toward_zero", "upward"});
  expect_names(kOverflows, {"saturate", "non_saturate"});
  expect_names(kElementScalings, {"exact", "shifted_exponent", "one_at_byte_zero", "zero_at_byte_zero",
                                  "normal_at_byte_zero", "half_in_fp32", "times_reciprocal", "times_quotient"});
}

TEST(RecipeWords, name_a_byte_that_the_rule_gives_and_the_zeros_without_a_sign) {
  expect_names(kDropNegativeZeros, {"no", "of_quotient", "of_code"});
  const auto field = [](const char* recipe, std::string_view key) {
    for (const auto& [name, value] : describe(recipe_named(recipe))) {
      if (name == key) return value;
    }
    return std::string("no such field");
  };
  EXPECT_EQ(field("torchao_0_18_floor", "inf_byte"), "rule");
  EXPECT_EQ(field("torchao_0_18", "inf_byte"), "254");
  EXPECT_EQ(field("microxcaling_python", "drop_negative_zero"), "of_quotient");
  EXPECT_EQ(field("microxcaling_cuda", "drop_negative_zero"), "of_code");
}

TEST(RecipeWords, hexfloats) {
  EXPECT_EQ(hexfloat(448), "0x1.cp+8");
  EXPECT_EQ(hexfloat(-0.0), "-0x0p+0");
  EXPECT_EQ(hexfloat(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(hexfloat(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(hexfloat(-std::numeric_limits<double>::quiet_NaN()), "nan");
}

// Files and goldens hold these words: a change of them is a change of theirs.
TEST(RecipeWords, describe_every_field) {
  std::string words;
  for (const auto& [name, value] : describe(recipe_named("thunderkittens"))) words += name + " " + value + "; ";
  EXPECT_EQ(
      words,
      "recipe thunderkittens; rule rceil_fp32; nan drop; amax_min 0x0p+0; quotient_min 0x1.197998p-40; byte_min 0; "
      "byte_max 255; inf_byte 254; nan_byte 88; inf_factor nan; nan_factor nan; element_scaling exact; "
      "zero_scale 0x1p+0; rounding nearest_even; overflow saturate; drop_negative_zero no; nan_sign no; ");
}

TEST(RecipeWords, tell_any_two_recipes_apart) {
  std::set<std::vector<std::pair<std::string, std::string>>> seen;
  for (const Recipe& recipe : all_recipes()) EXPECT_TRUE(seen.insert(describe(recipe)).second) << recipe.name;
  Recipe changed = recipe_named("rceil");
  changed.nan_sign = true;
  EXPECT_TRUE(seen.insert(describe(changed)).second);
}

TEST(Recipe, with_fp32_scales_are_those_with_the_fp32_rule) {
  std::vector<std::string> fp32;
  for (const Recipe& recipe : all_recipes()) {
    if (!recipe.has_e8m0_scales()) fp32.push_back(recipe.name);
  }
  EXPECT_EQ(fp32, (std::vector<std::string>{"fp32", "deepgemm_fp32", "dsv3_fp32", "tilekernels_fp32"}));
}

using Digits = boost::multiprecision::cpp_dec_float_100;

std::uint32_t as_bits(float x) { return std::bit_cast<std::uint32_t>(x); }

// The patterns next to where each rule changes: powers of two and vmax times powers of two, and the subnormals' ends.
std::vector<std::uint32_t> boundary_amax(Format element) {
  std::vector<std::uint32_t> result{0, 1, 2, 0xE0, 0x10000, 0x3FFFFF, 0x400000, 0x400001, 0x7F7FFFFF};
  const std::uint32_t top = as_bits(largest_value(element)) & 0x7FFFFF;
  for (std::uint32_t field = 0; field < 255; ++field) {
    for (const std::uint32_t mantissa : {0U, top, 0x400000U, 0x780000U, 0x700000U, 0x7FFFFFU}) {
      const std::uint32_t bits = field << 23 | mantissa;
      for (const std::uint32_t near : {bits - 1, bits, bits + 1}) {
        if (near < 0x7F800000) result.push_back(near);
      }
    }
  }
  return result;
}

TEST(ScaleRule, names_are_found_again) {
  for (int i = 0; i < 13; ++i) {
    const auto rule = static_cast<ScaleRule>(i);
    EXPECT_EQ(find_scale_rule(to_text(rule)), rule) << to_text(rule);
  }
  EXPECT_EQ(to_text(ScaleRule::floor_log2), "floor_log2");
  EXPECT_EQ(find_scale_rule("rciel"), std::nullopt);
}

TEST(ScaleRule, largest_values_are_those_of_the_formats) {
  EXPECT_EQ(largest_value(Format::e4m3), 448.0F);
  EXPECT_EQ(largest_value(Format::e5m2), 57344.0F);
  EXPECT_EQ(largest_value(Format::e2m1), 6.0F);
  EXPECT_EQ(largest_value(Format::e2m3), 7.5F);
  EXPECT_EQ(largest_value(Format::e3m2), 28.0F);
  EXPECT_EQ(largest_value(Format::mxint8), 1.984375F);
  EXPECT_EQ(largest_value(Format::e5m6), 65024.0F);
  EXPECT_EQ(as_bits(reciprocal_of_largest_value(Format::e4m3)), 0x3B124925U);
}

TEST(ScaleRule, exact_rules_are_the_rational_ones_next_to_every_boundary) {
  for (const Format element : kQuantizedFormats) {
    for (const std::uint32_t bits : boundary_amax(element)) {
      const float a = as_float(bits);
      ASSERT_EQ(scale_byte(ScaleRule::rceil, element, a), oracle::rceil_byte(element, a)) << std::hexfloat << a;
      ASSERT_EQ(scale_byte(ScaleRule::floor, element, a), oracle::floor_byte(element, a)) << std::hexfloat << a;
      ASSERT_EQ(scale_byte(ScaleRule::ceil, element, a), oracle::ceil_byte(element, a)) << std::hexfloat << a;
    }
  }
}

TEST(ScaleRule, the_sign_of_amax_is_ignored) {
  for (int i = 0; i < 13; ++i) {
    const auto rule = static_cast<ScaleRule>(i);
    if (rule == ScaleRule::fp32) continue;
    for (const std::uint32_t bits : boundary_amax(Format::e4m3))
      ASSERT_EQ(scale_byte(rule, Format::e4m3, as_float(bits)), scale_byte(rule, Format::e4m3, -as_float(bits)))
          << to_text(rule) << " 0x" << std::hex << bits;
  }
}

// Computing in FP32 is the exact rule but for one float a format, one ulp above vmax * 2^-127.
TEST(ScaleRule, fp32_shortcuts_miss_one_float_a_format) {
  const std::tuple<Format, std::uint32_t> cases[] = {
      {Format::e4m3, 0x04600001}, {Format::e5m2, 0x07E00001}, {Format::e2m1, 0x01400001}};
  for (const auto& [element, bits] : cases) {
    EXPECT_EQ(scale_byte(ScaleRule::rceil, element, as_float(bits)), 1) << spec(element).name;
    EXPECT_EQ(scale_byte(ScaleRule::rceil_fp32, element, as_float(bits)), 0) << spec(element).name;
    EXPECT_EQ(e8m0_round_up(as_float(bits) / largest_value(element)), 0) << "dividing is no better";
    EXPECT_EQ(scale_byte(ScaleRule::rceil_fp32, element, as_float(bits + 1)), 1) << spec(element).name;
  }
  for (const std::uint32_t bits : boundary_amax(Format::e4m3)) {
    if (bits == 0x04600001) continue;
    ASSERT_EQ(scale_byte(ScaleRule::rceil_fp32, Format::e4m3, as_float(bits)),
              scale_byte(ScaleRule::rceil, Format::e4m3, as_float(bits)))
        << std::hex << bits;
  }
}

TEST(ScaleRule, floor_in_fp32_misses_0x047fffff) {
  EXPECT_EQ(scale_byte(ScaleRule::floor, Format::e4m3, as_float(0x047FFFFF)), 0);
  EXPECT_EQ(scale_byte(ScaleRule::floor_fp32, Format::e4m3, as_float(0x047FFFFF)), 1);
  EXPECT_EQ(scale_byte(ScaleRule::floor_fp32, Format::e4m3, as_float(0x047FFFFE)), 0);
}

TEST(ScaleRule, finite_amax_reaches_these_bytes_and_no_others) {
  const std::tuple<ScaleRule, Format, int> cases[] = {{ScaleRule::rceil, Format::e4m3, 247},
                                                      {ScaleRule::rceil, Format::e5m2, 240},
                                                      {ScaleRule::floor, Format::e4m3, 246}};
  for (const auto& [rule, element, largest] : cases) {
    std::vector<bool> seen(256);
    for (const std::uint32_t bits : boundary_amax(element)) seen[scale_byte(rule, element, as_float(bits))] = true;
    for (int byte = 0; byte < 256; ++byte)
      EXPECT_EQ(seen[static_cast<std::size_t>(byte)], byte <= largest) << to_text(rule) << " byte " << byte;
  }
}

// Where amax / 2^e lands, which is what the rules are for.
TEST(ScaleRule, scaled_amax_lands_in_the_rules_interval) {
  const std::tuple<ScaleRule, double, double, bool, bool> cases[] = {{ScaleRule::rceil, 224, 448, true, false},
                                                                     {ScaleRule::floor, 256, 512, false, true},
                                                                     {ScaleRule::ceil, 128, 256, true, false},
                                                                     {ScaleRule::even, 248, 496, false, true}};
  for (const auto& [rule, above, below, open_below, open_above] : cases) {
    for (const std::uint32_t bits : boundary_amax(Format::e4m3)) {
      const double a = as_float(bits);
      if (a < 0x1p-100 || a > 0x1p127) continue;
      const double scaled = a / decode(Format::e8m0, scale_byte(rule, Format::e4m3, as_float(bits)));
      ASSERT_TRUE(open_below ? scaled > above : scaled >= above) << to_text(rule) << std::hexfloat << " " << a;
      ASSERT_TRUE(open_above ? scaled < below : scaled <= below) << to_text(rule) << std::hexfloat << " " << a;
    }
  }
}

TEST(ScaleRule, even_carry_differs_from_even_where_that_carries_into_the_nan_byte) {
  EXPECT_EQ(scale_byte(ScaleRule::even_carry, Format::e4m3, 0x1.effffep127F), 246);
  EXPECT_EQ(scale_byte(ScaleRule::even_carry, Format::e4m3, 0x1.fp127F), 247);
  EXPECT_EQ(scale_byte(ScaleRule::even_carry, Format::e2m1, 0x1.cp127F), 253);
  for (const Format element : {Format::e4m3, Format::e5m2, Format::e2m1}) {
    for (const std::uint32_t bits : boundary_amax(element)) {
      const auto even = scale_byte(ScaleRule::even, element, as_float(bits));
      if (even == 255) continue;
      ASSERT_EQ(scale_byte(ScaleRule::even_carry, element, as_float(bits)), even) << std::hex << bits;
    }
  }
}

TEST(ScaleRule, floor_ceil_and_even_carry_take_infinity_for_two_to_the_128) {
  for (const ScaleRule rule : {ScaleRule::floor, ScaleRule::ceil, ScaleRule::even_carry}) {
    EXPECT_EQ(scale_byte(rule, Format::e4m3, kInf), 247) << to_text(rule);
    EXPECT_EQ(scale_byte(rule, Format::e2m1, kInf), 253) << to_text(rule);
  }
}

TEST(ScaleRule, even_carries_a_finite_amax_into_the_nan_byte) {
  EXPECT_EQ(scale_byte(ScaleRule::even, Format::e4m3, 0x1.effffep127F), 246);
  EXPECT_EQ(scale_byte(ScaleRule::even, Format::e4m3, 0x1.fp127F), 255);
  EXPECT_EQ(scale_byte(ScaleRule::even, Format::e4m3, 496), 128);
  EXPECT_EQ(scale_byte(ScaleRule::even, Format::e4m3, 495.99997F), 127);
}

TEST(ScaleRule, e8m0_round_up_follows_the_table_of_the_field) {
  const std::tuple<std::uint32_t, int> rows[] = {
      {0x0, 0},          {0x1, 0},          {0x400000, 0},     {0x400001, 1},     {0x7FFFFF, 1},     {0x800000, 1},
      {0x1F800000, 63},  {0x1F800001, 64},  {0x3F7FFFFF, 127}, {0x3F800000, 127}, {0x3F800001, 128}, {0x5F800001, 192},
      {0x7F000000, 254}, {0x7F000001, 255}, {0x7F7FFFFF, 255}, {0x7F800000, 255}, {0x7FC00000, 255}};
  for (const auto& [bits, byte] : rows) {
    EXPECT_EQ(e8m0_round_up(as_float(bits)), byte) << std::hex << bits;
    EXPECT_EQ(encode(Format::e8m0, as_float(bits), Rounding::upward, Overflow::non_saturate),
              static_cast<std::uint32_t>(byte))
        << std::hex << bits;
  }
}

// At each exponent find, with 100 digits, where RN(log2 x) leaves the integer on either side, and check the floats
// around both places. (Between them the two functions are constant: floats that round to no integer have its
// neighbours.)
TEST(ScaleRule, rounded_log2_is_cut_to_integers_as_100_digits_say) {
  const Digits ln2 = log(Digits(2));
  const auto rounded = [&](float x) { return static_cast<float>(Digits(log(Digits(x)) / ln2)); };
  for (int exponent = -149; exponent <= 127; ++exponent) {
    const std::uint32_t power = as_bits(std::ldexp(1.0F, exponent));
    std::vector<std::uint32_t> checked{power};
    for (const int direction : {-1, 1}) {
      std::uint32_t near = power;
      std::uint32_t far = power + static_cast<std::uint32_t>(direction * 512);
      if (exponent < -126)
        far = power + static_cast<std::uint32_t>(direction * static_cast<int>(std::min(power / 2, 512U)));
      if (far == 0 || far >= 0x7F800000) continue;
      while (near + static_cast<std::uint32_t>(direction) != far && near != far) {
        const std::uint32_t middle = near + static_cast<std::uint32_t>((static_cast<int>(far - near)) / 2);
        (rounded(as_float(middle)) == static_cast<float>(exponent) ? near : far) = middle;
      }
      for (std::uint32_t at = near - 2; at != near + 3; ++at) checked.push_back(at);
    }
    for (const std::uint32_t bits : checked) {
      if (bits == 0 || bits >= 0x7F800000) continue;
      const float x = as_float(bits);
      ASSERT_EQ(floor_of_rounded_log2(x), static_cast<int>(std::floor(rounded(x)))) << "0x" << std::hex << bits;
      ASSERT_EQ(ceil_of_rounded_log2(x), static_cast<int>(std::ceil(rounded(x)))) << "0x" << std::hex << bits;
    }
  }
}

TEST(ScaleRule, log2_rounds_up_to_an_integer_from_0x43fffffb_on) {
  EXPECT_EQ(floor_of_rounded_log2(as_float(0x43FFFFFB)), 9);
  EXPECT_EQ(floor_of_rounded_log2(as_float(0x43FFFFFA)), 8);
  EXPECT_EQ(ceil_of_rounded_log2(as_float(0x44000002)), 9);
  EXPECT_EQ(ceil_of_rounded_log2(as_float(0x44000003)), 10);
  EXPECT_EQ(floor_of_rounded_log2(as_float(0x7F7FFFFF)), 128);  // the last floats round to 2^128's logarithm
  EXPECT_EQ(ceil_of_rounded_log2(as_float(1)), -149);
  EXPECT_EQ(scale_byte(ScaleRule::floor_log2, Format::e4m3, as_float(0x43FFFFFB)), 128);
  EXPECT_EQ(scale_byte(ScaleRule::floor_log2, Format::e4m3, as_float(0x43FFFFFA)), 127);
}

TEST(ScaleRule, rounding_amax_to_bf16_first_changes_32768_floats_a_binade) {
  for (const ScaleRule rule : {ScaleRule::rceil, ScaleRule::floor}) {
    int changed = 0;
    for (std::uint32_t mantissa = 0; mantissa < 0x800000; ++mantissa) {
      const float a = as_float(0x3F800000 | mantissa);
      const float b = as_float(encode<Bf16>(a, Rounding::nearest_even, Overflow::saturate).bits * 0x10000U);
      changed += scale_byte(rule, Format::e4m3, a) != scale_byte(rule, Format::e4m3, b) ? 1 : 0;
    }
    EXPECT_EQ(changed, 32768) << to_text(rule);
  }
}

TEST(ScaleRule, a_product_computed_in_bf16_is_wrong_for_248_bf16_amax) {
  const auto to_bf16 = [](double x) {
    return as_float(encode<Bf16>(x, Rounding::nearest_even, Overflow::non_saturate).bits * 0x10000U);
  };
  int wrong = 0;
  for (std::uint32_t bits = 1; bits < 0x7F80; ++bits) {
    const float a = as_float(bits << 16);
    const float product = to_bf16(static_cast<double>(a) * static_cast<double>(to_bf16(1.0 / 448)));
    wrong += e8m0_round_up(product) != scale_byte(ScaleRule::rceil, Format::e4m3, a) ? 1 : 0;
  }
  EXPECT_EQ(wrong, 248);
}

TEST(ScaleRule, fp32_scales_have_no_byte) {
  expect_error(ErrorKind::internal, "", [] { scale_byte(ScaleRule::fp32, Format::e4m3, 1); });
}

}  // namespace
}  // namespace mxcheck
