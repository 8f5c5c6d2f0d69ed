// Quantizing to two levels of scales, by the definition: the outer scale, then block by block its scale, or the better
// of two, and the codes.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "numerics/format/codec.h"
#include "numerics/scale/recipe.h"
#include "numerics/scale/scale_rule.h"
#include "numerics/scale/two_level.h"
#include "numerics/tensor.h"
#include "reference/common/checked_size.h"
#include "reference/common/matrix.h"
#include "reference/common/parallel.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {

void Magnitudes::add(float x) {
  if (std::isnan(x)) {
    has_nan = true;
  } else if (std::isinf(x)) {
    has_inf = true;
  } else {
    finite = std::max(finite, std::fabs(x));
  }
}

void Magnitudes::add(const Magnitudes& other) {
  finite = std::max(finite, other.finite);
  has_inf |= other.has_inf;
  has_nan |= other.has_nan;
}

float Magnitudes::amax(TensorAmax policy) const {
  if (policy == TensorAmax::finite) return finite;
  if (policy == TensorAmax::propagates && has_nan) return std::numeric_limits<float>::quiet_NaN();
  return has_inf ? std::numeric_limits<float>::infinity() : finite;
}

namespace {

std::vector<Magnitudes> magnitudes_of_rows(const MatrixView& input, int threads) {
  std::vector<Magnitudes> rows(static_cast<std::size_t>(input.rows));
  parallel_ranges(input.rows, input.rows * input.cols, threads, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> values(static_cast<std::size_t>(input.cols));
    for (std::int64_t row = begin; row < end; ++row) {
      input.read_row(row, values);
      for (const float x : values) rows[static_cast<std::size_t>(row)].add(x);
    }
  });
  return rows;
}

Magnitudes sum_of(const std::vector<Magnitudes>& rows) {
  Magnitudes all;
  for (const Magnitudes& row : rows) all.add(row);
  return all;
}

// A matrix's second level of scales, and what it stands for.
struct Outer {
  std::vector<float> stored;       // one, or one for each row
  std::vector<OuterScale> scales;  // of these

  [[nodiscard]] std::size_t index(std::int64_t row) const {
    return stored.size() == 1 ? 0 : static_cast<std::size_t>(row);
  }
};

Outer outer_of(const MatrixView& input, const Recipe& recipe, Format element, const QuantizeExtras& extras,
               int threads) {
  const TwoLevel& levels = recipe.two_level;
  const float vmax = largest_value(element);
  Outer outer;
  if (!extras.outer.empty()) {
    outer.stored.assign(extras.outer.begin(), extras.outer.end());
    for (const float stored : outer.stored) outer.scales.push_back(outer_scale_of_stored(levels, vmax, stored));
    return outer;
  }
  std::vector<Magnitudes> found;
  if (extras.whole != nullptr) {
    found = {*extras.whole};
  } else {
    found = magnitudes_of_rows(input, threads);
    if (!extras.outer_of_rows) found = {sum_of(found)};
  }
  for (const Magnitudes& m : found) {
    const float amax = m.amax(levels.amax);
    outer.scales.push_back(outer_scale(levels, vmax, amax));
    outer.stored.push_back(stored_scale(levels, outer.scales.back(), amax));
  }
  return outer;
}

// A block: its elements row by row, their indices, and its codes.
struct Block {
  std::vector<float> values;
  std::vector<std::size_t> at;
  BlockAmax amax;
  std::vector<std::uint32_t> codes;
};

struct Quantizer {
  const Recipe& recipe;
  Format element;
  const QuantizeExtras& extras;

  void encode_block(const Block& block, const BlockScale& scale, std::vector<std::uint32_t>& codes) const {
    codes.resize(block.values.size());
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const std::uint32_t word = extras.words.empty() ? 0 : extras.words[block.at[i]];
      codes[i] = encode_element(recipe, element, scale, block.values[i], word);
    }
  }

  // The error of codes, in FP32 from the first element to the last, by BlockChoice.
  [[nodiscard]] float error_of(const Block& block, const BlockScale& scale, std::span<const std::uint32_t> codes,
                               float stored) const {
    const TwoLevel& levels = recipe.two_level;
    const float unit = levels.limit * largest_value(element);
    float sum = 0;
    for (std::size_t i = 0; i < codes.size(); ++i) {
      float value = static_cast<float>(decode(element, codes[i])) * scale.scale;
      switch (levels.stored) {
        case StoredScale::decode: value = value * stored; break;
        case StoredScale::encode: value = value / stored; break;
        case StoredScale::amax: value = value * stored / unit; break;
      }
      const float error = std::fabs(block.values[i] - value);
      if (levels.choice == BlockChoice::largest_error) {
        sum = std::max(sum, error);
      } else {
        sum = sum + (levels.choice == BlockChoice::squared_error ? error * error : error);
      }
    }
    return sum;
  }

  // The block's scale, with the codes under it.
  BlockScale quantize_block(Block& block, OuterScale outer, float stored) const {
    const BlockScale six = block_scale(recipe, element, block.amax, outer);
    encode_block(block, six, block.codes);
    if (recipe.two_level.choice == BlockChoice::none) return six;
    const BlockScale four = block_scale(recipe, element, block.amax, outer, 1.5F);
    std::vector<std::uint32_t> codes;
    encode_block(block, four, codes);
    if (!(error_of(block, four, codes, stored) < error_of(block, six, block.codes, stored))) return six;
    block.codes = codes;
    return four;
  }
};

