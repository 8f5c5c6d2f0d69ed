#include "reference/error/study.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "numerics/error.h"
#include "numerics/format/codec.h"

namespace mxcheck {
namespace {

// What is known of one block while its rows pass by.
struct BlockTally {
  float amax = 0;
  bool has_nan = false;
  bool has_nonzero = false;
  bool has_survivor = false;
};

void check_not_empty(const MatrixView& input) {
  check_matrix(input);
  if (input.rows == 0 || input.cols == 0) {
    throw Error(ErrorKind::usage, "a matrix of " + std::to_string(input.rows) + " x " + std::to_string(input.cols) +
                                      " has no elements to measure");
  }
}

void tally(BlockTally& block, float x, bool survives) {
  if (std::isnan(x)) {
    block.has_nan = true;
    return;
  }
  block.amax = std::max(block.amax, std::fabs(x));
  if (x == 0) return;
  block.has_nonzero = true;
  if (survives) block.has_survivor = true;
}

void close(Study& s, const BlockTally& block, const Recipe& recipe) {
  ++s.blocks;
  if (!block.has_nonzero) {
    if (!block.has_nan) ++s.zero_blocks;
    return;
  }
  if (!block.has_survivor) ++s.dead_blocks;
  if (block.amax < recipe.amax_min) ++s.clamped_blocks;
  s.amax_lowest = s.amax_lowest == 0 ? block.amax : std::min(s.amax_lowest, block.amax);
  s.amax_highest = std::max(s.amax_highest, block.amax);
}

void count_scales(Study& s, const Quantized& q) {
  for (const std::uint8_t byte : q.scales) ++s.scales[byte];
  std::set<std::uint32_t> distinct;
  for (const float scale : q.scales_fp32) {
    const auto bits = std::bit_cast<std::uint32_t>(scale);
    distinct.insert(bits);
    ++s.scales[bits >> 23 & 0xFF];
  }
  const auto used = std::count_if(s.scales.begin(), s.scales.end(), [](std::uint64_t n) { return n != 0; });
  s.distinct_scales = q.scales_fp32.empty() ? static_cast<std::uint64_t>(used) : distinct.size();
}

}  // namespace

Study study(const MatrixView& input, Format element, BlockShape block, const Recipe& recipe, int threads) {
  check_not_empty(input);
  const Quantized q = quantize(input, element, block, recipe, {}, threads);
  const std::vector<float> values = dequantize(q, {}, threads);
  const std::vector<std::int64_t> starts = block_row_starts(q.rows, block.rows, {});
  const std::int64_t block_cols = block.width(q.cols);
  Study s;
  ErrorMeter meter(element);
  std::vector<float> row(static_cast<std::size_t>(q.cols));
  std::vector<float> scales(static_cast<std::size_t>(q.scale_cols));
  std::vector<BlockTally> blocks;
  std::vector<bool> survives(std::size_t{1} << spec(element).bits);  // NaN is not zero: its block is not dead
  for (std::size_t code = 0; code < survives.size(); ++code) {
    survives[code] = decode(element, static_cast<std::uint32_t>(code)) != 0;
  }
  std::size_t at = 0;
  std::uint64_t finite_nonzero = 0;
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    blocks.assign(static_cast<std::size_t>(q.scale_cols), BlockTally{});
    for (std::size_t b = 0; b < scales.size(); ++b) {
      const std::size_t s_at = i * scales.size() + b;
      scales[b] =
          q.scales_fp32.empty() ? static_cast<float>(decode(Format::e8m0, q.scales[s_at])) : q.scales_fp32[s_at];
    }
    for (std::int64_t r = starts[i]; r < starts[i + 1]; ++r) {
      input.read_row(r, row);
      for (std::size_t c = 0; c < row.size(); ++c, ++at) {
        const std::size_t b = c / static_cast<std::size_t>(block_cols);
        const std::uint32_t code = q.codes16.empty() ? q.codes[at] : q.codes16[at];
        meter.add(row[c], values[at], code, scales[b]);
        tally(blocks[b], row[c], survives[code]);
        if (row[c] != 0 && !std::isnan(row[c])) ++s.nonzero;
        if (row[c] != 0 && std::isfinite(row[c])) ++finite_nonzero;
      }
    }
    for (const BlockTally& b : blocks) close(s, b, recipe);
  }
  count_scales(s, q);
  s.error = meter.measures();
  if (finite_nonzero != 0) {
    s.zeroed_share = static_cast<double>(s.error.flushed) / static_cast<double>(finite_nonzero);
  }
  return s;
}

InputFacts input_facts(const MatrixView& input) {
  check_not_empty(input);
  InputFacts facts;
  std::vector<float> row(static_cast<std::size_t>(input.cols));
  for (std::int64_t r = 0; r < input.rows; ++r) {
    input.read_row(r, row);
    for (const float x : row) {
      ++facts.count;
      const float magnitude = std::fabs(x);
      if (std::isnan(x)) {
        ++facts.nan;
      } else if (std::isinf(x)) {
        ++facts.infinite;
      } else if (x == 0) {
        ++facts.zeros;
      } else {
        facts.largest = std::max(facts.largest, magnitude);
        facts.smallest = facts.smallest == 0 ? magnitude : std::min(facts.smallest, magnitude);
      }
    }
  }
  return facts;
}

ErrorMeasures study_bf16(const MatrixView& input) {
  check_not_empty(input);
  ErrorMeter meter(Format::bf16);
  std::vector<float> row(static_cast<std::size_t>(input.cols));
  for (std::int64_t r = 0; r < input.rows; ++r) {
    input.read_row(r, row);
    for (const float x : row) {
      const std::uint32_t code = encode(Format::bf16, x, Rounding::nearest_even, Overflow::non_saturate);
      meter.add(x, static_cast<float>(decode(Format::bf16, code)), code, 1);
    }
  }
  return meter.measures();
}

}  // namespace mxcheck
