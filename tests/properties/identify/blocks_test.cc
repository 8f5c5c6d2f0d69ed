#include "properties/identify/blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

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
  bool is_wrong = true;
  const Match m = identify_cast(Format::e4m3, [&](std::span<const float> x) {
    std::vector<std::uint32_t> codes = right(x);
    if (std::exchange(is_wrong, false)) codes[100] ^= 1;
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
    const Match m = identify_quantize(Format::e4m3, {1, 32}, quantizing(recipe)).match;
    const std::set<std::string> explaining(m.explaining.begin(), m.explaining.end());
    EXPECT_TRUE(explaining.contains(recipe.name)) << recipe.name << "\n" << to_text(m);
    EXPECT_EQ(explaining, same_fields(recipe)) << recipe.name << "\n" << to_text(m);
  }
}

TEST(IdentifyQuantize, other_formats_and_blocks_are_identified_too) {
  for (Format format : {Format::e5m2, Format::e2m1, Format::e3m2}) {
    for (BlockShape block : {BlockShape{1, 32}, BlockShape{32, 1}, BlockShape{32, 32}}) {
      const Match m = identify_quantize(format, block, quantizing(recipe_named("te"))).match;
      EXPECT_NE(std::ranges::find(m.explaining, "te"), m.explaining.end()) << to_text(m);
      EXPECT_EQ(std::ranges::find(m.explaining, "floor"), m.explaining.end()) << to_text(m);
    }
  }
}

TEST(IdentifyQuantize, a_recipe_of_ones_own_has_its_closest) {
  Recipe own = recipe_named("rceil");
  own.rounding = Rounding::nearest_away;
  const Match m = identify_quantize(Format::e4m3, {1, 32}, quantizing(own)).match;
  EXPECT_TRUE(m.explaining.empty());
  ASSERT_FALSE(m.closest.empty());
  EXPECT_EQ(m.closest.front().first.part, "codes");
}

