// Blocks whose bytes are known: the shared golden cases of the field, hand-computed ones, recipes, special values.

#include "reference/quantize/quantize.h"
#include "numerics/format/codec.h"
#include "reference/quantize/cast.h"
#include "reference/quantize/encode_blocks.h"
#include "tests/reference/common/test_matrix.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;
using Codes = std::vector<std::uint8_t>;

// One block of 32 holding the values, zeros after them.
QuantizedTensor one_block(std::vector<float> values, const std::string& recipe, Format element = Format::e4m3,
                          Format dtype = Format::fp32) {
  values.resize(32);
  return quantize(TestMatrix(dtype, 1, 32, values).view(), element, {1, 32}, recipe_named(recipe));
}

struct GoldenCase {
  std::string what;
  std::vector<float> values;
  std::string recipe;
  std::uint8_t byte;
  Codes codes;  // of the values; the zeros after them are 0x00 (0x7F in a NaN block)
};

// torchao's cases for all its backends, read as whole blocks; bytes and codes by hand.
TEST(Quantize, gives_the_bytes_of_the_fields_shared_golden_cases) {
  const float bf16_max = 0x1.FEp127F;
  const float above_3_5 = std::nextafter(3.5F, 4.0F);
  const float below_512 = std::nextafter(512.0F, 0.0F);
  const std::vector<GoldenCase> cases{
      {"zeros", {0, 0}, "rceil", 0, {0, 0}},
      {"zeros", {0, 0}, "torchao", 0, {0, 0}},
      {"all 2^-126", std::vector<float>(32, 0x1p-126F), "rceil", 0, Codes(32, 0x40)},
      {"all 2^-126", std::vector<float>(32, 0x1p-126F), "floor", 0, Codes(32, 0x40)},
      {"all 2^-126", std::vector<float>(32, 0x1p-126F), "torchao", 0, Codes(32, 0x40)},
      {"an Inf", {1, kInf, 2}, "rceil", 255, Codes(32, 0x7F)},
      {"an Inf", {1, -kInf, 2}, "torchao", 255, Codes(32, 0x7F)},
      {"a NaN", {1, kNaN, 2}, "rceil", 255, Codes(32, 0x7F)},
      {"a NaN", {kNaN, 1, 2}, "torchao_floor", 255, Codes(32, 0x7F)},
      {"448", {448, -448}, "rceil", 127, {0x7E, 0xFE}},
      {"448", {448, -448}, "floor", 127, {0x7E, 0xFE}},
      {"448", {448, -448}, "torchao", 127, {0x7E, 0xFE}},
      {"largest bf16", {bf16_max, -bf16_max}, "floor", 246, {0x7E, 0xFE}},
      {"largest bf16", {bf16_max, -bf16_max}, "rceil", 247, {0x78, 0xF8}},
      {"smallest bf16", {0x1p-133F, -0x1p-133F}, "rceil", 0, {0x08, 0x88}},
      {"smallest bf16", {0x1p-133F, -0x1p-133F}, "torchao", 0, {0x08, 0x88}},
      {"smallest fp32", {0x1p-149F, -0x1p-149F}, "rceil", 0, {0x00, 0x80}},
      {"1 and -tiny", {1, -0x1p-149F}, "rceil", 119, {0x78, 0x80}},
      {"1 and -tiny", {1, -0x1p-149F}, "floor", 119, {0x78, 0x80}},
      {"480", {480}, "floor", 127, {0x7E}},
      {"480", {480}, "rceil", 128, {0x77}},
      {"next after 3.5", {above_3_5}, "rceil", 121, {0x76}},
      {"next after 3.5", {above_3_5}, "floor", 120, {0x7E}},
      {"next after 3.5", {above_3_5}, "even", 120, {0x7E}},
      {"next below 512", {below_512}, "floor", 127, {0x7E}},
      {"next below 512", {below_512}, "rceil", 128, {0x78}},
      {"next below 512", {below_512}, "ceil", 128, {0x78}},
      {"next below 512", {below_512}, "even", 128, {0x78}},
      // The one float on which the exact rule and its FP32 form differ: 448 * 2^-127 and one ulp.
      {"0x04600001", {std::bit_cast<float>(0x04600001U)}, "rceil", 1, {0x76}},
      {"0x04600001", {std::bit_cast<float>(0x04600001U)}, "torchao", 0, {0x7E}},
  };
  for (const GoldenCase& c : cases) {
    const QuantizedTensor q = one_block(c.values, c.recipe);
    Codes expected = c.codes;
    expected.resize(32);
    EXPECT_EQ(values_in<std::uint8_t>(q.scales().data), Codes{c.byte}) << c.what << ", " << c.recipe;
    EXPECT_EQ(values_in<std::uint8_t>(q.codes.data), expected) << c.what << ", " << c.recipe;
  }
}

