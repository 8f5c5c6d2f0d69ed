#include "reference/quantize/scale_layout.h"

#include <array>
#include <string>
#include <utility>

#include "numerics/error.h"
#include "reference/common/checked_size.h"

namespace mxcheck {
namespace {

// A layout of an r x c matrix as a flat array of one-byte slots.
struct Layout {
  std::string_view name;
  std::int64_t slots_in_value;                                   // 1: bytes; 4: the slots of a word, lowest byte first
  std::int64_t (*values)(std::int64_t rows, std::int64_t cols);  // size in values; refuses what overflows
  std::int64_t (*slot)(std::int64_t row, std::int64_t col, std::int64_t rows, std::int64_t cols);
};

std::int64_t tcgen05_slot(std::int64_t i, std::int64_t j, std::int64_t /*rows*/, std::int64_t cols) {
  return ((i / 128) * ceil_div(cols, 4) + j / 4) * 512 + (i % 32) * 16 + ((i % 128) / 32) * 4 + j % 4;
}

std::int64_t deepgemm_slot(std::int64_t i, std::int64_t j, std::int64_t rows, std::int64_t /*cols*/) {
  return ((j / 4) * (ceil_div(rows, 4) * 4) + i) * 4 + j % 4;
}

constexpr Layout kTcgen05{"tcgen05 tiles", 1, tcgen05_bytes, tcgen05_slot};
constexpr Layout kDeepgemm{"DeepGEMM words", 4, deepgemm_words, deepgemm_slot};

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorKind::usage, text); }

void check_shape(std::int64_t rows, std::int64_t cols) {
  if (rows < 0 || cols < 0) {
    refuse("scales of " + std::to_string(rows) + " x " + std::to_string(cols) + ": sizes must be 0 or more");
  }
}

void check_size(std::size_t size, std::int64_t expected, std::string_view what) {
  if (std::cmp_equal(size, expected)) return;
  refuse(std::to_string(size) + " " + std::string(what) + ": these shapes ask for " + std::to_string(expected));
}

// Compact scales and how they fall into pieces, one an expert.
struct Scales {
  std::int64_t cols;  // of the compact matrix
  bool row_blocks;
  std::span<const std::int64_t> rows_of_expert;

  [[nodiscard]] std::int64_t count() const {
    check_shape(0, cols);
    std::int64_t rows = 0;
    for (const std::int64_t n : rows_of_expert) {
      check_shape(n, cols);
      rows = checked_sum(rows, n, "scale rows");
    }
    return checked_product(rows, cols, "scales");
  }

  // The r x c that is laid out for an expert with n compact rows.
  [[nodiscard]] std::array<std::int64_t, 2> laid_out(std::int64_t n) const {
    return row_blocks ? std::array{n, cols} : std::array{cols, n};
  }
};

std::int64_t total_values(const Layout& layout, const Scales& scales) {
  static_cast<void>(scales.count());  // refuses what makes no sense
  std::int64_t sum = 0;
  for (const std::int64_t n : scales.rows_of_expert) {
    const auto [r, c] = scales.laid_out(n);
    sum = checked_sum(sum, layout.values(r, c), layout.name);
  }
  checked_product(sum, layout.slots_in_value, layout.name);
  return sum;
}

// visit(compact index, slot) for every scale.
template <class Visit>
void for_each_scale(const Layout& layout, const Scales& scales, Visit visit) {
  std::int64_t compact = 0;
  std::int64_t piece = 0;
  for (const std::int64_t n : scales.rows_of_expert) {
    const auto [r, c] = scales.laid_out(n);
    for (std::int64_t row = 0; row < n; ++row) {
      for (std::int64_t col = 0; col < scales.cols; ++col) {
        const std::int64_t slot = scales.row_blocks ? layout.slot(row, col, r, c) : layout.slot(col, row, r, c);
        visit(static_cast<std::size_t>(compact++), static_cast<std::size_t>(piece + slot));
      }
    }
    piece += layout.values(r, c) * layout.slots_in_value;
  }
}

std::vector<std::uint8_t> lay_out(const Layout& layout, const Scales& scales, std::span<const std::uint8_t> compact,
                                  std::uint8_t pad) {
  check_size(compact.size(), scales.count(), "compact scales");
  std::vector<std::uint8_t> slots;
  resize_or_throw(slots, total_values(layout, scales) * layout.slots_in_value, layout.name, pad);
  for_each_scale(layout, scales, [&](std::size_t from, std::size_t slot) { slots[slot] = compact[from]; });
  return slots;
}

template <class ReadSlot>
std::vector<std::uint8_t> gather(const Layout& layout, const Scales& scales, std::size_t values, ReadSlot read_slot) {
  check_size(values, total_values(layout, scales), "values of " + std::string(layout.name));
  std::vector<std::uint8_t> compact;
  resize_or_throw(compact, scales.count(), "compact scales");
  for_each_scale(layout, scales, [&](std::size_t to, std::size_t slot) { compact[to] = read_slot(slot); });
  return compact;
}

}  // namespace

