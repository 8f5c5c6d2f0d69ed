#include "reference/quantize/quantize.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "numerics/elementary/elementary.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/scale/block_scales.h"
#include "numerics/text.h"
#include "reference/common/checked_size.h"
#include "reference/common/parallel.h"
#include "reference/quantize/encode_blocks.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kStripElements = 4096;  // 16 KiB of floats: the first-level cache holds what belongs to them

// One quantization of a matrix: all that stays the same from one row of blocks to the next.
struct Job {
  const MatrixView& input;
  const Recipe& recipe;
  QuantizedTensor& out;
  std::int64_t block_cols;                      // the whole extent written out, at most the columns there are
  const std::vector<std::int64_t>& row_starts;  // block_row_starts; empty for blocks of one row: i begins at row i
  std::int64_t rows_at_once;                    // rows of blocks that are worked on together
  std::span<const std::uint32_t> words;         // stochastic rounding: of each element; otherwise empty

  [[nodiscard]] std::int64_t first_row(std::int64_t block_row) const {
    return row_starts.empty() ? block_row : row_starts[static_cast<std::size_t>(block_row)];
  }
};

// In a matrix of few columns, rows of whole blocks one after the other are one longer row of blocks: what each row
// costs beside its elements is then shared. Tall blocks are one row of blocks at a time.
std::int64_t rows_at_once(const MatrixView& input, BlockShape block, std::int64_t block_cols) {
  const bool joins = block.rows == 1 && input.cols % block_cols == 0;
  return joins ? std::max<std::int64_t>(1, kStripElements / input.cols) : 1;
}

// `values` begin at row `row`, and may be several rows.
[[noreturn]] void refuse_first_nan(const Job& job, std::int64_t row, std::span<const float> values) {
  const auto is_nan = [](float x) { return std::isnan(x); };
  const auto at = std::distance(values.begin(), std::find_if(values.begin(), values.end(), is_nan));
  detail::refuse_nan(job.recipe, job.input.first_row + row + at / job.out.cols(), at % job.out.cols());
}

// `values` are those of whole rows from `row` on.
void read_rows(const Job& job, std::int64_t row, std::span<float> values) {
  if (job.input.row_stride == job.out.cols()) return job.input.read_row(row, values);  // no gaps: as one long row
  const auto cols = static_cast<std::size_t>(job.out.cols());
  for (std::size_t at = 0; at < values.size(); at += cols) job.input.read_row(row++, values.subspan(at, cols));
}

// Merges values into their block. Magnitudes of floats are in the order of their bits, and those of NaN above
// infinity's.
[[gnu::always_inline]] inline void add_to_block(std::span<const float> values, BlockAmax& block) {
  auto largest = std::bit_cast<std::uint32_t>(block.amax);
  std::uint32_t nan = block.has_nan ? 1 : 0;
  for (const float value : values) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFF;
    const bool is_nan = magnitude > 0x7F800000;
    nan |= is_nan ? 1 : 0;
    largest = std::max(largest, is_nan ? 0 : magnitude);
  }
  block = {std::bit_cast<float>(largest), nan != 0};
}

// Merges the values of a row, or of rows that are one row of blocks, into the blocks they belong to; the first row's
// are the first that the blocks have.
void add_to_blocks(const Job& job, std::int64_t row, bool is_first, std::span<const float> values,
                   std::span<BlockAmax> blocks) {
  bool any_nan = false;
  if (is_first && job.block_cols == 1) {  // a loop of its own: the compiler then knows that there is one value
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      BlockAmax block;
      add_to_block(values.subspan(i, 1), block);
      blocks[i] = block;
      any_nan |= block.has_nan;
    }
  } else {
    if (is_first) std::fill(blocks.begin(), blocks.end(), BlockAmax{});
    const auto width = static_cast<std::size_t>(job.block_cols);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      add_to_block(values.subspan(i * width, std::min(width, values.size() - i * width)), blocks[i]);
      any_nan |= blocks[i].has_nan;
    }
  }
  if (any_nan && job.recipe.nan == NanPolicy::refuse) refuse_first_nan(job, row, values);
}

// Buffers of one thread, for as many rows of blocks as are worked on at once.
struct Strip {
  explicit Strip(const Job& job)
      : values(static_cast<std::size_t>(job.out.cols() * job.rows_at_once)),
        amaxes(static_cast<std::size_t>(job.out.scale_cols() * job.rows_at_once)),
        factors(amaxes.size()),
        scale_of(job.recipe, job.out.element()) {}
  std::vector<float> values;
  std::vector<BlockAmax> amaxes;
  std::vector<double> factors;     // for encode_blocks
  std::vector<BlockScale> scales;  // where that is not enough
  BlockScales scale_of;
};