TEST(IdentifyQuantize, elements_that_no_recipe_explains_have_a_rounding_under_their_own_scales) {
  Recipe own = recipe_named("rceil");
  own.rounding = Rounding::nearest_away;
  const std::string away = "nearest_away, saturate";
  for (const BlockShape block : {BlockShape{1, 32}, BlockShape{32, 1}}) {
    const QuantizeMatch m = identify_quantize(Format::e4m3, block, quantizing(own));
    EXPECT_EQ(m.elements->explaining.front(), away) << to_text(*m.elements);
    EXPECT_GT(m.elements->compared, 10'000);
    EXPECT_EQ(m.scales->explaining.front(), "rceil") << to_text(*m.scales);
    EXPECT_EQ(m.match.slips, std::vector<std::string>{"ties away from zero; rceil otherwise"});
  }
  EXPECT_FALSE(identify_quantize(Format::e4m3, {1, 32}, quantizing(recipe_named("floor"))).elements);
  QuantizeCall call{Format::e4m3, {1, 32}, 1, 32, std::vector<float>(32, 1.0625F)};
  call.x[7] = 1.9375F;  // floor and rceil differ here
  EXPECT_EQ(match_quantize("x", call, quantizing(own)(call)).elements->explaining.front(), away);
}

TEST(IdentifyQuantize, inputs_of_bf16_and_what_is_declared) {
  const QuantizeBox floor = quantizing(recipe_named("floor"));
  const QuantizeBox of_bf16 = [&](const QuantizeCall& call) {
    for (float x : call.x)
      EXPECT_EQ(std::bit_cast<std::uint32_t>(x) & 0x7FFFU,
                std::isnan(x) ? std::bit_cast<std::uint32_t>(x) & 0x7FFFU : 0);
    return floor(call);
  };
  const Match wrong = identify_quantize(Format::e4m3, {1, 32}, of_bf16, {"rceil", Format::bf16}).match;
  EXPECT_FALSE(wrong.holds());
  EXPECT_EQ(wrong.not_declared->name, "rceil");
  EXPECT_EQ(wrong.explaining.front(), "floor");
  EXPECT_GT(2 * wrong.not_declared->equal, wrong.compared);  // of the same words: those of the gate's cases too
  const Match right = identify_quantize(Format::e4m3, {1, 32}, of_bf16, {"torchao_floor", Format::bf16}).match;
  EXPECT_TRUE(right.holds()) << to_text(right);
  EXPECT_EQ(right.explaining.front(), "torchao_floor");  // the declared one first
}

TEST(IdentifyScale, the_byte_alone_names_the_rule_whatever_the_codes) {
  const QuantizeBox right = quantizing(recipe_named("deepgemm_host"));
  const QuantizeBox no_codes = [&](const QuantizeCall& call) {
    QuantizeAnswer a = right(call);
    a.codes.assign(a.codes.size(), 1);
    return a;
  };
  EXPECT_EQ(identify_scales(Format::e4m3, {1, 32}, no_codes).explaining, std::vector<std::string>{"deepgemm_host"});
  EXPECT_THROW(identify_scales(Format::e4m3, {1, 32}, quantizing(recipe_named("fp32"))), Error);
}

// Codes and scales of quantize on x changed, elements by themselves: under the scales of another x.
QuantizeBox scaled_as(const Recipe& recipe, const std::function<float(float x, std::int64_t place)>& of_amax) {
  return [=](const QuantizeCall& call) {
    QuantizeCall other = call;
    for (std::size_t i = 0; i < other.x.size(); ++i)
      other.x[i] = of_amax(call.x[i], static_cast<std::int64_t>(i) % call.block.cols);
    QuantizeAnswer a = quantizing(recipe)(other);
    for (std::size_t i = 0; i < a.codes.size(); ++i) {
      const std::size_t block = i / static_cast<std::size_t>(call.block.cols);
      const std::uint32_t byte = a.scales[block];
      const double x = byte == 255 ? std::nan("") : std::ldexp(double{call.x[i]}, 127 - static_cast<int>(byte));
      a.codes[i] = encode(call.format, x, recipe.rounding, recipe.overflow);
    }
    return a;
  };
}

TEST(IdentifyQuantize, an_amax_over_even_places_is_no_recipe_and_has_its_name) {
  const QuantizeBox even = scaled_as(recipe_named("rceil"), [](float x, std::int64_t j) { return j % 2 == 0 ? x : 0; });
  const QuantizeMatch found = identify_quantize(Format::e4m3, {1, 32}, even, {"rceil"});
  EXPECT_FALSE(found.match.explained()) << to_text(found.match);
  EXPECT_EQ(found.match.not_declared->name, "rceil");
  EXPECT_EQ(found.match.slips, std::vector<std::string>{"an amax over every other element; rceil otherwise"});
  // Probes have their amax first: a case of the gate must say so too.
  const auto first = [](float x, std::int64_t j) { return j < 31 ? x : 0; };
  const QuantizeMatch last = identify_quantize(Format::e4m3, {1, 32}, scaled_as(recipe_named("rceil"), first));
  EXPECT_FALSE(last.match.explained()) << to_text(last.match);
  EXPECT_EQ(last.match.slips,
            std::vector<std::string>{"an amax that leaves out each block's last element; rceil otherwise"});
}

TEST(IdentifyQuantize, the_nearest_power_of_two_is_named_with_its_ties) {
  for (const bool ties_up : {true, false}) {
    const QuantizeBox box = [ties_up](const QuantizeCall& call) {
      QuantizeAnswer a;
      for (std::size_t first = 0; first < call.x.size(); first += 32) {
        float amax = 0;
        for (std::size_t i = first; i < first + 32; ++i) {
          const float x = std::fabs(call.x[i]);
          if (!(x <= amax) && !std::isnan(amax)) amax = x;
        }
        const double quotient = double{amax} / 448;
        std::uint32_t byte =
            std::isfinite(amax) ? encode(Format::e8m0, quotient, Rounding::toward_zero, Overflow::saturate) : 255;
        const double half = 1.5 * std::ldexp(1.0, static_cast<int>(byte) - 127);
        if (byte < 254 && (quotient > half || (ties_up && quotient == half))) ++byte;
        a.scales.push_back(byte);
        for (std::size_t i = first; i < first + 32; ++i) {
          const double x = byte == 255 ? std::nan("") : std::ldexp(double{call.x[i]}, 127 - static_cast<int>(byte));
          a.codes.push_back(encode(call.format, x, Rounding::nearest_even, Overflow::saturate));
        }
      }
      return a;
    };
    const Match m = identify_quantize(Format::e4m3, {1, 32}, box).match;
    EXPECT_EQ(m.explaining, std::vector<std::string>{ties_up ? "nearest, ties up" : "nearest, ties down"})
        << to_text(m);
  }
}

TEST(IdentifyCast, a_cast_that_is_wrong_in_four_fields_of_exponents_is_not_as_declared) {
  const CastBox right = casting(Format::e5m2, Rounding::nearest_even, Overflow::saturate);
  const CastBox wrong = [&](std::span<const float> x) {
    std::vector<std::uint32_t> codes = right(x);
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const std::uint32_t field = std::bit_cast<std::uint32_t>(x[i]) >> 23 & 0xFF;
      if (field >= 46 && field <= 49) codes[i] = 1;
    }
    return codes;
  };
  for (const Format type : {Format::fp32, Format::bf16})
    EXPECT_FALSE(identify_cast(Format::e5m2, wrong, {"nearest_even, saturate", type}).explained());
  EXPECT_TRUE(identify_cast(Format::e5m2, right, {"nearest_even, saturate"}).holds());
}

