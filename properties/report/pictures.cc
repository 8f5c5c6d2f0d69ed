#include "properties/report/pictures.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "pages/chart.h"
#include "pages/html.h"
#include "properties/core/check.h"
#include "properties/core/notation.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostColumns = 128;
constexpr std::int64_t kMostRows = 64;
constexpr std::int64_t kMostElements = 64;  // whose bits are shown
constexpr std::int64_t kElementsOfRow = 32;

// One element, as a tensor of its own.
std::optional<Difference> difference_at(const DifferingTensor& t, std::int64_t row, std::int64_t col) {
  const std::size_t width = bytes_of_element(t.info);
  const std::size_t at = static_cast<std::size_t>(row * t.info.cols + col) * width;
  TensorInfo one = t.info;
  one.rows = one.cols = 1;
  return compare(one, t.expected.subspan(at, width), t.observed.subspan(at, width), kPoisons[0]);
}

struct Cells {
  std::int64_t rows = 0, cols = 0;  // of the picture
  std::int64_t high = 1, wide = 1;  // elements of one cell
  std::vector<std::int64_t> wrong;  // by cell
  [[nodiscard]] std::int64_t elements(const TensorInfo& info, std::int64_t row, std::int64_t col) const {
    return std::min(high, info.rows - row * high) * std::min(wide, info.cols - col * wide);
  }
};

Cells cells_of(const DifferingTensor& t) {
  Cells cells;
  cells.high = (t.info.rows + kMostRows - 1) / kMostRows, cells.wide = (t.info.cols + kMostColumns - 1) / kMostColumns;
  cells.rows = (t.info.rows + cells.high - 1) / cells.high, cells.cols = (t.info.cols + cells.wide - 1) / cells.wide;
  cells.wrong.resize(static_cast<std::size_t>(cells.rows * cells.cols));
  const std::size_t width = bytes_of_element(t.info);
  for (std::int64_t i = 0; i < t.info.rows * t.info.cols; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (word_at(t.expected, width, at) == word_at(t.observed, width, at)) continue;
    const std::int64_t row = i / t.info.cols, col = i % t.info.cols;
    if (t.info.any_nan_is_equal && !difference_at(t, row, col)) continue;
    ++cells.wrong[static_cast<std::size_t>(row / cells.high * cells.cols + col / cells.wide)];
  }
  return cells;
}

// Edges of blocks, where they are at least four pixels apart.
void draw_block_edges(svg::Drawing& d, const TensorInfo& info, const Cells& cells, double step) {
  const double width = step * static_cast<double>(cells.cols), height = step * static_cast<double>(cells.rows);
  const auto edges = [&](std::int64_t block, std::int64_t total, std::int64_t in_cell, bool vertical) {
    const double apart = step * static_cast<double>(block) / static_cast<double>(in_cell);
    if (block <= 0 || apart < 4 || (block == 1 && in_cell == 1)) return;
    for (std::int64_t at = block; at < total; at += block) {
      const double p = step * static_cast<double>(at) / static_cast<double>(in_cell);
      vertical ? d.line(p, 0, p, height, {.css = "blocks"}) : d.line(0, p, width, p, {.css = "blocks"});
    }
  };
  edges(info.block_cols, info.cols, cells.wide, true);
  edges(info.block_rows, info.rows, cells.high, false);
}

struct Place {
  std::int64_t row, col;
};

// Blocks begin at multiples of their size: ends of experts are not known here.
std::vector<Place> places_around(const TensorInfo& info, const Difference::Element& first) {
  const std::int64_t block_rows = info.block_rows > 0 ? std::min(info.block_rows, info.rows) : 1;
  const std::int64_t block_cols = info.block_cols > 0 ? std::min(info.block_cols, info.cols) : kElementsOfRow;
  std::int64_t row = first.row / block_rows * block_rows, rows = block_rows;
  std::int64_t col = first.col / block_cols * block_cols, cols = block_cols;
  if (rows * cols > kMostElements) {
    if (cols == 1) {
      row = std::max<std::int64_t>(row, first.row - kElementsOfRow / 2), rows = kElementsOfRow;
    } else {
      row = first.row, rows = 1;
      if (cols > kElementsOfRow) col = first.col / kElementsOfRow * kElementsOfRow, cols = kElementsOfRow;
    }
  }
  std::vector<Place> places;
  for (std::int64_t i = row; i < std::min(row + rows, info.rows); ++i) {
    for (std::int64_t j = col; j < std::min(col + cols, info.cols); ++j) places.push_back({i, j});
  }
  return places;
}

// Sign, exponent and mantissa apart.
bool ends_field(const TensorInfo& info, int bit) {
  if (info.integer_bits != 0) return bit % 8 == 0;
  const FormatSpec& f = spec(info.format);
  if (f.encoding == Encoding::power_of_two || f.encoding == Encoding::fixed_point) return false;
  return bit == f.bits - 1 || bit == f.mantissa_bits;
}

struct BitGrid {
  int bits = 8;
  double cell = 9;
  [[nodiscard]] double width(const TensorInfo& info) const {
    double gaps = 0;
    for (int bit = bits - 1; bit > 0; --bit) gaps += ends_field(info, bit) ? 3 : 0;
    return cell * bits + gaps;
  }
};

void draw_bits(svg::Drawing& d, const DifferingTensor& t, const BitGrid& grid, std::uint64_t word, std::uint64_t other,
               double x, double y) {
  for (int bit = grid.bits - 1; bit >= 0; --bit) {
    const bool set = (word >> bit & 1) != 0;
    const bool differs = ((word ^ other) >> bit & 1) != 0;
    d.rect(x, y, 7, 10, {.css = fmt::format("{}{}", differs ? "x" : "b", set ? 1 : 0)});
    x += grid.cell + (ends_field(t.info, bit) ? 3 : 0);
  }
}