// Elements of one row from first_col on.
void read_stretch(const MatrixView& input, std::int64_t row, std::int64_t first_col, std::span<float> values) {
  const auto n = static_cast<std::int64_t>(values.size());
  if (n == 0) return;
  const std::size_t offset = static_cast<std::size_t>(row * input.row_stride + first_col) * size_of(input.dtype);
  MatrixView{input.dtype, input.data + offset, 1, n, n}.read_row(0, values);
}

void read_block(const MatrixView& input, std::int64_t first_row, std::int64_t end_row, std::int64_t first_col,
                std::int64_t end_col, const Recipe& recipe, Block& block) {
  const auto width = static_cast<std::size_t>(end_col - first_col);
  block.values.resize(static_cast<std::size_t>(end_row - first_row) * width);
  block.at.resize(block.values.size());
  Magnitudes all;
  std::size_t i = 0;
  for (std::int64_t row = first_row; row < end_row; ++row) {
    const std::span<float> values = std::span(block.values).subspan(i, width);
    read_stretch(input, row, first_col, values);
    for (std::size_t n = 0; n < width; ++n, ++i) {
      const std::int64_t col = first_col + static_cast<std::int64_t>(n);
      if (recipe.nan == NanPolicy::refuse && std::isnan(values[n]))
        detail::refuse_nan(recipe, input.first_row + row, col);
      block.at[i] = static_cast<std::size_t>(row * input.cols + col);
      all.add(values[n]);
    }
  }
  block.amax = {all.amax(TensorAmax::drops_nan), all.has_nan};
}

}  // namespace

Magnitudes magnitudes_of(const MatrixView& input, int threads) { return sum_of(magnitudes_of_rows(input, threads)); }

void detail::quantize_two_levels(const MatrixView& input, const Recipe& recipe, const QuantizeExtras& extras,
                                 std::span<const std::int64_t> offsets, int threads, QuantizedTensor& out) {
  const Outer outer = outer_of(input, recipe, out.element(), extras, threads);
  const BlockShape outer_block = extras.outer_of_rows ? BlockShape{1, 0} : BlockShape{0, 0};
  const std::int64_t outer_rows = extras.outer_of_rows ? input.rows : count_scale_rows(input.rows, 0, {});
  const std::int64_t outer_cols = input.cols == 0 ? 0 : 1;
  ScaleLevel level{outer_block, ScaleRule::fp32, make_tensor(Format::fp32, {outer_rows, outer_cols}, "outer scales")};
  level.stored = recipe.two_level.stored;
  if (level.stored == StoredScale::amax) level.unit = recipe.two_level.limit * largest_value(out.element());
  for (std::size_t i = 0; i < level.scales.size(); ++i) {
    level.scales.set_code(i, std::bit_cast<std::uint32_t>(outer.stored[i]));
  }
  out.levels.push_back(std::move(level));
  if (out.codes.empty()) return;
  const std::int64_t width = std::min(out.block().width(input.cols), input.cols);
  const std::vector<std::int64_t> starts = block_row_starts(input.rows, out.block().rows, offsets);
  const Quantizer quantizer{recipe, out.element(), extras};
  const bool are_bytes = size_of(out.codes.format) == 1;
  std::uint8_t* const bytes = are_bytes ? out.codes.as<std::uint8_t>().data() : nullptr;
  parallel_ranges(out.scale_rows(), input.rows * input.cols, threads, [&](std::int64_t begin, std::int64_t end) {
    Block block;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = starts[static_cast<std::size_t>(i)];
      const std::size_t o = outer.index(first);
      for (std::int64_t j = 0; j < out.scale_cols(); ++j) {
        read_block(input, first, starts[static_cast<std::size_t>(i) + 1], j * width,
                   std::min(input.cols, (j + 1) * width), recipe, block);
        const BlockScale scale = quantizer.quantize_block(block, outer.scales[o], outer.stored[o]);
        out.scales().set_code(static_cast<std::size_t>(i * out.scale_cols() + j), scale.byte);
        for (std::size_t e = 0; e < block.at.size(); ++e) {
          if (are_bytes) {
            bytes[block.at[e]] = static_cast<std::uint8_t>(block.codes[e]);
          } else {
            out.codes.set_code(block.at[e], block.codes[e]);
          }
        }
      }
    }
  });
}

}  // namespace mxcheck