// The codes of a row, or of rows that are one row of blocks, by the definition; `at` is the first element's index.
template <class Code>
void encode_row(const Job& job, std::span<const float> row, std::span<const BlockScale> scales, std::size_t at) {
  Code* codes = job.out.codes.as<Code>().data() + at;
  std::size_t col = 0;
  for (const BlockScale& scale : scales) {
    const std::size_t end = std::min(row.size(), col + static_cast<std::size_t>(job.block_cols));
    for (; col < end; ++col) {
      const std::uint32_t word = job.words.empty() ? 0 : job.words[at + col];
      codes[col] = static_cast<Code>(encode_element(job.recipe, job.out.element(), scale, row[col], word));
    }
  }
}

// Stores the scales of the rows of blocks that begin with number `begin`. True: encode_blocks has the codes of all.
bool find_scales(const Job& job, Strip& strip, std::span<const BlockAmax> amaxes, std::int64_t begin) {
  const auto at = static_cast<std::size_t>(begin * job.out.scale_cols());
  Tensor& scales = job.out.scales();
  const bool bytes = scales.format == Format::e8m0;
  if (detail::encodes_blocks_as(job.recipe, job.out.element()) && bytes &&
      strip.scale_of.find(amaxes, scales.as<std::uint8_t>().data() + at, strip.factors.data())) {
    return true;
  }
  strip.scales.resize(amaxes.size());
  for (std::size_t i = 0; i < amaxes.size(); ++i) {
    strip.scales[i] = strip.scale_of(amaxes[i]);
    scales.set_code(at + i, bytes ? strip.scales[i].byte : std::bit_cast<std::uint32_t>(strip.scales[i].scale));
  }
  return false;
}

// The definition, for the rows of blocks [begin, end), all of one row or only one of any height: amax of every block,
// its scale, its codes.
void quantize_strip(const Job& job, Strip& strip, std::int64_t begin, std::int64_t end) {
  QuantizedTensor& out = job.out;
  const std::int64_t first = job.first_row(begin);
  const std::int64_t last = job.first_row(end);
  const std::int64_t rows_read = end - begin > 1 ? end - begin : 1;
  const auto values = std::span(strip.values).first(static_cast<std::size_t>(rows_read * out.cols()));
  const auto amaxes = std::span(strip.amaxes).first(static_cast<std::size_t>((end - begin) * out.scale_cols()));
  for (std::int64_t row = first; row < last; row += rows_read) {
    read_rows(job, row, values);
    add_to_blocks(job, row, row == first, values, amaxes);
  }
  const bool plain = find_scales(job, strip, amaxes, begin);
  const auto factors = std::span<const double>(strip.factors).first(amaxes.size());
  for (std::int64_t row = first; row < last; row += rows_read) {
    if (last - first > rows_read) read_rows(job, row, values);  // otherwise they are still there
    const auto at = static_cast<std::size_t>(row * out.cols());
    if (plain) {
      detail::encode_blocks({out.element(), values, static_cast<std::size_t>(job.block_cols), factors,
                             out.codes.as<std::uint8_t>().data() + at});
    } else if (size_of(out.element()) == 1) {
      encode_row<std::uint8_t>(job, values, strip.scales, at);
    } else {
      encode_row<std::uint16_t>(job, values, strip.scales, at);
    }
  }
}

// Row by row through memory for every block shape.
void quantize_block_rows(const Job& job, std::int64_t begin, std::int64_t end) {
  Strip strip(job);
  for (std::int64_t at = begin; at < end; at += job.rows_at_once) {
    quantize_strip(job, strip, at, std::min(end, at + job.rows_at_once));
  }
}

void check_request(const MatrixView& input, Format element, BlockShape block, std::span<const std::int64_t> offsets,
                   int threads) {
  check_matrix(input);
  check_offsets(offsets, input.rows);
  check_quantized_format(element);
  if (block.rows < 0 || block.cols < 0) {
    throw Error(ErrorKind::usage,
                "block of " + to_text(block) + ": rows and columns must be 1 or more, or 0 for all of them");
  }
  if (threads < 0) {
    throw Error(ErrorKind::usage, std::to_string(threads) + " threads: must be 1 or more, or 0 for the machine's");
  }
}

[[noreturn]] void refuse(const Recipe& recipe, const std::string& what) {
  throw Error(ErrorKind::usage, "recipe " + recipe.name + what);
}

