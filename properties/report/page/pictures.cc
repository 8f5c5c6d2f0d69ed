#include "properties/report/page/pictures.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "properties/core/check.h"
#include "properties/core/notation.h"
#include "properties/report/markup.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostColumns = 128;
constexpr std::int64_t kMostRows = 64;
constexpr std::int64_t kMostElements = 64;  // whose bits are shown
constexpr std::int64_t kElementsOfRow = 32;

std::uint64_t word_at(std::span<const std::byte> bytes, std::size_t width, std::int64_t index) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data() + static_cast<std::size_t>(index) * width, width);
  return word;
}

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
    if (word_at(t.expected, width, i) == word_at(t.observed, width, i)) continue;
    const std::int64_t row = i / t.info.cols, col = i % t.info.cols;
    if (t.info.any_nan_is_equal && !difference_at(t, row, col)) continue;
    ++cells.wrong[static_cast<std::size_t>(row / cells.high * cells.cols + col / cells.wide)];
  }
  return cells;
}

// Edges of blocks, where they are at least four pixels apart.
std::string block_edges(const TensorInfo& info, const Cells& cells, double step) {
  std::string out;
  const double width = step * static_cast<double>(cells.cols), height = step * static_cast<double>(cells.rows);
  const auto edges = [&](std::int64_t block, std::int64_t total, std::int64_t in_cell, bool vertical) {
    const double apart = step * static_cast<double>(block) / static_cast<double>(in_cell);
    if (block <= 0 || apart < 4 || (block == 1 && in_cell == 1)) return;
    for (std::int64_t at = block; at < total; at += block) {
      const double p = step * static_cast<double>(at) / static_cast<double>(in_cell);
      out += vertical ? fmt::format("<path class=\"blocks\" d=\"M{:.1f} 0V{:.1f}\"/>", p, height)
                      : fmt::format("<path class=\"blocks\" d=\"M0 {:.1f}H{:.1f}\"/>", p, width);
    }
  };
  edges(info.block_cols, info.cols, cells.wide, true);
  edges(info.block_rows, info.rows, cells.high, false);
  return out;
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

std::string bit_row(const DifferingTensor& t, const BitGrid& grid, std::uint64_t word, std::uint64_t other, double x,
                    double y) {
  std::string out;
  for (int bit = grid.bits - 1; bit >= 0; --bit) {
    const bool set = (word >> bit & 1) != 0;
    const bool differs = ((word ^ other) >> bit & 1) != 0;
    out += fmt::format("<rect class=\"{}{}\" x=\"{:.0f}\" y=\"{:.0f}\" width=\"7\" height=\"10\"/>",
                       differs ? "x" : "b", set ? 1 : 0, x, y);
    x += grid.cell + (ends_field(t.info, bit) ? 3 : 0);
  }
  return out;
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

std::string bit_element(const DifferingTensor& t, const BitGrid& grid, const Place& at, double x, double y) {
  const std::size_t width = bytes_of_element(t.info);
  const std::int64_t index = at.row * t.info.cols + at.col;
  const std::uint64_t want = word_at(t.expected, width, index), got = word_at(t.observed, width, index);
  const std::optional<Difference> difference = difference_at(t, at.row, at.col);
  const std::string title =
      t.info.integer_bits != 0
          ? fmt::format("expected {}, observed {}", value_text(t.info, want), value_text(t.info, got))
          : fmt::format("expected {}, observed {}", notations(t.info.format, static_cast<std::uint32_t>(want)),
                        notations(t.info.format, static_cast<std::uint32_t>(got)));
  std::string out = fmt::format("<g><title>({}, {}): {}</title><text x=\"{:.0f}\" y=\"{:.0f}\">{},{}</text>", at.row,
                                at.col, escaped_markup(title), x, y + 10, at.row, at.col);
  const double right = x + grid.width(t.info) + 3;
  const char* mark = difference ? " class=\"bad\"" : "";
  out += bit_row(t, grid, want, want, x, y + 15) + bit_row(t, grid, got, want, x, y + 28);
  out += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>", right, y + 24, value_text(t.info, want));
  out += fmt::format("<text{} x=\"{:.0f}\" y=\"{:.0f}\">{}</text>", mark, right, y + 37, value_text(t.info, got));
  if (difference) {
    out += fmt::format("<text class=\"bad\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>", x, y + 50,
                       steps_text(t.info, difference->first));
  }
  return out + "</g>\n";
}

}  // namespace

std::string wrong_map(const DifferingTensor& t) {
  const Cells cells = cells_of(t);
  if (std::all_of(cells.wrong.begin(), cells.wrong.end(), [](std::int64_t n) { return n == 0; })) return "";
  const double step = std::clamp(900.0 / static_cast<double>(std::max(cells.cols, cells.rows * 2)), 6.0, 16.0);
  const double width = step * static_cast<double>(cells.cols), height = step * static_cast<double>(cells.rows);
  std::string out = fmt::format(
      "<svg role=\"img\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"-1 -1 {0:.0f} {1:.0f}\"><title>wrong elements "
      "of {2}"
      "</title><rect class=\"cell\" x=\"0\" y=\"0\" width=\"{3:.1f}\" height=\"{4:.1f}\"/>{5}",
      width + 2, height + 2, escaped_markup(t.info.name), width, height, block_edges(t.info, cells, step));
  for (std::int64_t row = 0; row < cells.rows; ++row) {
    for (std::int64_t col = 0; col < cells.cols; ++col) {
      const std::int64_t wrong = cells.wrong[static_cast<std::size_t>(row * cells.cols + col)];
      if (wrong == 0) continue;
      const std::int64_t of = cells.elements(t.info, row, col);
      const std::string place =
          of == 1 ? fmt::format("({}, {})", row, col)
                  : fmt::format("{} of {} from ({}, {})", wrong, of, row * cells.high, col * cells.wide);
      out += fmt::format(
          "<rect class=\"wrong\" opacity=\"{:.2f}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
          "height=\"{:.1f}\"><title>{}"
          "</title></rect>",
          0.3 + 0.7 * static_cast<double>(wrong) / static_cast<double>(of), step * static_cast<double>(col),
          step * static_cast<double>(row), step - 0.5, step - 0.5, place);
    }
  }
  return out + fmt::format("<rect class=\"frame\" x=\"0\" y=\"0\" width=\"{:.1f}\" height=\"{:.1f}\"/></svg>\n", width,
                           height);
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
  std::string out = fmt::format(
      "<svg role=\"img\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"-2 0 {0:.0f} {1:.0f}\"><title>bits of {2}: "
      "expected above "
      "observed</title>\n",
      width + 2, height, escaped_markup(t.info.name));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = i / in_row, column = i % in_row;
    out += bit_element(t, grid, places[static_cast<std::size_t>(i)], step_x * static_cast<double>(column),
                       step_y * static_cast<double>(row));
  }
  return out + "</svg>\n";
}

std::string step_bars(const Difference& difference) {
  if (difference.histogram.empty()) return "";
  std::int64_t most = 1;
  for (const auto& [name, count] : difference.histogram) most = std::max(most, count);
  std::string out = fmt::format(
      "<svg role=\"img\" width=\"420\" height=\"{0}\" viewBox=\"0 0 420 {0}\"><title>elements by steps off"
      "</title>",
      18 * difference.histogram.size());
  double y = 0;
  for (const auto& [name, count] : difference.histogram) {
    const double width = std::max(2.0, 180 * static_cast<double>(count) / static_cast<double>(most));
    out += fmt::format(
        "<text class=\"ink\" x=\"0\" y=\"{0:.0f}\">{1}</text><rect class=\"wrong\" x=\"150\" y=\"{2:.0f}\" "
        "width=\"{3:.1f}\" height=\"11\"/><text x=\"{4:.1f}\" y=\"{0:.0f}\">{5}</text>",
        y + 12, escaped_markup(name), y + 3, width, 156 + width, grouped(count));
    y += 18;
  }
  return out + "</svg>\n";
}

}  // namespace mxcheck
