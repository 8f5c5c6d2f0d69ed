// The presets of NVFP4: the norm against rational arithmetic, each other one against its formulas written out, and that
// every two differ somewhere; decoding in rationals.

#include <fmt/format.h>
#include <boost/multiprecision/cpp_int.hpp>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/scale/recipe.h"
#include "reference/quantize/quantize.h"
#include "tests/reference/common/test_matrix.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;
using Rational = boost::multiprecision::cpp_rational;

constexpr float kLargestFloat = std::numeric_limits<float>::max();

// The code of the value nearest to v >= 0 among those of codes 0 ... last, ties to the even code; more than the largest
// is the largest. A float, and a midpoint, is a double exactly.
template <class Number>
std::uint32_t nearest_code(Format format, std::uint32_t last, const Number& v) {
  for (std::uint32_t code = 0; code < last; ++code) {
    const Number middle((decode(format, code) + decode(format, code + 1)) / 2);
    if (v < middle || (v == middle && code % 2 == 0)) return code;
  }
  return last;
}

std::uint32_t e2m1_of(float v) {
  if (std::isnan(v)) return 7;
  const std::uint32_t sign = std::signbit(v) ? 8 : 0;
  if (std::isinf(v)) return sign | 7;
  return sign | nearest_code(Format::e2m1, 7, double{std::fabs(v)});
}

std::uint32_t e4m3_of(float v) {
  if (std::isnan(v)) return 0x7F;
  if (std::isinf(v)) return 0x7E;
  return nearest_code(Format::e4m3, 0x7E, double{v});
}

float value_of_e4m3(std::uint32_t code) { return static_cast<float>(decode(Format::e4m3, code)); }

// A block of 16 as an implementation quantizes it.
struct BlockAnswer {
  std::uint32_t scale = 0;
  std::array<std::uint32_t, 16> codes{};
  friend bool operator==(const BlockAnswer&, const BlockAnswer&) = default;
};

float block_amax(std::span<const float> x, bool drops_nan) {
  float amax = 0;
  for (const float v : x) {
    if (std::isnan(v) && !drops_nan) return kNaN;
    if (std::fabs(v) > amax) amax = std::fabs(v);
  }
  return amax;
}

using Implementation = std::function<BlockAnswer(std::span<const float>, float)>;

BlockAnswer with_factor(std::uint32_t scale, std::span<const float> x, float factor) {
  BlockAnswer a{scale, {}};
  for (std::size_t i = 0; i < 16; ++i) {
    const float v = x[i] * factor;
    a.codes[i] = scale == 0x7F ? 7 : e2m1_of(v);
  }
  return a;
}

BlockAnswer with_divisor(std::uint32_t scale, std::span<const float> x, float divisor, bool drops_sign = false) {
  BlockAnswer a{scale, {}};
  for (std::size_t i = 0; i < 16; ++i) {
    float v = x[i] / divisor;
    if (drops_sign && v == 0) v = 0;
    a.codes[i] = scale == 0x7F ? 7 : e2m1_of(v);
  }
  return a;
}

float clamped(float v, float low) { return v < low ? low : v > 448 ? 448 : v; }

float inverse_in_te(float product) { return std::fmin(1.0F / product, kLargestFloat); }

