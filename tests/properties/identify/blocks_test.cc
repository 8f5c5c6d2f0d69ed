#include "properties/identify/blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/scale/recipe_words.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {
namespace {

CastBox casting(Format format, Rounding rounding, Overflow overflow) {
  return [=](std::span<const float> values) {
    std::vector<std::uint32_t> codes;
    for (float x : values) codes.push_back(encode(format, x, rounding, overflow));
    return codes;
  };
}

QuantizeBox quantizing(const Recipe& recipe) {
  return [recipe](const QuantizeCall& call) {
    const MatrixView x{Format::fp32, std::as_bytes(std::span(call.x)).data(), call.rows, call.cols, call.cols};
    const QuantizedTensor q = quantize(x, call.format, call.block, recipe);
    QuantizeAnswer a;
    for (std::size_t i = 0; i < q.codes.size(); ++i) a.codes.push_back(q.codes.code(i));
    for (std::size_t i = 0; i < q.scales().size(); ++i) a.scales.push_back(q.scales().code(i));
    a.fp32_scales = q.scales().format == Format::fp32;
    return a;
  };
}

using Fields = std::vector<std::pair<std::string, std::string>>;

// Names of the recipes whose fields are those of this one: the same bytes by definition.
std::set<std::string> same_fields(const Recipe& recipe) {
  const auto fields = [](const Recipe& r) {
    Fields all = describe(r);
    std::erase_if(all, [](const auto& field) { return field.first == "name" || field.first == "recipe"; });
    return all;
  };
  std::set<std::string> names;
  for (const Recipe& r : all_recipes()) {
    if (fields(r) == fields(recipe)) names.insert(r.name);
  }
  return names;
}

TEST(IdentifyCast, every_rounding_and_overflow_of_every_format_is_identified) {
  for (Format format : kQuantizedFormats) {
    for (const auto& [rounding_name, rounding] : kElementRoundings) {
      for (const auto& [overflow_name, overflow] : kOverflows) {
        const Match m = identify_cast(format, casting(format, rounding, overflow));
        const std::string name = std::string(rounding_name) + ", " + std::string(overflow_name);
        EXPECT_NE(std::ranges::find(m.explaining, name), m.explaining.end()) << spec(format).name << to_text(m);
        const bool always_saturates =
            spec(format).encoding == Encoding::finite_only || spec(format).encoding == Encoding::fixed_point;
        EXPECT_EQ(m.explaining.size(), always_saturates ? 2 : 1) << spec(format).name << "\n" << to_text(m);
      }
    }
  }
}

TEST(IdentifyCast, a_code_that_is_wrong_once_is_told_with_both_answers) {
  const CastBox right = casting(Format::e4m3, Rounding::nearest_even, Overflow::saturate);
  const Match m = identify_cast(Format::e4m3, [&](std::span<const float> x) {
    std::vector<std::uint32_t> codes = right(x);
    codes[100] ^= 1;
    return codes;
  });
  EXPECT_TRUE(m.explaining.empty());
  ASSERT_FALSE(m.closest.empty());
  EXPECT_EQ(m.closest[0].name, "nearest_even, saturate");
  EXPECT_EQ(m.closest[0].equal, m.compared - 1);
  EXPECT_EQ(m.closest[0].first.row, 100);
  EXPECT_EQ(m.closest[0].first.expected ^ 1, m.closest[0].first.observed);
  EXPECT_NE(to_text(m).find("observed    0x"), std::string::npos);
}

TEST(IdentifyQuantize, every_recipe_is_identified_and_told_from_all_whose_fields_differ) {
  for (const Recipe& recipe : all_recipes()) {
    const Match m = identify_quantize(Format::e4m3, {1, 32}, quantizing(recipe));
    const std::set<std::string> explaining(m.explaining.begin(), m.explaining.end());
    EXPECT_TRUE(explaining.contains(recipe.name)) << recipe.name << "\n" << to_text(m);
    EXPECT_EQ(explaining, same_fields(recipe)) << recipe.name << "\n" << to_text(m);
  }
}

TEST(IdentifyQuantize, other_formats_and_blocks_are_identified_too) {
  for (Format format : {Format::e5m2, Format::e2m1, Format::e3m2}) {
    for (BlockShape block : {BlockShape{1, 32}, BlockShape{32, 1}, BlockShape{32, 32}}) {
      const Match m = identify_quantize(format, block, quantizing(recipe_named("te")));
      EXPECT_NE(std::ranges::find(m.explaining, "te"), m.explaining.end()) << to_text(m);
      EXPECT_EQ(std::ranges::find(m.explaining, "floor"), m.explaining.end()) << to_text(m);
    }
  }
}

TEST(IdentifyQuantize, a_recipe_of_ones_own_has_its_closest) {
  Recipe own = recipe_named("rceil");
  own.rounding = Rounding::nearest_away;
  const Match m = identify_quantize(Format::e4m3, {1, 32}, quantizing(own));
  EXPECT_TRUE(m.explaining.empty());
  ASSERT_FALSE(m.closest.empty());
  EXPECT_EQ(m.closest.front().first.part, "codes");
}

TEST(IdentifyQuantize, elements_that_no_recipe_explains_have_a_rounding_under_their_own_scales) {
  Recipe own = recipe_named("rceil");
  own.rounding = Rounding::nearest_away;
  const std::string away = "nearest_away, saturate";
  for (const BlockShape block : {BlockShape{1, 32}, BlockShape{32, 1}}) {
    const Match m = identify_elements(Format::e4m3, block, quantizing(own));
    EXPECT_EQ(m.explaining.front(), away) << to_text(m);
    EXPECT_GT(m.compared, 10'000);
  }
  EXPECT_EQ(identify_elements(Format::e4m3, {1, 32}, quantizing(recipe_named("floor"))).explaining.front(),
            "nearest_even, saturate");
  const QuantizeCall call{Format::e4m3, {1, 32}, 1, 32, std::vector<float>(32, 1.0625F)};
  EXPECT_EQ(match_elements("x", call, quantizing(own)(call)).explaining.front(), away);
}

TEST(IdentifyQuantize, inputs_of_bf16_and_what_is_declared) {
  const QuantizeBox floor = quantizing(recipe_named("floor"));
  const QuantizeBox of_bf16 = [&](const QuantizeCall& call) {
    for (float x : call.x)
      EXPECT_EQ(std::bit_cast<std::uint32_t>(x) & 0x7FFFU,
                std::isnan(x) ? std::bit_cast<std::uint32_t>(x) & 0x7FFFU : 0);
    return floor(call);
  };
  const Match wrong = identify_quantize(Format::e4m3, {1, 32}, of_bf16, {"rceil", Format::bf16});
  EXPECT_FALSE(wrong.holds());
  EXPECT_EQ(wrong.not_declared->name, "rceil");
  EXPECT_EQ(wrong.explaining.front(), "floor");
  const Match right = identify_quantize(Format::e4m3, {1, 32}, of_bf16, {"torchao_floor", Format::bf16});
  EXPECT_TRUE(right.holds()) << to_text(right);
  EXPECT_EQ(right.explaining.front(), "torchao_floor");  // the declared one first
}

TEST(IdentifyScale, the_byte_alone_names_the_rule) {
  const Match m = identify_scale(Format::e4m3, [](float amax) -> std::uint32_t {
    return scale_byte_for_amax(recipe_named("deepgemm_host"), Format::e4m3, amax);
  });
  EXPECT_EQ(m.explaining, std::vector<std::string>{"deepgemm_host"});
}

TEST(IdentifyQuantize, answers_of_another_size_are_refused) {
  EXPECT_THROW(identify_quantize(Format::e4m3, {1, 32}, [](const QuantizeCall&) { return QuantizeAnswer{}; }), Error);
  EXPECT_THROW(identify_cast(Format::e4m3, [](std::span<const float>) { return std::vector<std::uint32_t>{}; }), Error);
}

}  // namespace
}  // namespace mxcheck