void check_outer(const MatrixView& input, const Recipe& recipe, BlockShape block, const QuantizeExtras& extras) {
  if (!recipe.has_two_levels()) {
    if (extras.outer_of_rows || !extras.outer.empty() || extras.whole != nullptr)
      refuse(recipe, " has one level of scales: it takes no tensor_scale");
    return;
  }
  if (extras.outer_of_rows && block.rows != 1) {
    refuse(recipe, " in blocks of " + to_text(block) + ": a tensor_scale for each row needs blocks of one row");
  }
  if (extras.whole != nullptr && (extras.outer_of_rows || !extras.outer.empty())) {
    refuse(recipe, ": magnitudes of the whole matrix given beside a tensor_scale");
  }
  const std::int64_t count = extras.outer_of_rows ? input.rows : 1;
  if (!extras.outer.empty() && std::cmp_not_equal(extras.outer.size(), count)) {
    refuse(recipe, ": " + std::to_string(extras.outer.size()) + " tensor_scales given, where " + std::to_string(count) +
                       (extras.outer_of_rows ? ", one for each row, must be" : " must be"));
  }
  const bool is_amax = recipe.two_level.stored == StoredScale::amax;
  for (const float scale : extras.outer) {
    if (std::isfinite(scale) && (scale > 0 || (is_amax && scale == 0 && !std::signbit(scale)))) continue;
    refuse(recipe, ": a tensor_scale of " + fmt::format("{:g}", scale) + " given: it must be finite and " +
                       (is_amax ? "0 or more, the largest magnitude" : "greater than 0"));
  }
}

void check_words(const MatrixView& input, const Recipe& recipe, const QuantizeExtras& extras) {
  const bool needed = recipe.rounding == Rounding::stochastic;
  if (!needed && !extras.words.empty()) refuse(recipe, " does not round stochastically: it takes no random words");
  const std::int64_t count = checked_product(input.rows, input.cols, "matrix elements");
  if (!needed || std::cmp_equal(extras.words.size(), count)) return;
  refuse(recipe, " rounds stochastically: it needs " + std::to_string(count) +
                     " random words, one for each element, not " + std::to_string(extras.words.size()));
}

}  // namespace

void detail::refuse_nan(const Recipe& recipe, std::int64_t row, std::int64_t col) {
  throw Error(ErrorKind::input, "NaN at row " + std::to_string(row) + ", column " + std::to_string(col) +
                                    ": this recipe (" + recipe.name +
                                    ", NaN refused) takes none; remove it, or let NaN propagate or be dropped");
}

void check_quantized_format(Format element) {
  if (spec(element).is_quantized) return;
  const std::string known = join(kQuantizedFormats, ", ", [](Format f) { return spec(f).name; });
  throw Error(ErrorKind::usage, "element format " + std::string(spec(element).name) + ": must be one of " + known);
}

std::uint32_t element_word(std::uint64_t key, std::uint64_t number, const std::array<std::uint32_t, 2>& counter) {
  return philox_word(key, static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32), counter[0],
                     counter[1]);
}

std::uint32_t element_byte_word(std::uint64_t key, std::uint64_t number, const std::array<std::uint32_t, 2>& counter) {
  constexpr std::array<int, 4> kByteOf{0, 2, 1, 3};
  const std::uint64_t call = number / 16;
  const std::array<std::uint32_t, 4> four = philox_words(
      key, static_cast<std::uint32_t>(call), static_cast<std::uint32_t>(call >> 32), counter[0], counter[1]);
  const std::uint32_t byte = four[number % 16 / 4] >> 8 * kByteOf[number % 4] & 0xFF;
  return byte << 24;
}

QuantizedTensor quantize(const MatrixView& input, Format element, BlockShape block, const Recipe& recipe,
                         std::span<const std::int64_t> offsets, int threads) {
  return quantize(input, element, block, recipe, QuantizeExtras{}, offsets, threads);
}

QuantizedTensor quantize(const MatrixView& input, Format element, BlockShape block, const Recipe& recipe,
                         const QuantizeExtras& extras, std::span<const std::int64_t> offsets, int threads) {
  check_request(input, element, block, offsets, threads);
  check_outer(input, recipe, block, extras);
  check_words(input, recipe, extras);
  const std::int64_t block_cols = block.width(input.cols);
  QuantizedTensor out =
      make_quantized(element, input.rows, input.cols, block, recipe.scale_format(),
                     count_scale_rows(input.rows, block.rows, offsets), ceil_div(input.cols, block_cols));
  out.levels.front().rule = recipe.rule;
  if (recipe.has_two_levels()) detail::quantize_two_levels(input, recipe, extras, offsets, threads, out);
  if (out.codes.empty() || recipe.has_two_levels()) return out;
  std::vector<std::int64_t> row_starts;
  if (block.rows != 1) row_starts = block_row_starts(input.rows, block.rows, offsets);
  const std::int64_t width = std::min(block_cols, input.cols);
  const Job job{input, recipe, out, width, row_starts, rows_at_once(input, block, width), extras.words};
  parallel_ranges(out.scale_rows(), input.rows * input.cols, threads,
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

std::vector<std::int64_t> count_scale_rows_by_expert(const QuantizedTensor& q, std::span<const std::int64_t> offsets) {
  return count_scale_rows_by_expert(q.rows(), q.block().rows, offsets);
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