std::int64_t tcgen05_offset(std::int64_t row, std::int64_t col, std::int64_t cols) {
  if (row < 0 || col < 0 || col >= cols) {
    refuse("scale (" + std::to_string(row) + ", " + std::to_string(col) + ") of " + std::to_string(cols) +
           " columns: the row must be 0 or more, the column 0 to columns - 1");
  }
  tcgen05_bytes(row, cols);  // refuses what overflows
  return tcgen05_slot(row, col, row + 1, cols);
}

std::int64_t tcgen05_bytes(std::int64_t rows, std::int64_t cols) {
  check_shape(rows, cols);
  return checked_product(checked_round_up(rows, 128, kTcgen05.name), checked_round_up(cols, 4, kTcgen05.name),
                         kTcgen05.name);
}

std::int64_t deepgemm_words(std::int64_t rows, std::int64_t cols) {
  check_shape(rows, cols);
  return checked_product(ceil_div(cols, 4), checked_round_up(rows, 4, kDeepgemm.name), kDeepgemm.name);
}

std::vector<std::uint8_t> to_tcgen05(std::span<const std::uint8_t> compact, std::int64_t rows, std::int64_t cols,
                                     std::uint8_t pad) {
  return scales_to_tcgen05(compact, cols, true, std::array{rows}, pad);
}

std::vector<std::uint8_t> from_tcgen05(std::span<const std::uint8_t> tiled, std::int64_t rows, std::int64_t cols) {
  return scales_from_tcgen05(tiled, cols, true, std::array{rows});
}

std::vector<std::uint32_t> to_deepgemm(std::span<const std::uint8_t> compact, std::int64_t rows, std::int64_t cols,
                                       std::uint8_t pad) {
  return scales_to_deepgemm(compact, cols, true, std::array{rows}, pad);
}

std::vector<std::uint8_t> from_deepgemm(std::span<const std::uint32_t> packed, std::int64_t rows, std::int64_t cols) {
  return scales_from_deepgemm(packed, cols, true, std::array{rows});
}

std::vector<std::uint8_t> scales_to_tcgen05(std::span<const std::uint8_t> compact, std::int64_t scale_cols,
                                            bool row_blocks, std::span<const std::int64_t> scale_rows_of_expert,
                                            std::uint8_t pad) {
  return lay_out(kTcgen05, {scale_cols, row_blocks, scale_rows_of_expert}, compact, pad);
}

std::vector<std::uint8_t> scales_from_tcgen05(std::span<const std::uint8_t> tiled, std::int64_t scale_cols,
                                              bool row_blocks, std::span<const std::int64_t> scale_rows_of_expert) {
  return gather(kTcgen05, {scale_cols, row_blocks, scale_rows_of_expert}, tiled.size(),
                [&](std::size_t slot) { return tiled[slot]; });
}

std::int64_t scales_tcgen05_bytes(std::int64_t scale_cols, bool row_blocks,
                                  std::span<const std::int64_t> scale_rows_of_expert) {
  return total_values(kTcgen05, {scale_cols, row_blocks, scale_rows_of_expert});
}

std::vector<std::uint32_t> scales_to_deepgemm(std::span<const std::uint8_t> compact, std::int64_t scale_cols,
                                              bool row_blocks, std::span<const std::int64_t> scale_rows_of_expert,
                                              std::uint8_t pad) {
  const std::vector<std::uint8_t> slots =
      lay_out(kDeepgemm, {scale_cols, row_blocks, scale_rows_of_expert}, compact, pad);
  std::vector<std::uint32_t> words;
  resize_or_throw(words, static_cast<std::int64_t>(slots.size() / 4), kDeepgemm.name);
  for (std::size_t i = 0; i < slots.size(); ++i) words[i / 4] |= std::uint32_t{slots[i]} << (8 * (i % 4));
  return words;
}

std::vector<std::uint8_t> scales_from_deepgemm(std::span<const std::uint32_t> packed, std::int64_t scale_cols,
                                               bool row_blocks, std::span<const std::int64_t> scale_rows_of_expert) {
  return gather(kDeepgemm, {scale_cols, row_blocks, scale_rows_of_expert}, packed.size(),
                [&](std::size_t slot) { return static_cast<std::uint8_t>(packed[slot / 4] >> (8 * (slot % 4))); });
}

std::int64_t scales_deepgemm_words(std::int64_t scale_cols, bool row_blocks,
                                   std::span<const std::int64_t> scale_rows_of_expert) {
  return total_values(kDeepgemm, {scale_cols, row_blocks, scale_rows_of_expert});
}

bool has_row_blocks(BlockShape block) {
  if (block.rows == 1) return true;
  if (block.cols == 1) return false;
  refuse("scales of " + to_text(block) +
         " blocks: the tcgen05 and DeepGEMM layouts hold blocks of one row or one column; use the compact layout");
}

}  // namespace mxcheck
