// The recipe quartet2: MS-EDEN of lines of any length, rotation by random signs along k of both operands, and weights
// and X quantized again, each computed here a second time from docs/layer.md.

#include <boost/multiprecision/cpp_int.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "numerics/elementary/elementary.h"
#include "numerics/format/codec.h"
#include "reference/layer/layer.h"
#include "reference/quantize/ms_eden.h"
#include "reference/quantize/stretches.h"
#include "tests/reference/common/test_matrix.h"
#include "tests/reference/layer/test_layer.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;
using Rational = boost::multiprecision::cpp_rational;

// FP32 of a positive rational: the nearest of three neighbours.
float float_nearest_to(const Rational& v) {
  auto guess = v.convert_to<float>();
  for (const float other : {std::nextafter(guess, 0.0F), std::nextafter(guess, kInf)}) {
    if (Rational(abs(Rational(other) - v)) < Rational(abs(Rational(guess) - v))) guess = other;
  }
  return guess;
}

// The code among 0 ... last whose value is the next one below or at v, which is not negative.
std::uint32_t code_below(Format format, std::uint32_t last, double v) {
  std::uint32_t code = last;
  while (decode(format, code) > v) --code;
  return code;
}

// v rounded by a word: up if the word and the first 32 bits of the fraction between two neighbours carry.
std::uint32_t by_word(Format format, std::uint32_t last, double v, std::uint32_t word) {
  const std::uint32_t low = code_below(format, last, v);
  if (low == last) return low;
  const double below = decode(format, low);
  const double fraction = std::floor((v - below) / (decode(format, low + 1) - below) * 0x1p32);
  return fraction + word >= 0x1p32 ? low + 1 : low;
}

std::uint32_t to_nearest(Format format, std::uint32_t last, double v) {
  const std::uint32_t low = code_below(format, last, v);
  if (low == last) return low;
  const double middle = (decode(format, low) + decode(format, low + 1)) / 2;
  return v > middle || (v == middle && low % 2 != 0) ? low + 1 : low;
}

constexpr std::uint32_t kMostE4m3 = 0x7E;
constexpr std::uint32_t kMostE2m1 = 7;

struct LineCodes {
  std::vector<std::uint32_t> codes, scales;
};

// One line by the definition. words[i] is the word of its element i.
LineCodes line_by_definition(const std::vector<float>& x, float s, int group, const std::vector<std::uint32_t>& words) {
  const float code_max = static_cast<float>(6 / ((17.0 / 16) * 0.93));
  LineCodes out;
  const auto sign_of = [](float v) { return std::signbit(v) ? 8U : 0U; };
  for (std::size_t first = 0; first < x.size();) {
    std::size_t size = static_cast<std::size_t>(group);
    while (size >= 16 && first + size > x.size()) size /= 2;
    const bool rest = size < 16;
    if (rest) size = x.size() - first;
    std::vector<float> q;
    Rational of_x = 0, of_both = 0;
    for (std::size_t b = first; b < first + size; b += 16) {
      const std::size_t end = std::min(b + 16, first + size);
      float a = 0;
      for (std::size_t i = b; i < end; ++i) a = std::max(a, std::fabs(x[i]));
      const float quotient = a / (rest ? 6 : code_max) / s;
      std::uint32_t byte = to_nearest(Format::e4m3, kMostE4m3, quotient);
      if (rest && decode(Format::e4m3, byte) < quotient) ++byte;
      q.push_back(byte == 0 ? 1.0F : static_cast<float>(decode(Format::e4m3, byte)));
      for (std::size_t i = b; i < end; ++i) {
        const float scaled = std::fabs(x[i]) / (q.back() * s);
        const std::uint32_t code =
            rest ? by_word(Format::e2m1, kMostE2m1, scaled, words[i]) : to_nearest(Format::e2m1, kMostE2m1, scaled);
        out.codes.push_back(code | sign_of(x[i]));
        of_x += Rational(x[i]) * Rational(x[i]);
        of_both += Rational(std::fabs(x[i])) * Rational(decode(Format::e2m1, code)) * Rational(q.back()) * Rational(s);
      }
    }
    const float c = of_both > 0 ? float_nearest_to(of_x) / float_nearest_to(of_both) : 1;
    for (std::size_t b = 0; b < q.size(); ++b) {
      const float corrected = rest ? q[b] : q[b] * c;
      out.scales.push_back(by_word(Format::e4m3, kMostE4m3, corrected, rest ? 0 : words[first + 16 * b]));
    }
    first += size;
  }
  return out;
}

