#include "reference/layer/operands.h"

#include <cstring>
#include <string>
#include <utility>

#include "numerics/elementary/elementary.h"
#include "numerics/error.h"
#include "numerics/scale/recipe.h"
#include "reference/common/checked_size.h"
#include "reference/common/parallel.h"
#include "reference/layer/run.h"
#include "reference/quantize/hadamard.h"
#include "reference/quantize/ms_eden.h"
#include "reference/quantize/stretches.h"

namespace mxcheck {

namespace {

std::size_t bytes_of(Format dtype) { return dtype == Format::fp32 ? 4 : 2; }

LayerOperand shaped(const MatrixView& x, bool by_token) {
  LayerOperand o;
  o.rows = x.rows, o.cols = x.cols, o.by_token = by_token;
  return o;
}

LayerOperand as_values(const MatrixView& x, bool by_token) {
  LayerOperand o = shaped(x, by_token);
  resize_or_throw(o.values, checked_product(x.rows, x.cols, "operand"), "operand");
  const std::size_t width = static_cast<std::size_t>(x.cols) * 2;
  for (std::int64_t row = 0; row < x.rows && width != 0; ++row)
    std::memcpy(o.values.data() + row * x.cols, x.data + row * x.row_stride * 2, width);
  return o;
}

// By a rule, with what is the same for all tensors that it quantizes.
struct OperandMaker {
  const OperandRule& rule;
  int threads;
  const OperandWords& words;

  [[nodiscard]] std::uint32_t word(std::uint64_t i, std::uint32_t of) const {
    return philox_word(words.random.seed, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32),
                       0x80000000U | words.random.layer << 8 | of, words.random.step);
  }

  [[nodiscard]] std::vector<std::uint32_t> random_words(std::int64_t count) const {
    std::vector<std::uint32_t> all;
    if (!rule.stochastic) return all;
    resize_or_throw(all, count, "random words");
    parallel_ranges(count, count * 16, threads, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = static_cast<std::uint64_t>(begin); i < static_cast<std::uint64_t>(end); ++i)
        all[i] = word(i, words.operand);
    });
    return all;
  }

  [[nodiscard]] LayerOperand codes(const MatrixView& x, BlockShape block, bool by_token,
                                   std::span<const std::int64_t> offsets) const {
    LayerOperand o = shaped(x, by_token);
    o.is_quantized = true;
    const std::vector<std::uint32_t> given = random_words(checked_product(x.rows, x.cols, "operand"));
    if (is_ms_eden(rule)) {
      MsEden parameters;
      if (rule.rotates != 0) parameters.group = rule.rotates;
      o.quantized =
          ms_eden_of_lines(x, parameters, block.rows == 1 ? Along::rows : Along::columns, offsets, given, threads);
      return o;
    }
    Recipe recipe = any_recipe_named(rule.scales);
    if (rule.stochastic) recipe.rounding = Rounding::stochastic;
    o.quantized = quantize(x, rule.format, block, recipe, {.words = given}, offsets, threads);
    return o;
  }

  // In the order of the routed rows, or of an expert's weights.
  [[nodiscard]] LayerOperand in_order(const MatrixView& x, BlockShape block,
                                      std::span<const std::int64_t> offsets) const {
    return rule.quantized() ? codes(x, block, false, offsets) : as_values(x, false);
  }

  [[nodiscard]] Hadamard transform(int size) const {
    Hadamard t{.size = size, .signs = {kRotationSigns}, .sum = HadamardSum::butterfly};
    for (std::uint32_t j = 0; rule.random_signs && j < t.signs.size(); ++j) t.signs[j] = word(j, words.signs());
    return t;
  }

  // Lines that begin at row `first`, rotated into `out`, which has all rows of x in BF16.
  void rotate(const MatrixView& x, std::int64_t first, std::int64_t rows, Along along, Words& out) const {
    const bool down = along == Along::columns;
    for (const Stretch& s : stretches_of(down ? rows : x.cols, rule.rotates)) {
      const std::int64_t row = first + (down ? s.first : 0), col = down ? 0 : s.first;
      const std::size_t at = static_cast<std::size_t>(row * x.row_stride + col) * bytes_of(x.dtype);
      const MatrixView part{x.dtype, x.data + at, down ? s.length : rows, down ? x.cols : s.length, x.row_stride};
      const Tensor y = s.group != 0 ? hadamard(part, transform(s.group), along, {}, threads) : Tensor();
      for (std::int64_t i = 0; i < part.rows; ++i) {
        for (std::int64_t j = 0; j < part.cols; ++j) {
          out[static_cast<std::size_t>((row + i) * x.cols + col + j)] = static_cast<std::uint16_t>(
              s.group != 0 ? y.code(static_cast<std::size_t>(i * part.cols + j))
                           : encode(Format::bf16, part.at(i, j), Rounding::nearest_even, Overflow::non_saturate));
        }
      }
    }
  }

  // Along the operand's k: the rows of each expert, or every row.
  [[nodiscard]] Words rotated(const MatrixView& x, Along along, std::span<const std::int64_t> offsets) const {
    Words out;
    resize_or_throw(out, checked_product(x.rows, x.cols, "rotated rows"), "rotated rows");
    if (out.empty()) return out;
    if (along == Along::rows) rotate(x, 0, x.rows, along, out);
    for (std::size_t e = 0; along == Along::columns && e + 1 < offsets.size(); ++e)
      if (offsets[e] < offsets[e + 1]) rotate(x, offsets[e], offsets[e + 1] - offsets[e], along, out);
    return out;
  }

  [[nodiscard]] LayerOperand along_tokens(const MatrixView& x, std::span<const std::int64_t> offsets) const {
    const BlockShape block = rule.block.transposed();
    if (rule.rotates == 0) return in_order(x, block, offsets);
    Words rows = rotated(x, Along::columns, offsets);
    LayerOperand o = in_order(view(rows, x.rows, x.cols), block, offsets);
    o.rotated = std::move(rows);
    return o;
  }

  // Blocks of rows, k along them.
  [[nodiscard]] LayerOperand along_rows(const MatrixView& x, bool by_token,
                                        std::span<const std::int64_t> offsets) const {
    if (rule.rotates == 0) return codes(x, rule.block, by_token, offsets);
    Words rows = rotated(x, Along::rows, {});
    LayerOperand o = codes(view(rows, x.rows, x.cols), rule.block, by_token, offsets);
    o.rotated = std::move(rows);
    return o;
  }
};