// Block of i = 0..31: amax 31, 31 / 448 = 0.069 <= 2^-3, byte 124, elements 8 i. Odd i from 17 on are ties.
const std::vector<float> kCounting = [] {
  std::vector<float> values;
  for (int i = 0; i < 32; ++i) values.push_back(static_cast<float>(i));
  return values;
}();
const Codes kCountingCodes{0x00, 0x50, 0x58, 0x5C, 0x60, 0x62, 0x64, 0x66, 0x68, 0x69, 0x6A,
                           0x6B, 0x6C, 0x6D, 0x6E, 0x6F, 0x70, 0x70, 0x71, 0x72, 0x72, 0x72,
                           0x73, 0x74, 0x74, 0x74, 0x75, 0x76, 0x76, 0x76, 0x77, 0x78};

TEST(Quantize, gives_the_bytes_of_a_block_computed_by_hand_as_row_and_as_column) {
  const Recipe rceil = recipe_named("rceil");
  for (const Format dtype : {Format::fp32, Format::bf16, Format::fp16}) {
    const QuantizedTensor row = quantize(TestMatrix(dtype, 1, 32, kCounting).view(), Format::e4m3, {1, 32}, rceil);
    EXPECT_EQ(values_in<std::uint8_t>(row.scales().data), Codes{124});
    EXPECT_EQ(values_in<std::uint8_t>(row.codes.data), kCountingCodes);
    const QuantizedTensor col = quantize(TestMatrix(dtype, 32, 1, kCounting).view(), Format::e4m3, {32, 1}, rceil);
    EXPECT_EQ(values_in<std::uint8_t>(col.scales().data), Codes{124});
    EXPECT_EQ(values_in<std::uint8_t>(col.codes.data), kCountingCodes);
  }
}

TEST(Quantize, gives_each_block_of_two_dimensions_its_own_scale_tails_included) {
  // 3 x 5 in blocks of 2 x 2: blocks' largest magnitudes 448, 1, 7 / 896, 2, 3.5.
  const std::vector<float> values{448, 0, 1, -1, 7,  //
                                  -2,  1, 0, .5, 1,  //
                                  896, 1, 2, 1,  3.5F};
  const QuantizedTensor q = quantize(fp32_matrix(3, 5, values).view(), Format::e4m3, {2, 2}, recipe_named("rceil"));
  EXPECT_EQ(q.scale_rows(), 2);
  EXPECT_EQ(q.scale_cols(), 3);
  EXPECT_EQ(values_in<std::uint8_t>(q.scales().data), (Codes{127, 119, 121, 128, 120, 120}));
  EXPECT_EQ(values_in<std::uint8_t>(q.codes.data), (Codes{0x7E, 0x00, 0x78, 0xF8, 0x7E,     // 448 0 | 256 -256 | 448
                                                          0xC0, 0x38, 0x00, 0x70, 0x68,     // -2 1 | 0 128 | 64
                                                          0x7E, 0x30, 0x78, 0x70, 0x7E}));  // 448 0.5 | 256 128 | 448
}

struct FormatCase {
  Format element;
  std::vector<float> values;
  std::uint8_t byte;
  std::vector<std::uint32_t> codes;
};

