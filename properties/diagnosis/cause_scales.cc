// What goes wrong with scales: another rule, another amax, another place.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "numerics/format/codec.h"
#include "numerics/scale/recipe_words.h"
#include "properties/diagnosis/golden_problem.h"

namespace mxcheck {
namespace {

std::vector<std::byte> scale_bytes_of(const Quantized& q) {
  return q.scales_fp32.empty() ? dataset_bytes(q.scales) : dataset_bytes(q.scales_fp32);
}

// x as floats with a change to each element, quantized again.
using Change = std::function<float(float value, std::int64_t row, std::int64_t col)>;
std::vector<std::byte> scales_with(const GoldenProblem& p, const Change& change) {
  const MatrixView view = p.view();
  std::vector<float> x(static_cast<std::size_t>(p.rows * p.cols));
  std::size_t at = 0;
  for (std::int64_t i = 0; i < p.rows; ++i) {
    for (std::int64_t j = 0; j < p.cols; ++j) x[at++] = change(view.at(i, j), i, j);
  }
  const MatrixView changed{Format::fp32, reinterpret_cast<const std::byte*>(x.data()), p.rows, p.cols, p.cols};
  return scale_bytes_of(quantize(changed, p.element, p.block, p.recipe, p.offsets));
}

std::vector<std::byte> scales_by(const GoldenProblem& p, const Recipe& recipe) {
  if ((recipe.rule == ScaleRule::fp32) != (p.recipe.rule == ScaleRule::fp32)) return {};
  return scale_bytes_of(quantize(p.view(), p.element, p.block, recipe, p.offsets));
}

float rounded(Format format, float value) {
  if (std::isnan(value)) return value;
  return static_cast<float>(decode(format, encode(format, value, Rounding::nearest_even, Overflow::non_saturate)));
}

// Each byte of the expected scales through a function: what was done to a scale that was right before.
Hypothesis mapped(const GoldenProblem& p, const std::string& text, std::function<int(int)> map) {
  return {text, [&p, map = std::move(map)] {
            std::vector<std::byte> bytes = dataset_bytes(p.expected.scales);
            for (std::byte& b : bytes) b = static_cast<std::byte>(map(std::to_integer<int>(b)));
            return bytes;
          }};
}

// The expected scales, each taken from another place.
Hypothesis moved(const GoldenProblem& p, const std::string& text,
                 std::function<std::int64_t(std::int64_t row, std::int64_t col)> from) {
  return {text, [&p, from = std::move(from)] {
            const std::vector<std::byte> right = scale_bytes_of(p.expected);
            const std::int64_t count = p.expected.scale_rows * p.expected.scale_cols;
            if (count == 0) return std::vector<std::byte>{};
            const std::size_t width = right.size() / static_cast<std::size_t>(count);
            std::vector<std::byte> bytes(right.size());
            for (std::int64_t i = 0; i < count; ++i) {
              const std::int64_t source = from(i / p.expected.scale_cols, i % p.expected.scale_cols);
              if (source >= 0 && source < count) {
                std::memcpy(bytes.data() + static_cast<std::size_t>(i) * width,
                            right.data() + static_cast<std::size_t>(source) * width, width);
              }
            }
            return bytes;
          }};
}

void add_amax_faults(const GoldenProblem& p, std::vector<Hypothesis>& all) {
  const auto changed = [&](const std::string& text, Change change) {
    all.push_back({text, [&p, change = std::move(change)] { return scales_with(p, change); }});
  };
  const auto signed_max = [](float v, std::int64_t, std::int64_t) { return v > 0 || std::isnan(v) ? v : 0; };
  const auto signed_min = [](float v, std::int64_t, std::int64_t) { return v < 0 || std::isnan(v) ? v : 0; };
  changed("a maximum without absolute values (negative elements not counted)", signed_max);
  changed("a minimum in place of the largest magnitude (positive elements not counted)", signed_min);
  changed("an amax that leaves out NaN", [](float v, std::int64_t, std::int64_t) { return std::isnan(v) ? 0 : v; });
  changed("an amax that leaves out infinities",
          [](float v, std::int64_t, std::int64_t) { return std::isinf(v) ? 0 : v; });
  changed("an amax of x rounded to BF16 first",
          [](float v, std::int64_t, std::int64_t) { return rounded(Format::bf16, v); });
  changed("an amax of x rounded to FP16 first",
          [](float v, std::int64_t, std::int64_t) { return rounded(Format::fp16, v); });
  changed("an amax with subnormal inputs flushed to zero",
          [](float v, std::int64_t, std::int64_t) { return std::fabs(v) < 0x1p-126F ? 0 : v; });
  const std::int64_t n = p.block.rows == 1 ? p.block.cols : p.block.rows;
  const bool along_cols = p.block.cols != 1;
  const auto place = [n, along_cols](std::int64_t i, std::int64_t j) { return n == 0 ? 1 : (along_cols ? j : i) % n; };
  if (n > 1) {
    changed("an amax that leaves out each block's last element",
            [=](float v, std::int64_t i, std::int64_t j) { return place(i, j) == n - 1 ? 0 : v; });
    changed("an amax that leaves out each block's first element",
            [=](float v, std::int64_t i, std::int64_t j) { return place(i, j) == 0 ? 0 : v; });
    changed("an amax over the first half of each block",
            [=](float v, std::int64_t i, std::int64_t j) { return place(i, j) >= n / 2 ? 0 : v; });
    changed("an amax over the second half of each block",
            [=](float v, std::int64_t i, std::int64_t j) { return place(i, j) < n / 2 ? 0 : v; });
    changed("an amax over every other element",
            [=](float v, std::int64_t i, std::int64_t j) { return place(i, j) % 2 == 1 ? 0 : v; });
  }
  const std::int64_t whole_cols = p.block.cols > 0 ? p.cols / p.block.cols * p.block.cols : p.cols;
  if (whole_cols < p.cols) {
    changed("an amax that leaves out the ragged last columns",
            [=](float v, std::int64_t, std::int64_t j) { return j >= whole_cols ? 0 : v; });
  }
  changed("an amax that leaves out the last row",
          [rows = p.rows](float v, std::int64_t i, std::int64_t) { return i == rows - 1 ? 0 : v; });
  changed("an amax that leaves out the last column",
          [cols = p.cols](float v, std::int64_t, std::int64_t j) { return j == cols - 1 ? 0 : v; });
}

// One amax for more than a block.
void add_coarser_blocks(const GoldenProblem& p, std::vector<Hypothesis>& all) {
  const auto coarser = [&](const std::string& text, std::int64_t row_blocks, std::int64_t col_blocks) {
    all.push_back(
        {text, [&p, row_blocks, col_blocks] {
           const Quantized& q = p.expected;
           if (q.scales.empty() || !p.offsets.empty()) return std::vector<std::byte>{};
           std::vector<std::byte> bytes(q.scales.size());
           const std::int64_t rows = row_blocks == 0 ? q.scale_rows : row_blocks;
           const std::int64_t cols = col_blocks == 0 ? q.scale_cols : col_blocks;
           for (std::int64_t i = 0; i < q.scale_rows; ++i) {
             for (std::int64_t j = 0; j < q.scale_cols; ++j) {
               std::uint8_t largest = 0;
               for (std::int64_t r = i / rows * rows; r < std::min(q.scale_rows, (i / rows + 1) * rows); ++r) {
                 for (std::int64_t c = j / cols * cols; c < std::min(q.scale_cols, (j / cols + 1) * cols); ++c) {
                   largest = std::max(largest, q.scales[static_cast<std::size_t>(r * q.scale_cols + c)]);
                 }
               }
               bytes[static_cast<std::size_t>(i * q.scale_cols + j)] = static_cast<std::byte>(largest);
             }
           }
           return bytes;
         }});
  };
  coarser("one amax for the whole tensor", 0, 0);
  coarser("one amax for each row of blocks", 1, 0);
  coarser("one amax for each column of blocks", 0, 1);
  coarser("one amax for every two blocks along a row", 1, 2);
  coarser("one amax for every four blocks along a row", 1, 4);
  coarser("one amax for every two blocks along a column", 2, 1);
  coarser("one amax for every four blocks along a column", 4, 1);
  coarser("one amax for 32 rows of blocks (32x32 or 128x128 blocks)", 32, 1);
  coarser("one amax for 128 rows and 4 columns of blocks", 128, 4);
}

}  // namespace

std::vector<std::int64_t> GoldenProblem::scale_index() const {
  std::vector<std::int64_t> index(static_cast<std::size_t>(rows * cols));
  const std::vector<std::int64_t> starts = block_row_starts(rows, block.rows, offsets);
  const std::int64_t block_cols = block.cols == 0 ? std::max<std::int64_t>(1, cols) : block.cols;
  for (std::size_t s = 0; s + 1 < starts.size(); ++s) {
    for (std::int64_t i = starts[s]; i < starts[s + 1]; ++i) {
      for (std::int64_t j = 0; j < cols; ++j) {
        index[static_cast<std::size_t>(i * cols + j)] =
            static_cast<std::int64_t>(s) * expected.scale_cols + j / block_cols;
      }
    }
  }
  return index;
}

std::vector<Hypothesis> scale_hypotheses(const GoldenProblem& p) {
  std::vector<Hypothesis> all;
  for (const Recipe& recipe : all_recipes()) {
    if (recipe.name == p.recipe.name) continue;
    all.push_back({"recipe " + recipe.name, [&p, &recipe] { return scales_by(p, recipe); }});
  }
  constexpr std::pair<float, const char*> kClamps[] = {{1e-4F, "1e-4"},
                                                       {1e-5F, "1e-5"},
                                                       {1e-6F, "1e-6"},
                                                       {1e-7F, "1e-7"},
                                                       {1e-8F, "1e-8"},
                                                       {1e-10F, "1e-10"},
                                                       {1e-12F, "1e-12"},
                                                       {0x1p-23F, "2^-23 (FP32's epsilon)"},
                                                       {0x1p-126F, "2^-126 (FP32's smallest normal)"},
                                                       {1e-3F, "1e-3"},
                                                       {1e-2F, "1e-2"},
                                                       {1.0F, "1"}};
  for (const auto& [clamp, text] : kClamps) {
    Recipe clamped = p.recipe;
    clamped.amax_min = std::max(clamp, clamped.amax_min);
    all.push_back({std::string("an amax raised to at least ") + text, [&p, clamped] { return scales_by(p, clamped); }});
  }
  const std::int64_t cols = p.expected.scale_cols;
  const std::int64_t rows = p.expected.scale_rows;
  if (!p.expected.scales.empty()) {
    for (const int by : {1, -1, 2, -2, 8, -8}) {
      const std::string how = std::to_string(std::abs(by)) + (std::abs(by) == 1 ? " binade" : " binades");
      all.push_back(mapped(p,
                           "a scale " + how + (by > 0 ? " too large" : " too small") + " (byte " +
                               (by > 0 ? "+ " : "- ") + std::to_string(std::abs(by)) + ")",
                           [by](int b) { return b == 255 ? 255 : std::clamp(b + by, 0, 254); }));
    }
    all.push_back(
        mapped(p, "the reciprocal of the scale (254 - byte)", [](int b) { return b == 255 ? 255 : 254 - b; }));
    all.push_back(mapped(p, "an exponent without its bias of 127", [](int b) { return (b - 127) & 0xFF; }));
    all.push_back(mapped(p, "zeros that nobody wrote over", [](int) { return 0; }));
    all.push_back(mapped(p, "a scale of 1 (byte 127) everywhere", [](int) { return 127; }));
    all.push_back(mapped(p, "NaN scales (byte 255) written as 254", [](int b) { return std::min(b, 254); }));
    all.push_back(mapped(p, "NaN scales (byte 255) written as 0", [](int b) { return b == 255 ? 0 : b; }));
    all.push_back(mapped(p, "scales of blocks of zeros (byte 0) written as 1 (byte 127)",
                         [](int b) { return b == 0 ? 127 : b; }));
    if (p.own_scales && !p.own_scales->empty()) {  // a clamp that no preset has
      const auto [low, high] = std::minmax_element(p.own_scales->begin(), p.own_scales->end());
      const int least = *low, most = *high;
      all.push_back(
          mapped(p, "a smallest byte of " + std::to_string(least) + " (an amax or a scale raised to a least value)",
                 [least](int b) { return std::max(b, least); }));
      all.push_back(mapped(p,
                           "a largest byte of " + std::to_string(most) + " (an amax or a scale cut to a largest value)",
                           [most](int b) { return std::min(b, most); }));
    }
    all.push_back(mapped(p, "a smallest byte of 1", [](int b) { return std::max(b, 1); }));
  }
  add_amax_faults(p, all);
  if (!p.offsets.empty()) {
    all.push_back({"blocks that do not restart at the experts' offsets",
                   [&p] { return scale_bytes_of(quantize(p.view(), p.element, p.block, p.recipe)); }});
  }
  add_coarser_blocks(p, all);
  all.push_back(moved(p, "the transposed scales, written in the order of columns", [=](std::int64_t i, std::int64_t j) {
    return (i * cols + j) % rows * cols + (i * cols + j) / rows;
  }));
  all.push_back(moved(p, "the first block's scale in every block", [](std::int64_t, std::int64_t) { return 0; }));
  all.push_back(
      moved(p, "the first scale of its row in every block", [=](std::int64_t i, std::int64_t) { return i * cols; }));
  all.push_back(
      moved(p, "the scale of the block before", [=](std::int64_t i, std::int64_t j) { return i * cols + j - 1; }));
  all.push_back(
      moved(p, "the scale of the block after", [=](std::int64_t i, std::int64_t j) { return i * cols + j + 1; }));
  all.push_back(
      moved(p, "the scale of the row before", [=](std::int64_t i, std::int64_t j) { return (i - 1) * cols + j; }));
  all.push_back(
      moved(p, "the scale of the row after", [=](std::int64_t i, std::int64_t j) { return (i + 1) * cols + j; }));
  return all;
}

}  // namespace mxcheck