// The formulas of each implementation, from its amax. Each line of arithmetic is one operation of the source.
const std::map<std::string, Implementation>& implementations() {
  static const std::map<std::string, Implementation> all{
      {"nvfp4_te",
       [](std::span<const float> x, float amax) {
         float enc = std::fmin(2688.0F / amax, kLargestFloat);
         if (amax == 0 || enc == 0) enc = 1;
         const float multiplier = enc * (1.0F / 6.0F);
         const float quotient = std::fmin(block_amax(x, true) * multiplier, kLargestFloat);
         const std::uint32_t scale = e4m3_of(quotient);
         const float dec = 1.0F / enc;
         return with_factor(scale, x, inverse_in_te(value_of_e4m3(scale) * dec));
       }},
      {"nvfp4_te_2_8",
       [](std::span<const float> x, float amax) {
         float enc = std::fmin(2688.0F / amax, kLargestFloat);
         if (amax == 0 || enc == 0) enc = 1;
         const float sixth = block_amax(x, true) / 6.0F;
         const std::uint32_t scale = e4m3_of(std::fmin(sixth * enc, kLargestFloat));
         const float dec = 1.0F / enc;
         return with_factor(scale, x, inverse_in_te(value_of_e4m3(scale) * dec));
       }},
      {"nvfp4_cutlass",
       [](std::span<const float> x, float amax) {
         float st = 2688.0F / amax;
         if (amax == 0 || st == 0) st = 1;
         if (st > kLargestFloat) st = kLargestFloat;
         const float k = st * (1.0F / 6.0F);
         const std::uint32_t scale = e4m3_of(block_amax(x, false) * k);
         float factor = st * (1.0F / value_of_e4m3(scale));
         if (factor > kLargestFloat) factor = kLargestFloat;
         return with_factor(scale, x, factor);
       }},
      {"nvfp4_modelopt",
       [](std::span<const float> x, float amax) {
         const float g = amax / 2688.0F;
         const float sixfold = 6.0F * g;
         float quotient = block_amax(x, false) / sixfold;
         if (quotient == 0) quotient = 1;
         const std::uint32_t scale = e4m3_of(clamped(quotient, 0x1p-9F));
         return with_divisor(scale, x, value_of_e4m3(scale) * g, true);
       }},
      {"nvfp4_torchao",
       [](std::span<const float> x, float amax) {
         const float s = amax / 2688.0F;
         const float sixth = block_amax(x, false) / 6.0F;
         const std::uint32_t scale = e4m3_of(clamped(sixth / s, 0x1p-6F));
         const float inverse = 1.0F / s;
         return with_factor(scale, x, inverse / value_of_e4m3(scale));
       }},
      {"nvfp4_mslk",
       [](std::span<const float> x, float amax) {
         const float s = amax / 2688.0F;
         const float g = 1.0F / s;
         const float sixth = block_amax(x, false) / 6.0F;
         const std::uint32_t scale = e4m3_of(clamped(sixth * g, 0x1p-9F));
         return with_factor(scale, x, g / value_of_e4m3(scale));
       }},
      {"nvfp4_torchao_0_16",
       [](std::span<const float> x, float amax) {
         const float s = amax / 2688.0F;
         const float sixth = block_amax(x, false) / 6.0F;
         const std::uint32_t scale = e4m3_of(clamped(sixth / s, 0x1p-16F));
         return with_divisor(scale, x, s * value_of_e4m3(scale));
       }},
      {"nvfp4_flashinfer",
       [](std::span<const float> x, float amax) {
         const float g = amax == 0 ? kLargestFloat : 2688.0F / amax;
         const float b = block_amax(x, true);
         const float multiplier = g * (1.0F / 6.0F);
         const std::uint32_t scale = b == 0 ? 0 : e4m3_of(b * multiplier);
         const float factor = b == 0 ? 0 : inverse_in_te(value_of_e4m3(scale) * (1.0F / g));
         return with_factor(scale, x, factor);
       }},
      {"nvfp4_vllm",
       [](std::span<const float> x, float amax) {
         const float g = amax == 0 ? 1 : 2688.0F / amax;
         const float sixth = block_amax(x, true) * (1.0F / 6.0F);
         const std::uint32_t scale = e4m3_of(g * sixth);
         const float product = value_of_e4m3(scale) * (1.0F / g);
         return with_factor(scale, x, scale == 0 ? 0 : 1.0F / product);
       }},
      {"nvfp4_trtllm",
       [](std::span<const float> x, float amax) {
         const float g = amax == 0 ? 1 : 2688.0F / amax;
         const float sixth = block_amax(x, true) * (1.0F / 6.0F);
         const float wide = g * sixth;
         const std::uint32_t scale = e4m3_of(wide);
         const float product = value_of_e4m3(scale) * (1.0F / g);
         return with_factor(scale, x, wide == 0 ? 0 : 1.0F / product);
       }},
      {"nvfp4_compressed_tensors",
       [](std::span<const float> x, float amax) {
         float g = 2688.0F / (amax < std::numeric_limits<float>::min() ? std::numeric_limits<float>::min() : amax);
         if (!std::isfinite(g)) g = 1;
         const float sixth = block_amax(x, false) / 6.0F;
         std::uint32_t scale = e4m3_of(clamped(sixth * g, -448));
         if (scale == 0) scale = e4m3_of(0.125F);
         return with_divisor(scale, x, value_of_e4m3(scale) / g);
       }},
      {"nvfp4_46",
       [](std::span<const float> x, float amax) {
         const float enc = amax == 0 ? 1 : 1536.0F / amax;
         const float dec = 1.0F / enc;
         const float sixth = block_amax(x, false) / 6.0F;
         const float high = sixth * enc;
         std::array<BlockAnswer, 2> answers;
         std::array<float, 2> errors{};
         for (std::size_t c = 0; c < 2; ++c) {
           const std::uint32_t scale = e4m3_of(c == 0 ? high : high * 1.5F);
           const float product = dec * value_of_e4m3(scale);
           answers[c] = with_factor(scale, x, scale == 0 ? 0 : 1.0F / product);
           for (std::size_t i = 0; i < 16; ++i) {
             float value = static_cast<float>(decode(Format::e2m1, answers[c].codes[i])) * value_of_e4m3(scale);
             value = value * amax;
             value = value / 1536.0F;
             const float error = x[i] - value;
             const float square = error * error;
             errors[c] = errors[c] + square;
           }
         }
         return answers[errors[1] < errors[0] ? 1 : 0];
       }},
  };
  return all;
}