TEST(Quantize, knows_every_element_format) {
  const std::vector<FormatCase> cases{
      {Format::e4m3, {448, 0x1p-9F, 0x1p-10F, 17}, 127, {0x7E, 0x01, 0x00, 0x58}},
      {Format::e5m2, {57344, 0x1p-16F, 0x1p-17F, 9}, 127, {0x7B, 0x01, 0x00, 0x48}},
      {Format::e2m1, {6, -5, 2.5F, .25F, .75F, 3.5F, -0.F}, 127, {0x7, 0xE, 0x4, 0x0, 0x2, 0x6, 0x8}},
      {Format::e2m3, {7.5F, -.125F, .0625F, 1}, 127, {0x1F, 0x21, 0x00, 0x08}},
      {Format::e3m2, {28, -.0625F, .03125F, 1}, 127, {0x1F, 0x21, 0x00, 0x0C}},
      {Format::mxint8, {1.984375F, -1, 0x1p-7F, 0x3p-7F, -1.984375F, -0.F}, 127, {0x7F, 0xC0, 0x00, 0x02, 0x81, 0x00}},
      {Format::e5m6, {65024, 1, -0x1p-20F, 0x1p-14F}, 127, {0x7BF, 0x3C0, 0x801, 0x040}},
  };
  for (const FormatCase& c : cases) {
    const QuantizedTensor q = one_block(c.values, "rceil", c.element);
    EXPECT_EQ(q.element(), c.element);
    EXPECT_EQ(values_in<std::uint8_t>(q.scales().data), Codes{c.byte}) << spec(c.element).name;
    EXPECT_EQ(q.codes.data.size(), c.element == Format::e5m6 ? 64U : 32U);
    auto codes = codes_of(q);
    ASSERT_EQ(codes.size(), 32U);
    codes.resize(c.codes.size());
    EXPECT_EQ(codes, c.codes) << spec(c.element).name;
  }
}

// DeepSeek's TileKernels rounds these subnormal results down, kernel and reference alike: 0.75, 1.5 and 2.75 steps.
TEST(Quantize, rounds_e5m6_subnormals_to_nearest_in_whole_rows) {
  std::vector<float> values(300, 0);
  values[0] = 65024;
  values[1] = 0.75F * 0x1p-20F, values[2] = 1.5F * 0x1p-20F, values[3] = 2.75F * 0x1p-20F;
  values[298] = -0.5F * 0x1p-20F, values[299] = -2.5F * 0x1p-20F;
  for (const Format dtype : {Format::fp32, Format::bf16, Format::fp16}) {
    for (const std::string recipe : {"rceil", "fp32"}) {
      const TestMatrix m(dtype, 1, 300, values);
      const QuantizedTensor q = quantize(m.view(), Format::e5m6, {1, 0}, recipe_named(recipe));
      EXPECT_EQ(q.scale_rows() * q.scale_cols(), 1);
      EXPECT_EQ(recipe == "fp32" ? q.scales().as<float>()[0] : decode(Format::e8m0, q.scales().code(0)), 1.0);
      EXPECT_EQ(q.codes.code(0), 0x7BF);
      EXPECT_EQ(q.codes.code(1), 1);
      EXPECT_EQ(q.codes.code(2), 2);
      EXPECT_EQ(q.codes.code(3), 3);
      EXPECT_EQ(q.codes.code(298), 0x800);
      EXPECT_EQ(q.codes.code(299), 0x802);
    }
  }
}

// 408 / 448 is no float: dividing 306 by the rounded scale gives 336, a tie; multiplying gives 336.00003. Of 4.75 / 448
// the reciprocal alone misses the tie at 84.
TEST(Quantize, keeps_fp32_scales_and_their_three_ways_to_scale_apart) {
  using Case = std::tuple<float, float, ElementScaling, double>;
  const std::vector<Case> cases{{408, 306, ElementScaling::exact, 320},
                                {408, 306, ElementScaling::times_quotient, 352},
                                {4.75F, 0.890625F, ElementScaling::exact, 80},
                                {4.75F, 0.890625F, ElementScaling::times_quotient, 80},
                                {4.75F, 0.890625F, ElementScaling::times_reciprocal, 88}};
  for (const auto& [amax, x, scaling, code_value] : cases) {
    Recipe recipe = recipe_named("fp32");
    recipe.scaling = scaling;
    const std::vector<float> values{amax, x};
    const QuantizedTensor q = quantize(fp32_matrix(1, 2, values).view(), Format::e4m3, {1, 128}, recipe);
    ASSERT_EQ(q.scales().format, Format::fp32);
    ASSERT_EQ(q.scales().size(), 1U);
    EXPECT_EQ(q.scales().as<float>()[0], amax / 448.0F);
    EXPECT_EQ(decode(Format::e4m3, q.codes.code(0)), 448);
    EXPECT_EQ(decode(Format::e4m3, q.codes.code(1)), code_value);
  }
}