TEST(Stretches, cut_a_line_into_powers_of_two_and_a_rest) {
  const std::vector<Stretch> all{{0, 256, 128}, {256, 64, 64}, {320, 32, 32}, {352, 3, 0}};
  EXPECT_EQ(stretches_of(355, 128), all);
  EXPECT_EQ(stretches_of(48, 128), (std::vector<Stretch>{{0, 32, 32}, {32, 16, 16}}));
  EXPECT_EQ(stretches_of(15, 128), (std::vector<Stretch>{{0, 15, 0}}));
  EXPECT_EQ(stretches_of(40, 16), (std::vector<Stretch>{{0, 32, 16}, {32, 8, 0}}));
  EXPECT_TRUE(stretches_of(0, 128).empty());
}

std::vector<std::uint32_t> some_words(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint32_t> words(count);
  for (std::uint32_t& w : words) w = static_cast<std::uint32_t>(random());
  return words;
}

TEST(MsEdenOfLines, is_its_definition_along_rows_and_along_the_tokens_of_each_expert) {
  const std::vector<std::int64_t> offsets{0, 0, 19, 374, 374, 390, 391};
  const std::int64_t rows = 391, cols = 3;
  std::vector<float> x;
  for (const std::uint16_t w : random_words(rows * cols, 1e-4F, 5)) x.push_back(bf16_value(w));
  for (std::int64_t i = 64; i < 96; ++i) x[static_cast<std::size_t>(i * cols)] = 0;  // whole blocks of zeros
  const std::vector<std::uint32_t> words = some_words(x.size(), 6);
  float amax = 0;
  for (const float v : x) amax = std::max(amax, std::fabs(v));
  const float s = amax / 256.0F / MsEden().code_max;
  for (const int group : {128, 32}) {
    MsEden p;
    p.group = group;
    const QuantizedTensor q = ms_eden_of_lines(fp32_matrix(rows, cols, x).view(), p, Along::columns, offsets, words, 3);
    ASSERT_EQ(q.block(), (BlockShape{16, 1}));
    ASSERT_EQ(std::bit_cast<float>(q.levels.at(1).scales.code(0)), s);
    std::int64_t scale_row = 0;
    for (std::size_t e = 0; e + 1 < offsets.size(); ++e) {
      std::int64_t blocks = 0;
      for (std::int64_t c = 0; c < cols; ++c) {
        std::vector<float> line;
        std::vector<std::uint32_t> of_line;
        for (std::int64_t r = offsets[e]; r < offsets[e + 1]; ++r) {
          line.push_back(x[static_cast<std::size_t>(r * cols + c)]);
          of_line.push_back(words[static_cast<std::size_t>(r * cols + c)]);
        }
        const LineCodes right = line_by_definition(line, s, group, of_line);
        blocks = std::ssize(right.scales);
        for (std::size_t i = 0; i < line.size(); ++i) {
          const std::int64_t at = (offsets[e] + static_cast<std::int64_t>(i)) * cols + c;
          ASSERT_EQ(q.codes.code(static_cast<std::size_t>(at)), right.codes[i]) << e << " " << c << " " << i;
        }
        for (std::int64_t b = 0; b < blocks; ++b) {
          ASSERT_EQ(q.scales().code(static_cast<std::size_t>((scale_row + b) * cols + c)),
                    right.scales[static_cast<std::size_t>(b)])
              << e << " " << c << " " << b;
        }
      }
      scale_row += blocks;
    }
    ASSERT_EQ(q.scale_rows(), scale_row);
  }
  const QuantizedTensor q = ms_eden_of_lines(fp32_matrix(cols, rows, x).view(), {}, Along::rows, {}, words);
  for (std::int64_t r = 0; r < cols; ++r) {
    const LineCodes right = line_by_definition(row(x, r, rows), s, 128, row(words, r, rows));
    ASSERT_EQ(std::ssize(right.scales), q.scale_cols());
    for (std::int64_t i = 0; i < rows; ++i)
      ASSERT_EQ(q.codes.code(static_cast<std::size_t>(r * rows + i)), right.codes[static_cast<std::size_t>(i)]);
    for (std::int64_t b = 0; b < q.scale_cols(); ++b)
      ASSERT_EQ(q.scales().code(static_cast<std::size_t>(r * q.scale_cols() + b)),
                right.scales[static_cast<std::size_t>(b)]);
  }
}

