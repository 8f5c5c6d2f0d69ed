#include "reference/quantize/quantize.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iterator>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/text.h"
#include "reference/common/checked_size.h"
#include "reference/common/parallel.h"

namespace mxcheck {
namespace {

// What does not change from one row of blocks to the next.
struct Job {
  const MatrixView& input;
  const Recipe& recipe;
  Quantized& out;
  std::int64_t block_cols;                      // the whole extent written out
  const std::vector<std::int64_t>& row_starts;  // block_row_starts
};

[[noreturn]] void refuse_nan(const Job& job, std::int64_t row, std::span<const float> values) {
  const auto is_nan = [](float x) { return std::isnan(x); };
  const auto col = std::distance(values.begin(), std::find_if(values.begin(), values.end(), is_nan));
  throw Error(ErrorKind::input, "NaN at row " + std::to_string(job.input.first_row + row) + ", column " +
                                    std::to_string(col) + ": this recipe (" + job.recipe.name +
                                    ", NaN refused) takes none; remove it, or let NaN propagate or be dropped");
}

// Merges a row's values into the blocks they belong to.
void add_to_blocks(const Job& job, std::int64_t row, std::span<const float> values, std::span<BlockAmax> blocks) {
  bool any_nan = false;
  std::size_t col = 0;
  for (BlockAmax& block : blocks) {
    const std::size_t end = std::min(values.size(), col + static_cast<std::size_t>(job.block_cols));
    // Magnitudes of floats are in the order of their bits, and those of NaN above infinity's.
    std::uint32_t largest = std::bit_cast<std::uint32_t>(block.amax);
    std::uint32_t nan = 0;
    for (; col < end; ++col) {
      const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(values[col]) & 0x7FFFFFFF;
      const bool is_nan = magnitude > 0x7F800000;
      nan |= is_nan ? 1 : 0;
      largest = std::max(largest, is_nan ? 0 : magnitude);
    }
    block.amax = std::bit_cast<float>(largest);
    block.has_nan = block.has_nan || nan != 0;
    any_nan = any_nan || block.has_nan;
  }
  if (any_nan && job.recipe.nan == NanPolicy::refuse) refuse_nan(job, row, values);
}

// encode_element for the scales and recipes that most callers have, with all but x known to the compiler (flatten: the
// codec is inlined and folded). Nearly twice as fast; a test compares the two.
bool is_plain(const Recipe& recipe, const BlockScale& scale) {
  return recipe.scaling != ElementScaling::half_in_fp32 && recipe.rounding == Rounding::nearest_even &&
         recipe.overflow == Overflow::saturate && recipe.drop_negative_zero == DropNegativeZero::none &&
         !recipe.nan_sign && !scale.poisoned && !scale.divide && !scale.round_fp32;
}

template <Format kElement, class Code>
[[gnu::flatten]] void encode_plain(std::span<const float> values, double factor, Code* codes) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double scaled = static_cast<double>(values[i]) * factor;
    codes[i] = static_cast<Code>(encode(kElement, scaled, Rounding::nearest_even, Overflow::saturate));
  }
}

// False for a format without such a loop.
template <class Code>
bool encode_plain(Format element, std::span<const float> values, double factor, Code* codes) {
  switch (element) {
    case Format::e4m3: encode_plain<Format::e4m3>(values, factor, codes); return true;
    case Format::e5m2: encode_plain<Format::e5m2>(values, factor, codes); return true;
    case Format::e3m2: encode_plain<Format::e3m2>(values, factor, codes); return true;
    case Format::e2m3: encode_plain<Format::e2m3>(values, factor, codes); return true;
    case Format::e2m1: encode_plain<Format::e2m1>(values, factor, codes); return true;
    default: return false;
  }
}

template <class Code>
void encode_row(const Job& job, std::span<const float> row, std::span<const BlockScale> scales, Code* codes) {
  std::size_t begin = 0;
  for (const BlockScale& scale : scales) {
    const std::size_t end = std::min(row.size(), begin + static_cast<std::size_t>(job.block_cols));
    const auto values = row.subspan(begin, end - begin);
    if (!is_plain(job.recipe, scale) || !encode_plain(job.out.element, values, scale.factor, codes + begin)) {
      for (std::size_t i = begin; i < end; ++i)
        codes[i] = static_cast<Code>(encode_element(job.recipe, job.out.element, scale, row[i]));
    }
    begin = end;
  }
}

// The definition, for the rows of blocks [begin, end): amax of every block, its scale, its codes. Row by row through
// memory for every block shape.
void quantize_block_rows(const Job& job, std::int64_t begin, std::int64_t end) {
  Quantized& out = job.out;
  const auto blocks_in_row = static_cast<std::size_t>(out.scale_cols);
  std::vector<float> values(static_cast<std::size_t>(out.cols));
  std::vector<BlockAmax> amaxes(blocks_in_row);
  std::vector<BlockScale> scales(blocks_in_row);
  for (std::int64_t block_row = begin; block_row < end; ++block_row) {
    const std::int64_t first = job.row_starts[static_cast<std::size_t>(block_row)];
    const std::int64_t last = job.row_starts[static_cast<std::size_t>(block_row) + 1];
    std::fill(amaxes.begin(), amaxes.end(), BlockAmax{});
    for (std::int64_t row = first; row < last; ++row) {
      job.input.read_row(row, values);
      add_to_blocks(job, row, values, amaxes);
    }
    for (std::size_t i = 0; i < blocks_in_row; ++i) {
      const std::size_t at = static_cast<std::size_t>(block_row) * blocks_in_row + i;
      scales[i] = block_scale(job.recipe, out.element, amaxes[i]);
      if (out.scales_fp32.empty()) {
        out.scales[at] = scales[i].byte;
      } else {
        out.scales_fp32[at] = scales[i].scale;
      }
    }
    for (std::int64_t row = first; row < last; ++row) {
      if (last - first > 1) job.input.read_row(row, values);  // a single row is still there
      const std::int64_t at = row * out.cols;
      if (out.codes16.empty()) {
        encode_row(job, values, scales, out.codes.data() + at);
      } else {
        encode_row(job, values, scales, out.codes16.data() + at);
      }
    }
  }
}

