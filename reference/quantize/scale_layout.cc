#include "reference/quantize/scale_layout.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "reference/common/checked_size.h"
#include "reference/common/parallel.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {
namespace {

void check_extents(std::int64_t rows, std::int64_t cols) {
  if (rows >= 0 && cols >= 0) return;
  refuse_usage("scales of " + std::to_string(rows) + " x " + std::to_string(cols) + ": sizes must be 0 or more");
}

void check_block(ScaleLayout layout, BlockShape block) {
  if (has_layout(layout, block)) return;
  refuse_usage("scales of " + to_text(block) + " blocks: layout " + std::string(to_text(layout)) +
               " holds those of blocks of one row or one column; use layout compact");
}

std::string scales_in(ScaleLayout layout) { return std::string(to_text(layout)) + " scales"; }

// The rows and columns of scales that are laid out for an expert with `rows` compact rows.
struct Extents {
  std::int64_t r;
  std::int64_t c;
};
bool is_transposed(ScaleLayout layout, BlockShape block) { return layout != ScaleLayout::compact && block.rows != 1; }
Extents laid_out(ScaleLayout layout, const ScaleShape& shape, std::int64_t rows) {
  return is_transposed(layout, shape.block) ? Extents{shape.cols, rows} : Extents{rows, shape.cols};
}

std::int64_t bytes_of(ScaleLayout layout, Extents x) {
  check_extents(x.r, x.c);
  const std::string what = scales_in(layout);
  switch (layout) {
    case ScaleLayout::compact: break;
    case ScaleLayout::tcgen05:
      return checked_product(checked_round_up(x.r, 128, what), checked_round_up(x.c, 4, what), what);
    case ScaleLayout::deepgemm:
      return checked_product(checked_round_up(x.r, 4, what), checked_round_up(x.c, 4, what), what);
  }
  return checked_product(x.r, x.c, what);
}

std::int64_t offset_of(ScaleLayout layout, std::int64_t i, std::int64_t j, Extents x) {
  switch (layout) {
    case ScaleLayout::compact: break;
    case ScaleLayout::tcgen05:
      return ((i / 128) * ceil_div(x.c, 4) + j / 4) * 512 + (i % 32) * 16 + ((i % 128) / 32) * 4 + j % 4;
    case ScaleLayout::deepgemm: return ((j / 4) * (ceil_div(x.r, 4) * 4) + i) * 4 + j % 4;
  }
  return i * x.c + j;
}

std::int64_t compact_count(const ScaleShape& shape) {
  check_extents(0, shape.cols);
  std::int64_t rows = 0;
  for (const std::int64_t n : shape.rows_of_expert) {
    check_extents(n, shape.cols);
    rows = checked_sum(rows, n, "scale rows");
  }
  return checked_product(rows, shape.cols, "scales");
}

void check_size(std::size_t size, std::int64_t expected, const std::string& what) {
  if (std::cmp_equal(size, expected)) return;
  refuse_usage(std::to_string(size) + " bytes of " + what + ": these shapes ask for " + std::to_string(expected));
}

// visit(index among the compact scales, offset in the layout) for every scale.
template <class Visit>
void for_each_scale(ScaleLayout layout, const ScaleShape& shape, Visit visit) {
  const bool transposed = is_transposed(layout, shape.block);
  std::int64_t compact = 0;
  std::int64_t first = 0;  // of this expert's layout
  for (const std::int64_t n : shape.rows_of_expert) {
    const Extents x = laid_out(layout, shape, n);
    for (std::int64_t row = 0; row < n; ++row) {
      for (std::int64_t col = 0; col < shape.cols; ++col) {
        const std::int64_t at = transposed ? offset_of(layout, col, row, x) : offset_of(layout, row, col, x);
        visit(static_cast<std::size_t>(compact++), static_cast<std::size_t>(first + at));
      }
    }
    first += bytes_of(layout, x);
  }
}

}  // namespace

ScaleShape scale_shape(const QuantizedTensor& q, std::span<const std::int64_t> offsets) {
  return {count_scale_rows_by_expert(q, offsets), q.scale_cols(), q.block()};
}

std::int64_t layout_bytes(ScaleLayout layout, const ScaleShape& shape) {
  check_block(layout, shape.block);
  static_cast<void>(compact_count(shape));  // refuses what makes no sense
  std::int64_t sum = 0;
  for (const std::int64_t n : shape.rows_of_expert) {
    sum = checked_sum(sum, bytes_of(layout, laid_out(layout, shape, n)), scales_in(layout));
  }
  return sum;
}