// Over all words of 16 bits the mean of a rest is what was quantized, to 2^-16 of a step.
TEST(MsEdenOfLines, rests_have_no_bias_over_all_words) {
  const std::vector<float> x{1.0F, -0.3F, 0.7F, 0.011F, 0, -0.99F, 0.5F};
  std::vector<double> mean(x.size());
  std::vector<std::uint32_t> words(x.size());
  for (std::uint32_t word = 0; word < 65536; ++word) {
    std::fill(words.begin(), words.end(), word << 16);
    const QuantizedTensor q = ms_eden_of_lines(fp32_matrix(1, std::ssize(x), x).view(), {}, Along::rows, {}, words, 1);
    const double scale = q.scale(0) * q.levels.at(1).scale(0);
    for (std::size_t i = 0; i < x.size(); ++i) mean[i] += decode(Format::e2m1, q.codes.code(i)) * scale / 65536;
  }
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(mean[i], x[i], 1.0 / 6 * 2 * 0x1p-15) << i;
}

TEST(MsEdenOfLines, nan_and_infinity_are_in_the_scales_of_their_group_alone) {
  std::vector<float> x(2 * 150, 0.5F);
  x[17] = kNaN, x[145] = -kInf;
  const QuantizedTensor q = ms_eden_of_lines(fp32_matrix(2, 150, x).view(), {}, Along::rows, {}, {});
  EXPECT_EQ(std::bit_cast<float>(q.levels.at(1).scales.code(0)), 0.5F / 256 / MsEden().code_max);
  for (std::size_t b = 0; b < 20; ++b) {
    const bool special = b < 8 || b == 9;  // the group of 128, and the rest of 6, of row 0
    EXPECT_EQ(q.scales().code(b) == 0x7F, special) << b;
  }
  EXPECT_EQ(q.codes.code(3), 0U);
  EXPECT_EQ(q.codes.code(130), 7U);
  expect_contains(text_thrown(ErrorKind::usage,
                              [&] {
                                ms_eden_of_lines(fp32_matrix(2, 150, x).view(), {6, 256, 48}, Along::rows, {}, {});
                              }),
                  "the group must be 16, 32, 64 or 128");
  expect_contains(
      text_thrown(
          ErrorKind::usage,
          [&] { ms_eden_of_lines(fp32_matrix(2, 150, x).view(), {}, Along::rows, {}, std::vector<std::uint32_t>(7)); }),
      "7 random words: it needs 300, one for each element");
}

// Experts of 0, fewer than 16 and more than 128 rows.
constexpr LayerShape kQuartet2Shape{150, 48, 32, 3};

Layer quartet2_layer(const TestLayer& t) {
  Layer layer = t.layer("quartet2");
  layer.random = {0xFEDCBA9876543210U, 91, 6};
  return layer;
}

bool changes_sign(const LayerRandom& random, LayerGemm gemm, std::int64_t i) {
  const std::uint32_t stream = 0x80000000U | random.layer << 8 | (16 + static_cast<std::uint32_t>(gemm));
  return (philox_word(random.seed, static_cast<std::uint32_t>(i / 32), 0, stream, random.step) >> i % 32 & 1) != 0;
}

// A line rotated in exact sums, under the signs of a GEMM.
std::vector<double> rotated_line(const std::vector<double>& x, const LayerRandom& random, LayerGemm gemm) {
  std::vector<double> y = x;
  for (std::size_t first = 0; first + 16 <= x.size();) {
    std::size_t size = 128;
    while (first + size > x.size()) size /= 2;
    for (std::size_t j = 0; j < size; ++j) {
      double sum = 0;
      for (std::size_t i = 0; i < size; ++i) {
        const bool minus =
            (std::popcount(i & j) + (changes_sign(random, gemm, static_cast<std::int64_t>(i)) ? 1 : 0)) % 2 != 0;
        sum += minus ? -x[first + i] : x[first + i];
      }
      y[first + j] = sum / std::sqrt(static_cast<double>(size));
    }
    first += size;
  }
  return y;
}

