#include "reference/quantize/scale_layout.h"

#include <string>
#include <utility>

#include "numerics/error.h"
#include "reference/common/checked_size.h"

namespace mxcheck {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorKind::usage, text); }

void check_extents(std::int64_t rows, std::int64_t cols) {
  if (rows >= 0 && cols >= 0) return;
  refuse("scales of " + std::to_string(rows) + " x " + std::to_string(cols) + ": sizes must be 0 or more");
}

void check_block(ScaleLayout layout, BlockShape block) {
  if (has_layout(layout, block)) return;
  refuse("scales of " + to_text(block) + " blocks: layout " + std::string(to_text(layout)) +
         " holds those of blocks of one row or one column; use layout compact");
}

std::string scales_in(ScaleLayout layout) { return std::string(to_text(layout)) + " scales"; }

// What is laid out for an expert with `rows` compact rows.
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
  refuse(std::to_string(size) + " bytes of " + what + ": these shapes ask for " + std::to_string(expected));
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
    refuse("scale (" + std::to_string(i) + ", " + std::to_string(j) + ") of " + std::to_string(r) + " x " +
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

}  // namespace mxcheck