// The norm, in rationals: s is the one float.
BlockAnswer norm(std::span<const float> x, float amax) {
  float s = amax / 2688.0F;
  if (s == 0) s = 1;
  float b = 0;
  for (const float v : x) {
    if (!std::isfinite(v)) return {0x7F, {7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7}};
    b = std::max(b, std::fabs(v));
  }
  BlockAnswer a;
  a.scale = nearest_code(Format::e4m3, 0x7E, Rational(b) / (6 * Rational(s)));
  for (std::size_t i = 0; i < 16; ++i) {
    const std::uint32_t sign = std::signbit(x[i]) ? 8 : 0;
    const Rational step = Rational(decode(Format::e4m3, a.scale)) * Rational(s);
    a.codes[i] = sign | (a.scale == 0 ? 0 : nearest_code(Format::e2m1, 7, Rational(std::fabs(x[i])) / step));
  }
  return a;
}

// Blocks next to all that can change a bit: the block's amax at midpoints of E4M3 scales, then elements at midpoints of
// codes under each scale, some floats to either side; zeros of both signs, blocks of zeros, and scales that underflow.
std::vector<float> hard_blocks(float amax, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  const float s = amax / 2688.0F;
  const auto moved = [&](double value) {
    auto v = static_cast<float>(value);
    for (std::uint64_t n = engine() % 4; n > 0; --n) v = std::nextafter(v, engine() % 2 == 0 ? 0.0F : kLargestFloat);
    return std::min(v, amax);
  };
  std::vector<float> x{amax};
  x.resize(16);
  for (std::uint32_t code = 0; code < 0x7E; ++code) {
    const double middle = (decode(Format::e4m3, code) + decode(Format::e4m3, code + 1)) / 2;
    for (int copy = 0; copy < 3; ++copy) {
      const float b = moved(middle * 6 * s);
      x.push_back(b);
      for (int i = 1; i < 16; ++i) {
        static constexpr double kMiddles[] = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 0};
        const double scale = decode(Format::e4m3, code + engine() % 2);
        const float v = std::min(b, moved(kMiddles[engine() % 8] * scale * s));
        x.push_back(engine() % 2 == 0 ? v : -v);
      }
    }
  }
  for (int i = 0; i < 16; ++i) x.push_back(i % 2 == 0 ? 0.0F : -0.0F);
  for (int i = 0; i < 16; ++i) x.push_back(i % 3 == 0 ? amax * 0x1p-22F : -0.0F);  // below half the smallest scale
  for (int i = 0; i < 16; ++i) x.push_back(i == 5 ? -amax * 0x1p-120F : 0.0F);
  return x;
}

std::vector<float> amaxes_to_try() {
  return {1,
          2688,
          448,
          6,
          3.1415927F,
          0x1.FFFFFEp+3F,
          0x1.000002p-7F,
          0x1p-100F,
          0x1.89p+100F,
          0x1.1p-115F,
          kLargestFloat,
          0x1p-128F,
          0x1p-140F,
          0x1p-149F};
}

BlockAnswer answer_of(const QuantizedTensor& q, std::size_t block) {
  BlockAnswer a{q.scales().code(block), {}};
  for (std::size_t i = 0; i < 16; ++i) a.codes[i] = q.codes.code(block * 16 + i);
  return a;
}

std::string text_of(const BlockAnswer& a) {
  std::string text = fmt::format("{:#04x}:", a.scale);
  for (const std::uint32_t code : a.codes) text += fmt::format(" {:x}", code);
  return text;
}

std::string text_of(std::span<const float> x) {
  std::string text;
  for (const float v : x) text += fmt::format(" {:a}", v);
  return text;
}

QuantizedTensor quantized(const std::vector<float>& x, const std::string& recipe) {
  return quantize(fp32_matrix(1, std::ssize(x), x).view(), Format::e2m1, {1, 16}, any_recipe_named(recipe));
}

// The implementation's own amax of a tensor of finite numbers is the largest magnitude.
void expect_answers(const std::string& name, const Implementation& implementation, const std::vector<float>& x) {
  const float amax = block_amax(x, true);
  const QuantizedTensor q = quantized(x, name);
  for (std::size_t block = 0; block < x.size() / 16; ++block) {
    const std::span<const float> values = std::span(x).subspan(block * 16, 16);
    const BlockAnswer expected = implementation(values, amax);
    ASSERT_EQ(text_of(answer_of(q, block)), text_of(expected)) << name << " amax " << amax << ":" << text_of(values);
  }
}