std::int64_t layout_offset(ScaleLayout layout, std::int64_t i, std::int64_t j, std::int64_t r, std::int64_t c) {
  if (i < 0 || j < 0 || i >= r || j >= c) {
    refuse_usage("scale (" + std::to_string(i) + ", " + std::to_string(j) + ") of " + std::to_string(r) + " x " +
                 std::to_string(c) + ": must lie within");
  }
  static_cast<void>(bytes_of(layout, {r, c}));  // refuses what overflows
  return offset_of(layout, i, j, {r, c});
}

std::vector<std::uint8_t> to_layout(ScaleLayout layout, const ScaleShape& shape, std::span<const std::uint8_t> compact,
                                    std::uint8_t pad) {
  const std::int64_t bytes = layout_bytes(layout, shape);
  check_size(compact.size(), compact_count(shape), "compact scales");
  std::vector<std::uint8_t> out;
  resize_or_throw(out, bytes, scales_in(layout), pad);
  for_each_scale(layout, shape, [&](std::size_t from, std::size_t to) { out[to] = compact[from]; });
  return out;
}

std::vector<std::uint8_t> from_layout(ScaleLayout layout, const ScaleShape& shape,
                                      std::span<const std::uint8_t> bytes) {
  check_size(bytes.size(), layout_bytes(layout, shape), scales_in(layout));
  std::vector<std::uint8_t> compact;
  resize_or_throw(compact, compact_count(shape), "compact scales");
  for_each_scale(layout, shape, [&](std::size_t to, std::size_t from) { compact[to] = bytes[from]; });
  return compact;
}

namespace {

void check_data(const Tensor& t, const std::string& what) {
  const std::int64_t expected = checked_product(t.rows(), t.cols(), "matrix elements");
  if (std::cmp_equal(t.size(), expected) && t.data.size() % size_of(t.format) == 0) return;
  throw Error(ErrorKind::usage,
              std::to_string(t.size()) + " " + what + ": the shape asks for " + std::to_string(expected));
}

// The scales of one level, whose blocks restart at these offsets.
void check_level(const QuantizedTensor& q, const ScaleLevel& level, std::span<const std::int64_t> offsets) {
  const Tensor& scales = level.scales;
  const bool known = scales.format == Format::e8m0 || scales.format == Format::fp32 || scales.format == Format::e4m3;
  if (!known || scales.shape.size() != 2) {
    throw Error(ErrorKind::usage, "scales of " + std::string(spec(scales.format).name) + " in " +
                                      std::to_string(scales.shape.size()) +
                                      " dimensions: must be a matrix of e8m0, fp32 or e4m3");
  }
  const std::int64_t rows = count_scale_rows(q.rows(), level.block.rows, offsets);
  const std::int64_t cols = ceil_div(q.cols(), level.block.width(q.cols()));
  if (scales.rows() != rows || scales.cols() != cols) {
    throw Error(ErrorKind::usage, "scales of " + std::to_string(scales.rows()) + " x " + std::to_string(scales.cols()) +
                                      ": blocks of " + to_text(level.block) + " under these offsets make " +
                                      std::to_string(rows) + " x " + std::to_string(cols));
  }
  check_data(scales, "scales");
}

}  // namespace

void check_quantized(const QuantizedTensor& q, std::span<const std::int64_t> offsets) {
  if (q.codes.shape.size() != 2 || q.levels.empty()) {
    throw Error(ErrorKind::usage, "quantized matrix of " + std::to_string(q.codes.shape.size()) + " dimensions and " +
                                      std::to_string(q.levels.size()) +
                                      " levels of scales: must have 2, and 1 or more");
  }
  const bool negative = std::any_of(q.levels.begin(), q.levels.end(), [](const ScaleLevel& level) {
    return level.block.rows < 0 || level.block.cols < 0;
  });
  if (q.rows() < 0 || q.cols() < 0 || negative) {
    throw Error(ErrorKind::usage, "quantized matrix of " + std::to_string(q.rows()) + " x " + std::to_string(q.cols()) +
                                      " in blocks of " + to_text(q.block()) + ": every number must be 0 or more");
  }
  check_quantized_format(q.element());
  for (std::size_t i = 0; i < q.levels.size(); ++i) {
    check_level(q, q.levels[i], i == 0 ? offsets : std::span<const std::int64_t>());
  }
  check_data(q.codes, "codes");
}

