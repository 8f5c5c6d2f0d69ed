#include "reference/quantize/scale_layout.h"

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

ScaleShape scale_shape(const Quantized& q, std::span<const std::int64_t> offsets) {
  return {count_scale_rows_by_expert(q, offsets), q.scale_cols, q.block};
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

void dequantize_check_size(std::size_t size, std::int64_t expected, const std::string& what) {
  if (std::cmp_equal(size, expected)) return;
  throw Error(ErrorKind::usage, std::to_string(size) + " " + what + ": the shape asks for " + std::to_string(expected));
}

// Every field agrees with the others, so that the loops below need no checks.
void check_quantized(const Quantized& q, std::span<const std::int64_t> offsets, int threads) {
  if (q.rows < 0 || q.cols < 0 || q.block.rows < 0 || q.block.cols < 0 || threads < 0) {
    throw Error(ErrorKind::usage, "quantized matrix of " + std::to_string(q.rows) + " x " + std::to_string(q.cols) +
                                      " in blocks of " + to_text(q.block) + " on " + std::to_string(threads) +
                                      " threads: every number must be 0 or more");
  }
  check_quantized_format(q.element);
  const std::int64_t scale_rows = count_scale_rows(q.rows, q.block.rows, offsets);
  const std::int64_t scale_cols = ceil_div(q.cols, q.block.width(q.cols));
  if (q.scale_rows != scale_rows || q.scale_cols != scale_cols) {
    throw Error(ErrorKind::usage, "scales of " + std::to_string(q.scale_rows) + " x " + std::to_string(q.scale_cols) +
                                      ": blocks of " + to_text(q.block) + " under these offsets make " +
                                      std::to_string(scale_rows) + " x " + std::to_string(scale_cols));
  }
  const std::int64_t elements = checked_product(q.rows, q.cols, "matrix elements");
  const bool two_bytes = q.element == Format::e5m6;
  dequantize_check_size(q.codes.size(), two_bytes ? 0 : elements, "one-byte codes");
  dequantize_check_size(q.codes16.size(), two_bytes ? elements : 0, "two-byte codes");
  const std::int64_t scales = scale_rows * scale_cols;  // at most elements
  if (!q.scales.empty() && !q.scales_fp32.empty()) {
    throw Error(ErrorKind::usage, "both E8M0 and FP32 scales: a quantized matrix has one kind");
  }
  dequantize_check_size(q.scales.size() + q.scales_fp32.size(), scales, "scales");
}

[[noreturn]] void refuse_code(const Quantized& q, std::int64_t row, std::int64_t col, std::size_t code,
                              std::size_t codes) {
  throw Error(ErrorKind::input, "code " + std::to_string(code) + " at row " + std::to_string(row) + ", column " +
                                    std::to_string(col) + ": " + std::string(spec(q.element).name) +
                                    " codes are 0 to " + std::to_string(codes - 1));
}

// One value for every code, by the definition.
std::vector<double> decode_table(Format element) {
  std::vector<double> values(std::size_t{1} << spec(element).bits);
  for (std::size_t code = 0; code < values.size(); ++code) {
    values[code] = decode(element, static_cast<std::uint32_t>(code));
  }
  return values;
}

// The exact product of every code and its block's scale, through round. Exact in a double: a code value has at most 8
// significant bits and an exponent from -20 to 15, a scale at most 24 and from -149 to 127.
template <class Out, class Round>
std::vector<Out> dequantize_to(const Quantized& q, std::span<const std::int64_t> offsets, int threads, Round round) {
  check_quantized(q, offsets, threads);
  std::vector<Out> out;
  if (q.rows == 0 || q.cols == 0) return out;
  resize_or_throw(out, q.rows * q.cols, "dequantized values");
  const std::vector<double> values = decode_table(q.element);
  const std::vector<std::int64_t> row_starts = block_row_starts(q.rows, q.block.rows, offsets);
  const std::int64_t block_cols = q.block.width(q.cols);
  const auto scale_at = [&](std::size_t i) {
    return q.scales_fp32.empty() ? decode(Format::e8m0, q.scales[i]) : double{q.scales_fp32[i]};
  };
  const auto one_row = [&](std::int64_t block_row, std::int64_t row) {
    for (std::int64_t block = 0, col = 0; block < q.scale_cols; ++block) {
      const double scale = scale_at(static_cast<std::size_t>(block_row * q.scale_cols + block));
      const std::int64_t end = q.cols - col > block_cols ? col + block_cols : q.cols;
      for (; col < end; ++col) {
        const auto at = static_cast<std::size_t>(row * q.cols + col);
        const std::size_t code = q.codes16.empty() ? q.codes[at] : q.codes16[at];
        if (code >= values.size()) refuse_code(q, row, col, code, values.size());
        out[at] = round(values[code] * scale);
      }
    }
  };
  parallel_ranges(q.scale_rows, q.rows * q.cols, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block_row = begin; block_row < end; ++block_row) {
      const auto i = static_cast<std::size_t>(block_row);
      for (std::int64_t row = row_starts[i]; row < row_starts[i + 1]; ++row) one_row(block_row, row);
    }
  });
  return out;
}

}  // namespace

std::vector<float> dequantize(const Quantized& q, std::span<const std::int64_t> offsets, int threads) {
  return dequantize_to<float>(q, offsets, threads, [](double exact) {
    // The conversion rounds to nearest even; only its NaN differs from ours.
    return std::isnan(exact) ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(exact);
  });
}

std::vector<std::uint16_t> dequantize_bf16(const Quantized& q, std::span<const std::int64_t> offsets, int threads) {
  return dequantize_to<std::uint16_t>(q, offsets, threads, [](double exact) {
    const std::uint32_t code = encode(Format::bf16, exact, Rounding::nearest_even, Overflow::non_saturate);
    return static_cast<std::uint16_t>(code);
  });
}

}  // namespace mxcheck