TEST(Quantize, gives_blocks_whose_quotient_is_zero_an_fp32_scale_of_1) {
  const Recipe recipe = recipe_named("fp32");
  for (const float x : {0.F, 0x1p-149F}) {
    const std::vector<float> values{x, -0.F};
    const QuantizedTensor q = quantize(fp32_matrix(1, 2, values).view(), Format::e4m3, {1, 128}, recipe);
    EXPECT_EQ(values_in<float>(q.scales().data), std::vector{1.0F});
    EXPECT_EQ(values_in<std::uint8_t>(q.codes.data), (Codes{0x00, 0x80}));
  }
}

TEST(Quantize, lets_a_dropped_nan_touch_its_own_element_alone) {
  const QuantizedTensor q = one_block({1, kNaN, -2}, "te");
  Codes expected{0x70, 0x7F, 0xF8};
  expected.resize(32);
  EXPECT_EQ(values_in<std::uint8_t>(q.scales().data), Codes{120});
  EXPECT_EQ(values_in<std::uint8_t>(q.codes.data), expected);
}

TEST(Quantize, saturates_an_inf_where_the_recipe_keeps_a_finite_scale) {
  const QuantizedTensor q = one_block({kInf, 1, -kInf}, "te");
  Codes expected{0x7E, 0x00, 0xFE};
  expected.resize(32);
  EXPECT_EQ(values_in<std::uint8_t>(q.scales().data), Codes{254});
  EXPECT_EQ(values_in<std::uint8_t>(q.codes.data), expected);
}

TEST(Quantize, refuses_a_nan_by_its_first_row_and_column_whatever_the_block_and_the_threads) {
  Recipe recipe = recipe_named("rceil");
  recipe.nan = NanPolicy::refuse;
  const std::int64_t rows = 300;
  const std::int64_t cols = 700;
  std::vector<float> values(static_cast<std::size_t>(rows * cols), 1.0F);
  EXPECT_NO_THROW(quantize(fp32_matrix(rows, cols, values).view(), Format::e4m3, {1, 32}, recipe));
  values[150 * 700 + 699] = values[150 * 700 + 33] = values[151 * 700] = values[299 * 700 + 1] = kNaN;
  const TestMatrix m = fp32_matrix(rows, cols, values);
  for (const BlockShape block : kShapes) {
    for (const int threads : {1, 2, 5})
      expect_thrown(ErrorKind::input,
                    "NaN at row 150, column 33: this recipe (rceil, NaN refused) takes none; remove it, or let NaN "
                    "propagate or be dropped",
                    [&] { quantize(m.view(), Format::e4m3, block, recipe, {}, threads); });
  }
}

// The recipes by name, and the norm with one field after another set as no preset sets it alone.
std::vector<Recipe> many_recipes() {
  std::vector<Recipe> recipes(all_recipes().begin(), all_recipes().end());
  const auto add = [&](std::string name, auto change) {
    Recipe recipe = recipe_named("rceil");
    recipe.name = std::move(name);
    change(recipe);
    recipes.push_back(recipe);
  };
  add("toward zero", [](Recipe& r) { r.rounding = Rounding::toward_zero; });
  add("away", [](Recipe& r) { r.rounding = Rounding::nearest_away; });
  add("without saturation", [](Recipe& r) { r.rule = ScaleRule::floor, r.overflow = Overflow::non_saturate; });
  add("without -0", [](Recipe& r) { r.drop_negative_zero = DropNegativeZero::of_code; });
  add("-NaN, dropped", [](Recipe& r) { r.nan_sign = true, r.nan = NanPolicy::drop; });
  add("-NaN", [](Recipe& r) { r.nan_sign = true; });
  add("Inf at 0", [](Recipe& r) { r.inf_factor = 0, r.nan_factor = 1; });
  return recipes;
}