MatrixView rows_of(const std::vector<std::byte>& bytes, const MatrixView& x, std::size_t rows) {
  return {x.dtype, bytes.data(), static_cast<std::int64_t>(rows), x.cols, x.cols};
}

}  // namespace

std::vector<std::byte> gathered(const MatrixView& x, std::span<const std::int32_t> index) {
  const std::size_t width = static_cast<std::size_t>(x.cols) * bytes_of(x.dtype);
  std::vector<std::byte> bytes;
  resize_or_throw(bytes, checked_product(std::ssize(index), static_cast<std::int64_t>(width), "gathered rows"),
                  "gathered rows");
  for (std::size_t i = 0; i < index.size() && width != 0; ++i) {
    const std::size_t from = static_cast<std::size_t>(index[i]) * static_cast<std::size_t>(x.row_stride);
    std::memcpy(bytes.data() + i * width, x.data + from * bytes_of(x.dtype), width);
  }
  return bytes;
}

LayerOperand row_operand(const OperandRule& rule, const TokenRows& x, const RoutedRows& routed, int threads,
                         const OperandWords& words) {
  if (!rule.quantized()) return as_values(x.values, x.by_token);
  const OperandMaker make{rule, threads, words};
  if (rule.block.rows <= 1) return make.along_rows(x.values, x.by_token, {});
  if (!x.by_token) return make.along_rows(x.values, false, routed.offsets);
  const std::vector<std::byte> rows = gathered(x.values, routed.row_token);
  return make.along_rows(rows_of(rows, x.values, routed.row_token.size()), false, routed.offsets);
}