TEST(TwoLevelPresets, the_norm_is_the_definition_in_rationals) {
  for (const float amax : amaxes_to_try()) expect_answers("nvfp4", norm, hard_blocks(amax, 1));
  expect_answers("nvfp4", norm, random_values(16 * 200, 3));
  std::vector<float> special(64, 1);
  special[17] = kNaN;
  special[40] = -kInf;
  const QuantizedTensor q = quantized(special, "nvfp4");
  for (std::size_t block = 0; block < 4; ++block) {
    EXPECT_EQ(answer_of(q, block), norm(std::span(special).subspan(block * 16, 16), 1)) << block;
  }
  EXPECT_EQ(q.levels.at(1).scale(0), 1.0F / 2688.0F) << "of the finite elements";
}

TEST(TwoLevelPresets, every_preset_has_the_bits_of_its_formulas_written_out) {
  std::set<std::string> names;
  for (const Recipe& recipe : two_level_recipes()) names.insert(recipe.name);
  names.erase("nvfp4");
  for (const auto& [name, implementation] : implementations()) {
    EXPECT_EQ(names.erase(name), 1U) << name;
    for (const float amax : amaxes_to_try()) expect_answers(name, implementation, hard_blocks(amax, 2));
    expect_answers(name, implementation, random_values(16 * 100, 4));
    expect_answers(name, implementation, std::vector<float>(48, 0.0F));
  }
  EXPECT_TRUE(names.empty()) << *names.begin() << " has no formulas here";
}

// NaN and Inf: a tensor's amax is NaN or Inf, or drops the NaN.
TEST(TwoLevelPresets, presets_treat_NaN_and_infinity_as_their_implementations_do) {
  for (const float special : {kNaN, kInf, -kInf}) {
    std::vector<float> x = random_values(64, 9);
    for (float& v : x) v = std::isfinite(v) ? v : 1;
    x[19] = special;
    for (const auto& [name, implementation] : implementations()) {
      const Recipe recipe = any_recipe_named(name);
      const bool drops = recipe.two_level.amax == TensorAmax::drops_nan;
      const float amax = block_amax(x, drops);
      const QuantizedTensor q = quantized(x, name);
      for (std::size_t block = 0; block < 4; ++block) {
        EXPECT_EQ(text_of(answer_of(q, block)), text_of(implementation(std::span(x).subspan(block * 16, 16), amax)))
            << name << " " << special << " block " << block;
      }
    }
  }
}

// Two presets that no input tells apart would be one.
TEST(TwoLevelPresets, every_two_presets_differ_somewhere) {
  std::map<std::string, std::string> bits;
  for (const Recipe& recipe : two_level_recipes()) {
    for (const float amax : amaxes_to_try()) {
      const std::vector<float> x = hard_blocks(amax, 7);
      const QuantizedTensor q = quantized(x, recipe.name);
      for (std::size_t block = 0; block < x.size() / 16; ++block) bits[recipe.name] += text_of(answer_of(q, block));
    }
    bits[recipe.name] += text_of(answer_of(quantized(std::vector<float>(16, 0.0F), recipe.name), 0));
  }
  for (const auto& [a, of_a] : bits) {
    for (const auto& [b, of_b] : bits) {
      if (a < b) {
        EXPECT_NE(of_a, of_b) << a << " and " << b;
      }
    }
  }
}

// code * b * s, code * b / S or code * b * amax / 2688, in rationals, rounded once.
TEST(TwoLevelPresets, dequantizing_rounds_the_exact_value_once) {
  for (const Recipe& recipe : two_level_recipes()) {
    for (const float amax : {3.1415927F, 0x1.89p+100F, 0x1.1p-115F}) {
      const std::vector<float> x = hard_blocks(amax, 31);
      const QuantizedTensor q = quantized(x, recipe.name);
      const std::vector<float> values = dequantize(q);
      const float stored = std::bit_cast<float>(q.levels.at(1).scales.code(0));
      for (std::size_t i = 0; i < x.size(); i += 3) {
        Rational exact = Rational(decode(Format::e2m1, q.codes.code(i))) * Rational(q.scale(i / 16));
        if (recipe.two_level.stored == StoredScale::decode) exact *= Rational(stored);
        if (recipe.two_level.stored == StoredScale::encode) exact /= Rational(stored);
        if (recipe.two_level.stored == StoredScale::amax) {
          exact *= Rational(stored) / Rational(recipe.two_level.limit * 6);
        }
        const auto error = [&](float v) -> Rational { return abs(Rational(v) - exact); };
        const float v = values[i];
        ASSERT_TRUE(std::isfinite(v));
        EXPECT_LE(error(v), error(std::nextafter(v, kLargestFloat))) << recipe.name << " " << i;
        EXPECT_LE(error(v), error(std::nextafter(v, -kLargestFloat))) << recipe.name << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace mxcheck