// The fast path of quantize.cc and every other: each code is encode_element's, each scale block_scale's.
TEST(Quantize, equals_block_scale_and_encode_element_for_every_recipe_on_every_bf16) {
  std::vector<std::uint16_t> bits(65536);
  for (std::uint32_t i = 0; i < 65536; ++i) bits[i] = static_cast<std::uint16_t>(i * 40503U);  // odd: a permutation
  const MatrixView m{Format::bf16, std::as_bytes(std::span(bits)).data(), 2048, 32, 32};
  for (const Recipe& recipe : many_recipes()) {
    for (const Format element : {Format::e4m3, Format::e5m2, Format::e2m1}) {
      const QuantizedTensor q = quantize(m, element, {1, 4}, recipe);
      for (std::int64_t block = 0; block < 65536 / 4; ++block) {
        BlockAmax amax;
        for (std::int64_t i = 4 * block; i < 4 * block + 4; ++i) {
          const float x = m.at(i / 32, i % 32);
          amax.has_nan = amax.has_nan || std::isnan(x);
          if (std::fabs(x) > amax.amax) amax.amax = std::fabs(x);  // std::fmax would let a signaling NaN win
        }
        const BlockScale scale = block_scale(recipe, element, amax);
        const auto b = static_cast<std::size_t>(block);
        if (recipe.rule == ScaleRule::fp32) {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(q.scales().as<float>()[b]), std::bit_cast<std::uint32_t>(scale.scale));
        } else {
          ASSERT_EQ(q.scales().code(b), scale.byte) << recipe.name;
        }
        for (std::int64_t i = 4 * block; i < 4 * block + 4; ++i)
          ASSERT_EQ(q.codes.code(static_cast<std::size_t>(i)),
                    encode_element(recipe, element, scale, m.at(i / 32, i % 32)))
              << recipe.name << ", " << spec(element).name << ", bf16 bits " << bits[static_cast<std::size_t>(i)];
      }
    }
  }
}

TEST(Quantize, refuses_what_makes_no_sense_and_says_what_would) {
  const std::vector<float> values(8, 1.0F);
  const TestMatrix m = fp32_matrix(2, 4, values);
  const Recipe rceil = recipe_named("rceil");
  Recipe stochastic = rceil;
  stochastic.rounding = Rounding::stochastic;
  const std::vector<std::int64_t> offsets{0, 1};
  const auto text = [](auto call) { return text_thrown(ErrorKind::usage, call); };
  const std::string elements = ": must be one of e4m3, e5m2, e2m1, e2m3, e3m2, mxint8, e5m6";
  for (const Format wrong : {Format::e8m0, Format::bf16, Format::fp16, Format::fp32}) {
    EXPECT_EQ(text([&] {
                quantize(m.view(), wrong, {1, 32}, rceil);
              }),
              "element format " + std::string(spec(wrong).name) + elements);
  }
  EXPECT_EQ(text([&] {
              quantize(m.view(), Format::e4m3, {-1, 32}, rceil);
            }),
            "block of -1x32: rows and columns must be 1 or more, or 0 for all of them");
  EXPECT_EQ(text([&] {
              quantize(m.view(), Format::e4m3, {1, -2}, rceil);
            }),
            "block of 1x-2: rows and columns must be 1 or more, or 0 for all of them");
  EXPECT_EQ(text([&] { quantize_dual(m.view(), Format::e4m3, -32, rceil); }),
            "block of 1x-32: rows and columns must be 1 or more, or 0 for all of them");
  EXPECT_EQ(text([&] {
              quantize(m.view(), Format::e4m3, {1, 32}, rceil, offsets);
            }),
            "last offset (offset 1) is 1: must be the number of rows, 2");
  EXPECT_EQ(text([&] {
              quantize(m.view(), Format::e4m3, {1, 32}, rceil, {}, -1);
            }),
            "-1 threads: must be 1 or more, or 0 for the machine's");
  EXPECT_EQ(text([&] {
              quantize(m.view(), Format::e4m3, {1, 32}, stochastic);
            }),
            "recipe rceil rounds stochastically: it needs 8 random words, one for each element, not 0");
  MatrixView bad = m.view();
  bad.row_stride = 3;
  EXPECT_EQ(text([&] {
              quantize(bad, Format::e4m3, {1, 32}, rceil);
            }),
            "matrix row stride 3: must be at least the 4 columns of a row");
}

TEST(Quantize, says_so_when_there_is_no_memory) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer ends the process instead of refusing the allocation";
  const std::byte byte{};
  const std::int64_t side = std::int64_t{1} << 30;
  const MatrixView m{Format::fp32, &byte, side, side, side};
  expect_thrown(ErrorKind::environment, "codes: no memory for 1152921504606846976 values of 1 bytes", [&] {
    quantize(m, Format::e4m3, {1, 32}, recipe_named("rceil"));
  });
}

