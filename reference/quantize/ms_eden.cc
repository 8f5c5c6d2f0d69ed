#include "reference/quantize/ms_eden.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "numerics/accumulate/exact_sum.h"
#include "numerics/accumulate/fused_sum.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/tensor.h"
#include "reference/common/checked_size.h"
#include "reference/common/parallel.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kBlock = 16;

void check_request(const MatrixView& input, const MsEden& p, std::span<const std::uint32_t> words) {
  check_matrix(input);
  if (p.group < kBlock || p.group % kBlock != 0 || input.cols % p.group != 0) {
    throw Error(ErrorKind::usage, "MS-EDEN in groups of " + std::to_string(p.group) + " of rows of " +
                                      std::to_string(input.cols) +
                                      " elements: the group must be a multiple of 16 that divides the row");
  }
  const std::int64_t blocks = checked_product(input.rows, input.cols / kBlock, "blocks");
  if (std::cmp_equal(words.size(), blocks)) return;
  throw Error(ErrorKind::usage, "MS-EDEN: " + std::to_string(words.size()) + " random words: it needs " +
                                    std::to_string(blocks) + ", one for each block of 16");
}

float amax_of(const MatrixView& input) {
  float amax = 0;
  for (std::int64_t row = 0; row < input.rows; ++row) {
    for (std::int64_t col = 0; col < input.cols; ++col) {
      const float x = input.at(row, col);
      if (!std::isfinite(x)) {
        throw Error(ErrorKind::input, "MS-EDEN: " + std::string(std::isnan(x) ? "NaN" : "infinity") + " at row " +
                                          std::to_string(input.first_row + row) + ", column " + std::to_string(col) +
                                          ": the sums of its group need finite values");
      }
      amax = std::max(amax, std::fabs(x));
    }
  }
  return amax;
}

// Adds x * y * z, exactly; z has at most 8 significant bits.
void add_product(ExactSum& sum, float x, float y, double z) {
  const auto factor_of_float = [](float v) { return factor(Format::fp32, std::bit_cast<std::uint32_t>(v)); };
  const Factor fx = factor_of_float(x);
  const Factor fy = factor_of_float(y);
  const Factor fz = factor_of_float(static_cast<float>(z));
  const int zeros = fz.significand == 0 ? 0 : std::countr_zero(fz.significand);
  const std::uint64_t significand = std::uint64_t{fx.significand} * fy.significand * (fz.significand >> zeros);
  const int exponent =
      fx.exponent - fx.fraction_bits + fy.exponent - fy.fraction_bits + fz.exponent - fz.fraction_bits + zeros;
  if (significand != 0) sum.add((fx.negative != fy.negative) != fz.negative, significand, exponent);
}

float rounded(const ExactSum& sum) { return std::bit_cast<float>(sum.rounded(Format::fp32)); }

struct Group {
  std::vector<float> x;
  std::vector<float> scales;  // q of each block
  std::vector<std::uint32_t> codes;
};

void encode_group(const MsEden& p, float s, Group& g) {
  g.scales.clear();
  g.codes.clear();
  for (std::size_t first = 0; first < g.x.size(); first += kBlock) {
    float a = 0;
    for (std::size_t i = first; i < first + kBlock; ++i) a = std::max(a, std::fabs(g.x[i]));
    const float quotient = a / p.code_max / s;
    const auto q = static_cast<float>(
        decode(Format::e4m3, encode(Format::e4m3, quotient, Rounding::nearest_even, Overflow::saturate)));
    g.scales.push_back(q == 0 ? 1 : q);
    const float divisor = g.scales.back() * s;
    for (std::size_t i = first; i < first + kBlock; ++i) {
      g.codes.push_back(encode(Format::e2m1, g.x[i] / divisor, Rounding::nearest_even, Overflow::saturate));
    }
  }
}

float correction(const Group& g, float s) {
  ExactSum of_x;
  ExactSum of_both;
  for (std::size_t i = 0; i < g.x.size(); ++i) {
    add_product(of_x, g.x[i], g.x[i], 1);
    add_product(of_both, g.x[i], s, decode(Format::e2m1, g.codes[i]) * g.scales[i / kBlock]);
  }
  const float denominator = rounded(of_both);
  return denominator > 0 ? rounded(of_x) / denominator : 1;
}

}  // namespace

QuantizedTensor ms_eden(const MatrixView& input, const MsEden& p, std::span<const std::uint32_t> words, int threads) {
  check_request(input, p, words);
  QuantizedTensor out =
      make_quantized(Format::e2m1, input.rows, input.cols, {1, kBlock}, Format::e4m3, input.rows, input.cols / kBlock);
  out.levels.front().rule = ScaleRule::e4m3;
  float s = amax_of(input) / p.scale_max / p.code_max;
  if (s == 0) s = 1;
  const bool empty = out.codes.empty();
  out.levels.push_back({{0, 0}, ScaleRule::fp32, make_tensor(Format::fp32, {empty ? 0 : 1, empty ? 0 : 1})});
  if (empty) return out;
  out.levels[1].scales.set_code(0, std::bit_cast<std::uint32_t>(s));
  parallel_ranges(input.rows, input.rows * input.cols, threads, [&](std::int64_t begin, std::int64_t end) {
    Group g;
    g.x.resize(static_cast<std::size_t>(p.group));
    for (std::int64_t at = begin * input.cols; at < end * input.cols; at += p.group) {
      for (std::size_t i = 0; i < g.x.size(); ++i) {
        g.x[i] = input.at(at / input.cols, at % input.cols + static_cast<std::int64_t>(i));
      }
      encode_group(p, s, g);
      const float c = correction(g, s);
      for (std::size_t i = 0; i < g.codes.size(); ++i) out.codes.set_code(static_cast<std::size_t>(at) + i, g.codes[i]);
      for (std::size_t b = 0; b < g.scales.size(); ++b) {
        const std::size_t block = static_cast<std::size_t>(at) / kBlock + b;
        const float corrected = g.scales[b] * c;
        out.scales().set_code(block,
                              encode(Format::e4m3, corrected, Rounding::stochastic, Overflow::saturate, words[block]));
      }
    }
  });
  return out;
}

}  // namespace mxcheck