TEST(IdentifyCast, every_field_and_many_mantissas_are_among_what_is_asked) {
  std::vector<std::set<std::uint32_t>> mantissas(256);
  for (const CastProbe& probe : cast_probes(Format::e5m2, Format::fp32)) {
    for (const float x : probe.x) {
      const auto word = std::bit_cast<std::uint32_t>(x);
      mantissas[word >> 23 & 0xFF].insert(word & 0x7FFFFF);
    }
  }
  for (std::size_t field = 0; field < 255; ++field) EXPECT_GT(mantissas[field].size(), 128U) << field;
}

TEST(IdentifyCast, upward_and_stochastic_are_named_and_few_wrong_codes_are_not_stochastic) {
  for (const Format type : {Format::fp32, Format::bf16}) {
    EXPECT_EQ(
        identify_cast(Format::e4m3, casting(Format::e4m3, Rounding::upward, Overflow::saturate), {"", type}).explaining,
        std::vector<std::string>{"upward, saturate"});
    std::uint32_t calls = 0;
    const CastBox stochastic = [&](std::span<const float> x) {
      std::vector<std::uint32_t> codes;
      std::uint32_t word = ++calls * 2654435761U;
      for (const float v : x) {
        word = word * 1664525U + 1013904223U;
        const std::uint32_t mixed = (word ^ word >> 15) * 2246822519U;
        codes.push_back(encode(Format::e4m3, v, Rounding::stochastic, Overflow::saturate, mixed ^ mixed >> 13));
      }
      return codes;
    };
    const Match m = identify_cast(Format::e4m3, stochastic, {"nearest_even, saturate", type});
    EXPECT_EQ(m.explaining, std::vector<std::string>{"stochastic, saturate"}) << to_text(m);
    EXPECT_FALSE(m.holds());
    EXPECT_EQ(m.remarks.back(), "two calls with the same input differ: stochastic, or a race");
  }
  // Between the same two codes, and neither often enough nor seldom enough.
  const CastBox few = [](std::span<const float> x) {
    std::vector<std::uint32_t> codes;
    for (std::size_t i = 0; i < x.size(); ++i)
      codes.push_back(encode(Format::e4m3, x[i], i % 100 == 0 ? Rounding::toward_zero : Rounding::nearest_even,
                             Overflow::saturate));
    return codes;
  };
  EXPECT_TRUE(identify_cast(Format::e4m3, few).explaining.empty());
  const CastBox down = [](std::span<const float> x) {
    std::vector<std::uint32_t> codes;
    for (const float v : x)
      codes.push_back(encode(Format::e4m3, v, Rounding::stochastic, Overflow::saturate, 0x40000000U));
    return codes;
  };
  EXPECT_TRUE(identify_cast(Format::e4m3, down).explaining.empty());
}

TEST(IdentifyQuantize, answers_of_another_size_are_refused) {
  EXPECT_THROW(identify_quantize(Format::e4m3, {1, 32}, [](const QuantizeCall&) { return QuantizeAnswer{}; }), Error);
  EXPECT_THROW(identify_cast(Format::e4m3, [](std::span<const float>) { return std::vector<std::uint32_t>{}; }), Error);
}

}  // namespace
}  // namespace mxcheck