std::string value_text(const TensorInfo& info, std::uint64_t word) {
  if (info.integer_bits != 0)
    return std::to_string(info.integer_bits == 32 ? std::int64_t{static_cast<std::int32_t>(word)}
                                                  : static_cast<std::int64_t>(word));
  return fmt::format("0x{:0{}x}", word, (spec(info.format).bits + 3) / 4);
}

std::string steps_text(const TensorInfo& info, const Difference::Element& e) {
  if (info.integer_bits != 0) return fmt::format("{:+}", e.observed_integer - e.expected_integer);
  if (e.ulps < 0) return "NaN";
  return e.ulps == 0 ? "NaN bits" : fmt::format("{} step{}", e.ulps, e.ulps == 1 ? "" : "s");
}

void draw_element(svg::Drawing& d, const DifferingTensor& t, const BitGrid& grid, const Place& at, double x, double y) {
  const std::size_t width = bytes_of_element(t.info);
  const auto index = static_cast<std::size_t>(at.row * t.info.cols + at.col);
  const std::uint64_t want = word_at(t.expected, width, index), got = word_at(t.observed, width, index);
  const std::optional<Difference> difference = difference_at(t, at.row, at.col);
  const auto value = [&](std::uint64_t word) {
    return t.info.integer_bits != 0 ? value_text(t.info, word)
                                    : notations(t.info.format, static_cast<std::uint32_t>(word));
  };
  d.begin_group({.title = fmt::format("({}, {}): expected {}, observed {}", at.row, at.col, value(want), value(got))});
  d.text(x, y + 10, fmt::format("{},{}", at.row, at.col));
  draw_bits(d, t, grid, want, want, x, y + 15);
  draw_bits(d, t, grid, got, want, x, y + 28);
  const double right = x + grid.width(t.info) + 3;
  d.text(right, y + 24, value_text(t.info, want));
  d.text(right, y + 37, value_text(t.info, got), {.css = difference ? "bad" : ""});
  if (difference) d.text(x, y + 50, steps_text(t.info, difference->first), {.css = "bad"});
  d.end_group();
}

}  // namespace

std::string wrong_map(const DifferingTensor& t) {
  const Cells cells = cells_of(t);
  if (std::all_of(cells.wrong.begin(), cells.wrong.end(), [](std::int64_t n) { return n == 0; })) return "";
  const double step = std::clamp(900.0 / static_cast<double>(std::max(cells.cols, cells.rows * 2)), 6.0, 16.0);
  const double width = step * static_cast<double>(cells.cols), height = step * static_cast<double>(cells.rows);
  svg::Drawing d;
  d.rect(0, 0, width, height, {.css = "cell"});
  draw_block_edges(d, t.info, cells, step);
  for (std::int64_t row = 0; row < cells.rows; ++row) {
    for (std::int64_t col = 0; col < cells.cols; ++col) {
      const std::int64_t wrong = cells.wrong[static_cast<std::size_t>(row * cells.cols + col)];
      if (wrong == 0) continue;
      const std::int64_t of = cells.elements(t.info, row, col);
      const double opacity = 0.3 + 0.7 * static_cast<double>(wrong) / static_cast<double>(of);
      d.rect(step * static_cast<double>(col), step * static_cast<double>(row), step - 0.5, step - 0.5,
             {.css = "wrong",
              .title = of == 1 ? fmt::format("({}, {})", row, col)
                               : fmt::format("{} of {} from ({}, {})", wrong, of, row * cells.high, col * cells.wide),
              .attributes = fmt::format("opacity=\"{:.2f}\"", opacity)});
    }
  }
  d.rect(0, 0, width, height, {.css = "frame"});
  return d.picture(
      {.title = "wrong elements of " + t.info.name, .width = width + 2, .height = height + 2, .left = -1, .top = -1});
}

std::string block_bits(const DifferingTensor& t) {
  const std::optional<Difference> difference = compare(t.info, t.expected, t.observed, kPoisons[0]);
  if (!difference) return "";
  const std::vector<Place> places = places_around(t.info, difference->first);
  const BitGrid grid{t.info.integer_bits != 0 ? t.info.integer_bits : spec(t.info.format).bits};
  const int characters = t.info.integer_bits != 0 ? 8 : 2 + (grid.bits + 3) / 4;
  const double text = 8.0 * characters;
  const double step_x = grid.width(t.info) + text + 14, step_y = 62;
  const auto in_row = static_cast<std::int64_t>(std::max(1.0, 1060 / step_x));
  const auto count = static_cast<std::int64_t>(places.size());
  const double width = step_x * static_cast<double>(std::min(in_row, count));
  const std::int64_t rows = (count + in_row - 1) / in_row;
  const double height = step_y * static_cast<double>(rows);
  svg::Drawing d;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = i / in_row, column = i % in_row;
    draw_element(d, t, grid, places[static_cast<std::size_t>(i)], step_x * static_cast<double>(column),
                 step_y * static_cast<double>(row));
  }
  return d.picture({.title = "bits of " + t.info.name + ": expected above observed",
                    .width = width + 2,
                    .height = height,
                    .left = -2});
}

std::string step_bars(const Difference& difference) {
  if (difference.histogram.empty()) return "";
  std::vector<svg::Bar> bars;
  for (const auto& [name, count] : difference.histogram)
    bars.push_back({name, static_cast<double>(count), html::grouped(count), "wrong"});
  return svg::bar_chart(bars, {.title = "elements by steps off"});
}

}  // namespace mxcheck