namespace {

[[noreturn]] void refuse_code(const QuantizedTensor& q, std::int64_t row, std::int64_t col, std::size_t code,
                              std::size_t codes) {
  throw Error(ErrorKind::input, "code " + std::to_string(code) + " at row " + std::to_string(row) + ", column " +
                                    std::to_string(col) + ": " + std::string(spec(q.element()).name) +
                                    " codes are 0 to " + std::to_string(codes - 1));
}

// An element's value and first scale as they become with the scales of all further levels. The product is exact, the
// quotient the double nearest to the exact one: no midpoint of FP32 or BF16 lies between the two, since a quotient of
// 34 bits by 24 that is no midpoint of 25 bits differs from it by more than 2^-50 of itself.
double with_outer_scales(const QuantizedTensor& q, std::int64_t row, std::int64_t col, double product) {
  const auto [times, over] = q.outer_scale(row, col);
  return product * times / over;
}

// One value for every code, by the definition.
std::vector<double> decode_table(Format element) {
  std::vector<double> values(std::size_t{1} << spec(element).bits);
  for (std::size_t code = 0; code < values.size(); ++code) {
    values[code] = decode(element, static_cast<std::uint32_t>(code));
  }
  return values;
}

// The exact product of every code and its scales, through round. Exact in a double: a code value has at most 8
// significant bits and an exponent from -20 to 15, an FP32 scale at most 24 and from -149 to 127, an E4M3 one 4 and
// from -9 to 8.
template <class Out, class Round>
std::vector<Out> dequantize_to(const QuantizedTensor& q, std::span<const std::int64_t> offsets, int threads,
                               Round round) {
  if (threads < 0) {
    throw Error(ErrorKind::usage, std::to_string(threads) + " threads: must be 1 or more, or 0 for the machine's");
  }
  check_quantized(q, offsets);  // so that the loops below need no checks
  std::vector<Out> out;
  if (q.rows() == 0 || q.cols() == 0) return out;
  resize_or_throw(out, q.rows() * q.cols(), "dequantized values");
  const std::vector<double> values = decode_table(q.element());
  const std::vector<std::int64_t> row_starts = block_row_starts(q.rows(), q.block().rows, offsets);
  const std::int64_t cols = q.cols();
  const std::int64_t block_cols = q.block().width(cols);
  const bool nested = q.levels.size() > 1;
  const auto one_row = [&](std::int64_t block_row, std::int64_t row) {
    for (std::int64_t block = 0, col = 0; block < q.scale_cols(); ++block) {
      const double scale = q.scale(static_cast<std::size_t>(block_row * q.scale_cols() + block));
      const std::int64_t end = cols - col > block_cols ? col + block_cols : cols;
      for (; col < end; ++col) {
        const auto at = static_cast<std::size_t>(row * cols + col);
        const std::size_t code = q.codes.code(at);
        if (code >= values.size()) refuse_code(q, row, col, code, values.size());
        const double value = values[code] * scale;
        out[at] = round(nested ? with_outer_scales(q, row, col, value) : value);
      }
    }
  };
  parallel_ranges(q.scale_rows(), q.rows() * cols, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block_row = begin; block_row < end; ++block_row) {
      const auto i = static_cast<std::size_t>(block_row);
      for (std::int64_t row = row_starts[i]; row < row_starts[i + 1]; ++row) one_row(block_row, row);
    }
  });
  return out;
}

}  // namespace

std::vector<float> dequantize(const QuantizedTensor& q, std::span<const std::int64_t> offsets, int threads) {
  return dequantize_to<float>(q, offsets, threads, [](double exact) {
    // The conversion rounds to nearest even; only its NaN differs from ours.
    return std::isnan(exact) ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(exact);
  });
}

std::vector<std::uint16_t> dequantize_bf16(const QuantizedTensor& q, std::span<const std::int64_t> offsets,
                                           int threads) {
  return dequantize_to<std::uint16_t>(q, offsets, threads, [](double exact) {
    const std::uint32_t code = encode(Format::bf16, exact, Rounding::nearest_even, Overflow::non_saturate);
    return static_cast<std::uint16_t>(code);
  });
}

}  // namespace mxcheck