void expect_line(const std::vector<double>& right, const std::vector<float>& found, const std::string& what) {
  double size = 0;
  for (const double v : right) size = std::max(size, std::fabs(v));
  for (std::size_t i = 0; i < right.size(); ++i) ASSERT_NEAR(found[i], right[i], size * 0x1p-8) << what << " " << i;
}

TEST(Quartet2Layer, rotates_both_operands_of_the_backward_pass_along_k_by_the_signs_of_the_step) {
  const TestLayer t(kQuartet2Shape, 2, 31);
  const LayerRoutes routes = t.routes();
  const Layer layer = quartet2_layer(t);
  const LayerForward f = layer_forward(layer, t.x, routes);
  const LayerBackward b = layer_backward(layer, f.kept, t.d_o, routes);
  EXPECT_TRUE(f.up_a.rotated.empty());
  ASSERT_EQ(b.d_down_a.rotated.size(), t.d_o.size());
  for (std::int64_t r = 0; r < kQuartet2Shape.tokens; r += 7) {
    std::vector<double> line;
    for (const std::uint16_t w : row(t.d_o, r, kQuartet2Shape.width)) line.push_back(bf16_value(w));
    std::vector<float> found;
    for (const std::uint16_t w : row(b.d_down_a.rotated, r, kQuartet2Shape.width)) found.push_back(bf16_value(w));
    expect_line(rotated_line(line, layer.random, LayerGemm::d_down), found, "dO");
  }
  std::vector<std::int64_t> lengths;
  for (std::size_t e = 0; e + 1 < routes.offsets.size(); ++e) {
    lengths.push_back(routes.offsets[e + 1] - routes.offsets[e]);
    for (std::int64_t c = 0; c < 2 * kQuartet2Shape.inner; c += 5) {
      std::vector<double> line;
      std::vector<float> found;
      for (std::int64_t r = routes.offsets[e]; r < routes.offsets[e + 1]; ++r) {
        line.push_back(bf16_value(b.dh[static_cast<std::size_t>(r * 2 * kQuartet2Shape.inner + c)]));
        found.push_back(bf16_value(b.d_w1_b.rotated[static_cast<std::size_t>(r * 2 * kQuartet2Shape.inner + c)]));
      }
      if (!line.empty()) expect_line(rotated_line(line, layer.random, LayerGemm::d_w1), found, "dH");
    }
  }
  EXPECT_EQ(lengths.back(), 0);
  EXPECT_TRUE(std::any_of(lengths.begin(), lengths.end(), [](std::int64_t n) { return n > 128 && n % 16 != 0; }));
}

// Weights and X of the backward pass are those of the forward pass, rotated.
TEST(Quartet2Layer, quantizes_weights_and_x_again_from_what_the_forward_pass_made_of_them) {
  const TestLayer t(kQuartet2Shape, 2, 32);
  const LayerRoutes routes = t.routes();
  const Layer layer = quartet2_layer(t);
  const LayerForward f = layer_forward(layer, t.x, routes);
  const LayerBackward b = layer_backward(layer, f.kept, t.d_o, routes);
  const std::int64_t d = kQuartet2Shape.width, n = kQuartet2Shape.inner;
  const std::vector<float> w2 = values_of(f.down_b, {}, 1);  // experts x d x n
  for (std::int64_t e = 0; e < kQuartet2Shape.experts; ++e) {
    for (std::int64_t i = 0; i < n; i += 3) {
      std::vector<double> line;
      std::vector<float> found;
      for (std::int64_t j = 0; j < d; ++j) {
        line.push_back(w2[static_cast<std::size_t>((e * d + j) * n + i)]);
        found.push_back(bf16_value(b.d_down_b.rotated[static_cast<std::size_t>((e * n + i) * d + j)]));
      }
      expect_line(rotated_line(line, layer.random, LayerGemm::d_down), found, "W2");
    }
  }
  const std::vector<float> x = values_of(f.up_a, {}, 1);
  const std::int64_t rows = routes.offsets[1];
  for (std::int64_t c = 0; c < d; ++c) {
    std::vector<double> line;
    std::vector<float> found;
    for (std::int64_t r = 0; r < rows; ++r) {
      line.push_back(x[static_cast<std::size_t>(routes.row_token[static_cast<std::size_t>(r)] * d + c)]);
      found.push_back(bf16_value(b.d_w1_a.rotated[static_cast<std::size_t>(r * d + c)]));
    }
    expect_line(rotated_line(line, layer.random, LayerGemm::d_w1), found, "X");
  }
}