LayerOperand column_operand(const OperandRule& rule, const TokenRows& x, const RoutedRows& routed, int threads,
                            const OperandWords& words) {
  const OperandMaker make{rule, threads, words};
  if (rule.quantized() && rule.of_whole_tensor()) {
    LayerOperand o = make.codes(x.values, rule.block, false, {});
    if (!x.by_token) return o;
    o.rows = std::ssize(routed.row_token);
    Tensor codes = make_tensor(rule.format, {o.rows, o.cols}, "gathered rows");
    const std::size_t width = static_cast<std::size_t>(o.cols) * size_of(rule.format);
    for (std::size_t i = 0; i < routed.row_token.size() && width != 0; ++i) {
      std::memcpy(codes.data.data() + i * width,
                  o.quantized.codes.data.data() + static_cast<std::size_t>(routed.row_token[i]) * width, width);
    }
    o.quantized.codes = std::move(codes);
    return o;
  }
  if (!x.by_token) return make.along_tokens(x.values, routed.offsets);
  const std::vector<std::byte> rows = gathered(x.values, routed.row_token);
  return make.along_tokens(rows_of(rows, x.values, routed.row_token.size()), routed.offsets);
}

LayerOperand weight_operand(const OperandRule& rule, const MatrixView& w, std::int64_t experts, int threads,
                            const OperandWords& words) {
  const OperandMaker make{rule, threads, words};
  if (rule.quantized() && rule.of_whole_tensor()) return make.codes(w, rule.block, false, {});
  std::vector<std::int64_t> offsets{0};
  for (std::int64_t e = 1; e <= experts; ++e) offsets.push_back(w.rows / experts * e);
  return rule.quantized() ? make.along_rows(w, false, offsets) : as_values(w, false);
}

float alpha_of(const LayerOperand& a, const LayerOperand& b) {
  const auto outer = [](const LayerOperand& x) {
    if (!x.is_quantized || x.quantized.levels.size() < 2 || x.quantized.levels[1].scales.empty()) return 1.0F;
    const auto [multiplier, divisor] = x.quantized.levels[1].multiplier_and_divisor(0);
    return static_cast<float>(multiplier / divisor);
  };
  return outer(a) * outer(b);
}

std::vector<float> values_of(const LayerOperand& x, std::span<const std::int64_t> offsets, int threads) {
  if (x.is_quantized) {
    const bool restarts = x.quantized.block().rows > 1;
    return dequantize(x.quantized, restarts ? offsets : std::span<const std::int64_t>(), threads);
  }
  std::vector<float> values(x.values.size());
  const MatrixView view{Format::bf16, std::as_bytes(std::span(x.values)).data(), x.rows, x.cols, x.cols};
  const auto width = static_cast<std::size_t>(x.cols);
  for (std::int64_t row = 0; row < x.rows; ++row)
    view.read_row(row, std::span(values).subspan(static_cast<std::size_t>(row) * width, width));
  return values;
}

MatmulOperand operand_of(const OperandRule& rule, const MatmulContract& contract) {
  MatmulOperand m;
  m.format = rule.format;
  if (!rule.quantized()) return m;
  // One scale for all: blocks of any size, whose strides are 0.
  m.block = rule.of_whole_tensor() ? BlockShape{1, contract.promotion != 0 ? contract.promotion : 32} : rule.block;
  m.scale_format = scale_format_of(rule);
  return m;
}

MatmulOperand operand_of(const OperandRule& rule, const MatmulContract& contract, const LayerOperand& x, Depth depth,
                         std::int64_t experts) {
  MatmulOperand m = operand_of(rule, contract);
  const QuantizedTensor& q = x.quantized;
  m.codes = x.is_quantized ? static_cast<const void*>(q.codes.data.data()) : x.values.data();
  m.scales = q.scales().data.data();
  const bool one_scale = rule.quantized() && rule.of_whole_tensor();
  m.rows = x.rows / experts, m.depth = x.cols;
  m.row_stride = x.cols, m.depth_stride = 1;
  m.scale_row_stride = one_scale ? 0 : q.scale_cols(), m.scale_depth_stride = one_scale ? 0 : 1;
  if (depth == Depth::rows) {
    std::swap(m.rows, m.depth);
    std::swap(m.row_stride, m.depth_stride);
    std::swap(m.scale_row_stride, m.scale_depth_stride);
  }
  return m;
}

}  // namespace mxcheck
