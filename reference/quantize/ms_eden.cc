#include "reference/quantize/ms_eden.h"

#include <algorithm>
#include <array>
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
#include "reference/quantize/quantize.h"
#include "reference/quantize/stretches.h"

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

// s as the second level of a result, whose codes and scales are there.
float add_outer_scale(QuantizedTensor& out, const MsEden& p, float amax) {
  float s = amax / p.scale_max / p.code_max;
  if (s == 0) s = 1;
  const bool empty = out.codes.empty();
  out.levels.push_back({{0, 0}, ScaleRule::fp32, make_tensor(Format::fp32, {empty ? 0 : 1, empty ? 0 : 1})});
  if (!empty) out.levels[1].scales.set_code(0, std::bit_cast<std::uint32_t>(s));
  return s;
}

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
  const float s = add_outer_scale(out, p, amax_of(input));
  if (out.codes.empty()) return out;
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

// ms_eden_of_lines.

namespace {

constexpr std::uint32_t kNanScale = 0x7F;

// A run of one expert's numbers along k, of a column, or a whole row: places in codes and in scales.
struct Line {
  std::int64_t row = 0, col = 0;  // of its first number
  std::int64_t length = 0;
  std::int64_t first_scale = 0;  // of its first block
  std::int64_t scale_stride = 1;
};

struct LineQuantizer {
  const MatrixView& input;
  const MsEden& p;
  bool down;
  float s;
  std::span<const std::uint32_t> words;
  QuantizedTensor& out;

  [[nodiscard]] std::size_t place(const Line& line, std::int64_t k) const {
    return static_cast<std::size_t>(down ? (line.row + k) * input.cols + line.col : line.row * input.cols + k);
  }
  [[nodiscard]] float at(const Line& line, std::int64_t k) const {
    return down ? input.at(line.row + k, line.col) : input.at(line.row, k);
  }
  void set_scale(const Line& line, std::int64_t block, std::uint32_t code) const {
    out.scales().set_code(static_cast<std::size_t>(line.first_scale + block * line.scale_stride), code);
  }
  [[nodiscard]] std::uint32_t rounded_at(Format format, float value, std::size_t word) const {
    if (words.empty()) return encode(format, value, Rounding::nearest_even, Overflow::saturate);
    return encode(format, value, Rounding::stochastic, Overflow::saturate, words[word]);
  }

  void group(const Line& line, std::int64_t first, Group& g) const {
    encode_group(p, s, g);
    const float c = correction(g, s);
    for (std::size_t i = 0; i < g.codes.size(); ++i)
      out.codes.set_code(place(line, first + static_cast<std::int64_t>(i)), g.codes[i]);
    for (std::size_t b = 0; b < g.scales.size(); ++b) {
      const std::int64_t block = first / kBlock + static_cast<std::int64_t>(b);
      const float corrected = g.scales[b] * c;
      set_scale(line, block,
                std::isnan(corrected) ? kNanScale : rounded_at(Format::e4m3, corrected, place(line, block * kBlock)));
    }
  }

  void rest(const Line& line, std::int64_t first, const Group& g) const {
    float a = 0;
    for (const float x : g.x) a = std::max(a, std::fabs(x));
    const float quotient = a / 6 / s;
    std::uint32_t scale = encode(Format::e4m3, quotient, Rounding::upward, Overflow::saturate);
    if (scale == 0) scale = encode(Format::e4m3, 1.0, Rounding::upward, Overflow::saturate);
    const float divisor = static_cast<float>(decode(Format::e4m3, scale)) * s;
    set_scale(line, first / kBlock, scale);
    for (std::size_t i = 0; i < g.x.size(); ++i) {
      const std::size_t at = place(line, first + static_cast<std::int64_t>(i));
      out.codes.set_code(at, rounded_at(Format::e2m1, g.x[i] / divisor, at));
    }
  }

  // The numbers of a group, or of a rest.
  void part(const Line& line, std::int64_t first, std::int64_t size, bool is_group, Group& g) const {
    g.x.clear();
    for (std::int64_t i = 0; i < size; ++i) g.x.push_back(at(line, first + i));
    if (std::all_of(g.x.begin(), g.x.end(), [](float x) { return std::isfinite(x); })) {
      is_group ? group(line, first, g) : rest(line, first, g);
      return;
    }
    for (std::int64_t i = 0; i < size; ++i) out.codes.set_code(place(line, first + i), 0);
    for (std::int64_t i = 0; i < size; i += kBlock) set_scale(line, (first + i) / kBlock, kNanScale);
  }

  void line(const Line& line) const {
    Group g;
    for (const Stretch& stretch : stretches_of(line.length, static_cast<int>(p.group))) {
      const std::int64_t size = stretch.group == 0 ? stretch.length : stretch.group;
      for (std::int64_t at = 0; at < stretch.length; at += size)
        part(line, stretch.first + at, size, stretch.group != 0, g);
    }
  }
};

std::vector<Line> lines_of(const MatrixView& input, bool down, std::span<const std::int64_t> offsets) {
  std::vector<Line> lines;
  const std::int64_t across = ceil_div(input.cols, kBlock);
  for (std::int64_t row = 0; !down && row < input.rows; ++row) lines.push_back({row, 0, input.cols, row * across, 1});
  if (!down) return lines;
  const std::array<std::int64_t, 2> all{0, input.rows};
  if (offsets.empty()) offsets = all;
  std::int64_t scale_row = 0;
  for (std::size_t e = 0; e + 1 < offsets.size(); ++e) {
    const std::int64_t length = offsets[e + 1] - offsets[e];
    for (std::int64_t col = 0; length > 0 && col < input.cols; ++col)
      lines.push_back({offsets[e], col, length, scale_row * input.cols + col, input.cols});
    scale_row += ceil_div(length, kBlock);
  }
  return lines;
}

}  // namespace

QuantizedTensor ms_eden_of_lines(const MatrixView& input, const MsEden& p, Along along,
                                 std::span<const std::int64_t> offsets, std::span<const std::uint32_t> words,
                                 int threads) {
  check_matrix(input);
  check_offsets(offsets, input.rows);
  if (std::find(kHadamardSizes.begin(), kHadamardSizes.end(), p.group) == kHadamardSizes.end()) {
    throw Error(ErrorKind::usage,
                "MS-EDEN of lines in groups of " + std::to_string(p.group) + ": the group must be 16, 32, 64 or 128");
  }
  const std::int64_t count = checked_product(input.rows, input.cols, "elements");
  if (!words.empty() && !std::cmp_equal(words.size(), count)) {
    throw Error(ErrorKind::usage, "MS-EDEN of lines: " + std::to_string(words.size()) + " random words: it needs " +
                                      std::to_string(count) + ", one for each element, or none");
  }
  const bool down = along == Along::columns;
  const BlockShape block = down ? BlockShape{kBlock, 1} : BlockShape{1, kBlock};
  QuantizedTensor out = make_quantized(Format::e2m1, input.rows, input.cols, block, Format::e4m3,
                                       down ? count_scale_rows(input.rows, kBlock, offsets) : input.rows,
                                       ceil_div(input.cols, block.cols));
  out.levels.front().rule = ScaleRule::e4m3;
  const float s = add_outer_scale(out, p, magnitudes_of(input, threads).finite);
  if (out.codes.empty()) return out;
  const LineQuantizer quantizer{input, p, down, s, words, out};
  const std::vector<Line> lines = lines_of(input, down, offsets);
  parallel_ranges(std::ssize(lines), count, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) quantizer.line(lines[static_cast<std::size_t>(i)]);
  });
  return out;
}

}  // namespace mxcheck