TEST(Quartet2Layer, draws_words_by_seed_step_layer_and_operand) {
  const TestLayer t(kQuartet2Shape, 2, 33);
  const LayerRoutes routes = t.routes();
  Layer layer = quartet2_layer(t);
  const LayerForward f = layer_forward(layer, t.x, routes);
  const LayerBackward b = layer_backward(layer, f.kept, t.d_o, routes);
  const auto expect_words = [&](const LayerOperand& x, std::uint32_t operand, std::span<const std::int64_t> offsets) {
    std::vector<std::uint32_t> words;
    for (std::uint32_t i = 0; i < x.rotated.size(); ++i)
      words.push_back(philox_word(layer.random.seed, i, 0, 0x80000000U | 6U << 8 | operand, 91));
    const MatrixView view{Format::bf16, std::as_bytes(std::span(x.rotated)).data(), x.rows, x.cols, x.cols};
    EXPECT_EQ(x.quantized, ms_eden_of_lines(view, {}, offsets.empty() ? Along::rows : Along::columns, offsets, words))
        << operand;
  };
  expect_words(b.d_down_a, 4, {});
  expect_words(b.d_down_b, 5, {});
  expect_words(b.d_up_a, 6, {});
  expect_words(b.d_up_b, 7, {});
  expect_words(b.d_w2_a, 8, routes.offsets);
  expect_words(b.d_w2_b, 9, routes.offsets);
  expect_words(b.d_w1_a, 10, routes.offsets);
  expect_words(b.d_w1_b, 11, routes.offsets);
  for (const LayerRandom& other :
       {LayerRandom{1, 91, 6}, LayerRandom{0xFEDCBA9876543210U, 92, 6}, LayerRandom{0xFEDCBA9876543210U, 91, 7}}) {
    layer.random = other;
    EXPECT_NE(layer_backward(layer, f.kept, t.d_o, routes).dx, b.dx);
  }
}

double relative_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference += std::pow(a[i] - b[i], 2), size += b[i] * b[i];
  return std::sqrt(difference / size);
}

// Quantization errors of one step are large; over steps they cancel, in P and in dW2, to what is left of the bias.
TEST(Quartet2Layer, errors_of_gradients_cancel_over_steps) {
  const TestLayer t({150, 128, 32, 3}, 2, 34);
  const LayerRoutes routes = t.routes();
  LayerRecipe exact = layer_recipe_named("quartet2");  // the same weights, in BF16
  for (const LayerGemm g : {LayerGemm::d_down, LayerGemm::d_w2})
    exact.gemms[static_cast<std::size_t>(g)] = layer_recipe_named("bf16").gemm(g);
  Layer layer = quartet2_layer(t);
  const LayerForward f = layer_forward(layer, t.x, routes);
  TestLayer again = t;  // W2 as the forward pass has it
  const std::vector<float> w2 = values_of(f.down_b, {}, 1);
  for (std::int64_t i = 0; i < std::ssize(again.w2); ++i) {
    const std::int64_t d = 128, n = 32, e = i / (n * d), row_of = i / d % n, col = i % d;
    again.w2[static_cast<std::size_t>(i)] = layer_bf16(w2[static_cast<std::size_t>((e * d + col) * n + row_of)]);
  }
  const Layer right = again.layer(exact);
  const LayerBackward expected = layer_backward(right, f.kept, t.d_o, routes);
  const std::vector<double> p(expected.p.begin(), expected.p.end());
  constexpr int kSteps = 60;
  std::vector<double> mean(p.size()), first;
  for (int step = 0; step < kSteps; ++step) {
    layer.random.step = static_cast<std::uint32_t>(step);
    const LayerBackward b = layer_backward(layer, f.kept, t.d_o, routes);
    if (step == 0) first.assign(b.p.begin(), b.p.end());
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += double{b.p[i]} / kSteps;
  }
  EXPECT_GT(relative_distance(first, p), 0.08);
  EXPECT_LT(relative_distance(mean, p), relative_distance(first, p) / 5);  // 1 / sqrt(60) is 1 / 7.7
}

}  // namespace
}  // namespace mxcheck