void check_request(const MatrixView& input, Format element, BlockShape block, const Recipe& recipe,
                   std::span<const std::int64_t> offsets, int threads) {
  check_matrix(input);
  check_offsets(offsets, input.rows);
  check_quantized_format(element);
  if (block.rows < 0 || block.cols < 0) {
    throw Error(ErrorKind::usage,
                "block of " + to_text(block) + ": rows and columns must be 1 or more, or 0 for all of them");
  }
  if (recipe.rounding == Rounding::stochastic) {
    throw Error(ErrorKind::usage, "recipe " + recipe.name +
                                      " rounds stochastically: quantize takes no random words; use nearest_even, "
                                      "nearest_away or toward_zero");
  }
  if (threads < 0) {
    throw Error(ErrorKind::usage, std::to_string(threads) + " threads: must be 1 or more, or 0 for the machine's");
  }
}

}  // namespace

void check_quantized_format(Format element) {
  if (spec(element).is_quantized) return;
  const std::string known = join(kQuantizedFormats, ", ", [](Format f) { return spec(f).name; });
  throw Error(ErrorKind::usage, "element format " + std::string(spec(element).name) + ": must be one of " + known);
}

Quantized quantize(const MatrixView& input, Format element, BlockShape block, const Recipe& recipe,
                   std::span<const std::int64_t> offsets, int threads) {
  check_request(input, element, block, recipe, offsets, threads);
  Quantized out;
  out.element = element;
  out.block = block;
  out.rows = input.rows;
  out.cols = input.cols;
  const std::int64_t block_cols = block.width(input.cols);
  out.scale_rows = count_scale_rows(input.rows, block.rows, offsets);
  out.scale_cols = ceil_div(input.cols, block_cols);
  const std::int64_t elements = input.rows * input.cols;  // check_matrix: fits
  if (elements == 0) return out;
  const std::int64_t scales = out.scale_rows * out.scale_cols;  // at most elements
  if (element == Format::e5m6) {
    resize_or_throw(out.codes16, elements, "codes");
  } else {
    resize_or_throw(out.codes, elements, "codes");
  }
  if (!recipe.has_e8m0_scales()) {
    resize_or_throw(out.scales_fp32, scales, "scales");
  } else {
    resize_or_throw(out.scales, scales, "scales");
  }
  const std::vector<std::int64_t> row_starts = block_row_starts(input.rows, block.rows, offsets);
  const Job job{input, recipe, out, block_cols, row_starts};
  parallel_ranges(out.scale_rows, elements, threads,
                  [&](std::int64_t begin, std::int64_t end) { quantize_block_rows(job, begin, end); });
  return out;
}

DualQuantized quantize_dual(const MatrixView& input, Format element, std::int64_t n, const Recipe& recipe,
                            std::span<const std::int64_t> offsets, int threads) {
  return {quantize(input, element, {1, n}, recipe, offsets, threads),
          quantize(input, element, {n, 1}, recipe, offsets, threads)};
}

std::vector<std::int64_t> count_scale_rows_by_expert(std::int64_t rows, std::int64_t block_rows,
                                                     std::span<const std::int64_t> offsets) {
  if (rows < 0 || block_rows < 0) {
    throw Error(ErrorKind::usage,
                std::to_string(rows) + " rows in blocks of " + std::to_string(block_rows) + ": both must be 0 or more");
  }
  check_offsets(offsets, rows);
  const BlockShape block{block_rows, 1};
  const auto blocks = [block](std::int64_t n) { return ceil_div(n, block.height(n)); };
  if (offsets.empty()) return {blocks(rows)};
  std::vector<std::int64_t> counts;
  for (std::size_t e = 0; e + 1 < offsets.size(); ++e) counts.push_back(blocks(offsets[e + 1] - offsets[e]));
  return counts;
}

std::vector<std::int64_t> count_scale_rows_by_expert(const Quantized& q, std::span<const std::int64_t> offsets) {
  return count_scale_rows_by_expert(q.rows, q.block.rows, offsets);
}

std::int64_t count_scale_rows(std::int64_t rows, std::int64_t block_rows, std::span<const std::int64_t> offsets) {
  std::int64_t sum = 0;  // at most rows
  for (const std::int64_t count : count_scale_rows_by_expert(rows, block_rows, offsets)) sum += count;
  return sum;
}

std::vector<std::int64_t> block_row_starts(std::int64_t rows, std::int64_t block_rows,
                                           std::span<const std::int64_t> offsets) {
  std::vector<std::int64_t> starts;
  resize_or_throw(starts, checked_sum(count_scale_rows(rows, block_rows, offsets), 1, "rows of blocks"),
                  "rows of blocks");
  const std::array<std::int64_t, 2> one_expert{0, rows};
  if (offsets.empty()) offsets = one_expert;
  std::size_t i = 0;
  for (std::size_t e = 0; e + 1 < offsets.size(); ++e) {
    const std::int64_t step = BlockShape{block_rows, 1}.height(rows);
    for (std::int64_t row = offsets[e]; row < offsets[e + 1];) {
      starts[i++] = row;
      row = offsets[e + 1] - row > step ? row + step : offsets[e + 1];
    }
  }
  starts[i] = rows;
  return starts;
}

}  // namespace mxcheck