// The definition, one element after the other.
std::uint8_t code_of(const Recipe& recipe, Format element, float x) {
  BlockScale one;
  one.byte = 127, one.scale = 1, one.factor = 1;
  return static_cast<std::uint8_t>(encode_element(recipe, element, one, x));
}

void expect_definition(const MatrixView& x, Format element, const Recipe& recipe) {
  const std::vector<std::uint8_t> codes = cast(x, element, recipe);
  ASSERT_EQ(codes.size(), static_cast<std::size_t>(x.rows * x.cols));
  for (std::int64_t i = 0; i < x.rows; ++i) {
    for (std::int64_t j = 0; j < x.cols; ++j)
      ASSERT_EQ(codes[static_cast<std::size_t>(i * x.cols + j)], code_of(recipe, element, x.at(i, j)))
          << recipe.name << " " << spec(element).name << " " << std::hexfloat << x.at(i, j);
  }
}

TEST(Cast, every_word_of_16_bits_is_encoded_by_the_definition_of_each_recipe) {
  std::vector<std::uint16_t> words(1 << 16);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::uint16_t>(i);
  for (const Format dtype : {Format::bf16, Format::fp16}) {
    const MatrixView x{dtype, std::as_bytes(std::span(words)).data(), 256, 256, 256};
    for (const Format element : kElementFormats) {
      for (const Recipe& recipe : all_recipes()) expect_definition(x, element, recipe);
    }
  }
}

// Each code and midpoint of the format, and FP32's neighbours of both: where a rounding goes wrong. And every exponent.
TEST(Cast, fp32_words_where_codes_change_are_encoded_by_the_definition) {
  for (const Format element : kElementFormats) {
    std::vector<float> values{0, 0x1p-149F, std::numeric_limits<float>::infinity(), NAN};
    for (int exponent = -149; exponent < 128; ++exponent) values.push_back(std::ldexp(1.37F, exponent));
    for (std::uint32_t code = 0; code <= spec(element).max_code; ++code) {
      const double low = decode(element, code);
      const double high = code < spec(element).max_code ? decode(element, code + 1) : 2 * low;
      for (const double quarter : {0.0, 0.25, 0.5, 0.75}) {
        const auto x = static_cast<float>(low + quarter * (high - low));
        values.insert(values.end(), {x, std::nextafter(x, 0.0F), std::nextafter(x, INFINITY)});
      }
    }
    for (std::size_t i = 0, n = values.size(); i < n; ++i) values.push_back(-values[i]);
    const auto count = static_cast<std::int64_t>(values.size());
    for (const Recipe& recipe : all_recipes())
      expect_definition({Format::fp32, std::as_bytes(std::span(values)).data(), 1, count, count}, element, recipe);
  }
}

TEST(Cast, gaps_between_rows_and_the_thread_count_change_nothing) {
  std::vector<float> values(300 * 130);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::ldexp(static_cast<float>(i % 97) - 48, static_cast<int>(i % 7));
  const MatrixView gaps{Format::fp32, std::as_bytes(std::span(values)).data(), 300, 117, 130};
  const Recipe recipe = recipe_named("rceil");
  expect_definition(gaps, Format::e4m3, recipe);
  for (const std::int64_t cols : {1, 3, 130}) {
    const MatrixView dense{Format::fp32, gaps.data, 39'000 / cols, cols, cols};
    expect_definition(dense, Format::e5m2, recipe);
    EXPECT_EQ(cast(dense, Format::e5m2, recipe, 1), cast(dense, Format::e5m2, recipe, 3));
  }
  EXPECT_TRUE(cast({Format::fp32, nullptr, 0, 5, 5}, Format::e4m3, recipe).empty());
  EXPECT_TRUE(cast({Format::fp32, nullptr, 5, 0, 0}, Format::e4m3, recipe).empty());
}

// A tie and the FP64 values beside it, which FP32 rounds to the tie.
TEST(Cast, of_fp64_rounds_once) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const Format f : {Format::e4m3, Format::e5m2, Format::e2m1}) {
    std::vector<double> values;
    std::vector<std::uint8_t> codes;
    const auto sign = static_cast<std::uint8_t>(1U << (spec(f).bits - 1));
    const auto add = [&](double value, std::uint32_t code) {
      values.insert(values.end(), {value, -value});
      codes.insert(codes.end(), {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(code | sign)});
    };
    for (std::uint32_t code = 0; code < spec(f).max_code; ++code) {
      const double tie = (decode(f, code) + decode(f, code + 1)) / 2;
      add(std::nextafter(tie, 0), code);
      add(tie, code + code % 2);
      add(std::nextafter(tie, kInfinity), code + 1);
    }
    add(std::numeric_limits<double>::denorm_min(), 0);
    add(std::numeric_limits<double>::max(), spec(f).max_code);
    add(kInfinity, spec(f).max_code);
    EXPECT_EQ(cast(values, f, Rounding::nearest_even, Overflow::saturate), codes);
    EXPECT_EQ(cast(values, f, Rounding::nearest_even, Overflow::saturate, 3), codes);
  }
  const std::vector<double> nan{std::numeric_limits<double>::quiet_NaN()};
  EXPECT_EQ(cast(nan, Format::e4m3, Rounding::nearest_even, Overflow::saturate), std::vector<std::uint8_t>{0x7F});
  EXPECT_THROW(cast(nan, Format::bf16, Rounding::nearest_even, Overflow::saturate), Error);
}

TEST(Cast, refuses_formats_without_codes_of_a_byte) {
  const float x = 1;
  for (const Format format : {Format::e5m6, Format::bf16, Format::e8m0})
    EXPECT_THROW(
        (void)cast({Format::fp32, std::as_bytes(std::span(&x, 1)).data(), 1, 1, 1}, format, recipe_named("rceil")),
        Error);
}

constexpr Format kFormats[] = {Format::e4m3, Format::e5m2, Format::e2m1, Format::e2m3, Format::e3m2};

// Every value and midpoint of the format and beyond, moved by an ulp of FP32 to either side, and the ends of FP32.
std::vector<float> telling_values(Format element) {
  std::vector<float> values{0, 0x1p-149F, 0x1p-126F, 0x1.fffffep127F, INFINITY, NAN};
  for (std::uint32_t code = 0; code <= spec(element).max_code; ++code) {
    const double value = decode(element, code);
    const double step = code == 0 ? decode(element, 1) : value - decode(element, code - 1);
    for (const double quarter : {0.0, 0.25, 0.5, 0.75, 1.0, 1.5}) {
      const auto x = static_cast<float>(value + quarter * step);
      values.insert(values.end(), {x, std::nextafter(x, 0.0F), std::nextafter(x, INFINITY)});
    }
  }
  const std::size_t positive = values.size();
  for (std::size_t i = 0; i < positive; ++i) values.push_back(-values[i]);
  return values;
}

TEST(EncodeBlocks, is_encode_of_every_format_at_every_factor_that_a_scale_has) {
  for (const Format element : kFormats) {
    std::vector<float> values = telling_values(element);
    for (int exponent = -127; exponent <= 127; ++exponent) {
      const double factor = std::ldexp(1.0, exponent);
      std::vector<float> scaled = values;  // what is telling after the factor, where FP32 has it
      for (float& v : scaled) v = static_cast<float>(v / factor);
      for (const std::vector<float>& x : {values, scaled}) {
        for (const std::size_t width : {std::size_t{1}, std::size_t{5}, std::size_t{32}}) {
          const std::vector<double> factors((x.size() + width - 1) / width, factor);
          std::vector<std::uint8_t> codes(x.size());
          detail::encode_blocks({element, x, width, factors, codes.data()});
          for (std::size_t i = 0; i < x.size(); ++i)
            ASSERT_EQ(codes[i], encode(element, x[i] * factor, Rounding::nearest_even, Overflow::saturate))
                << spec(element).name << " " << std::hexfloat << x[i] << " * " << factor << " in blocks of " << width;
        }
      }
    }
  }
}

TEST(EncodeBlocks, each_block_has_its_own_factor_and_the_last_one_may_be_short) {
  const std::vector<float> x(100, 1.0F);
  const std::vector<double> factors{1, 2, 4, 8};
  std::vector<std::uint8_t> codes(x.size() + 1, 0xEE);
  detail::encode_blocks({Format::e4m3, x, 32, factors, codes.data()});
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(decode(Format::e4m3, codes[i]), factors[i / 32]) << i;
  EXPECT_EQ(codes.back(), 0xEE);
}

}  // namespace
}  // namespace mxcheck
