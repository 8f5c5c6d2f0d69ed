#pragma once
// How a matrix is cut for quantize and dequantize, which hold two panels at a time.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mxcheck {

// Large enough for every core to have work, small enough for caches to help.
inline constexpr std::int64_t kPanelBytes = 16 << 20;

struct PanelRange {
  std::size_t at = 0;  // rows of blocks [at, end)
  std::size_t end = 0;
};

// Whole rows of blocks (starts: block_row_starts), as many to a panel as kPanelBytes hold of rows of so many bytes; one
// that is larger is a panel of its own.
std::vector<PanelRange> panels(const std::vector<std::int64_t>& starts, std::int64_t row_bytes);

// The expert offsets of rows [first, first + rows) as those of a matrix of their own; none where there are none.
std::vector<std::int64_t> offsets_within(std::span<const std::int64_t> offsets, std::int64_t first, std::int64_t rows);

// Whether the reference computes this row of blocks too: one in 64, chosen by a hash, so that they follow no period.
bool is_checked(std::size_t row_of_blocks);

// Error{internal}: the SIMD library and the reference differ in matrix rows [begin, end).
[[noreturn]] void refuse_difference(std::int64_t begin, std::int64_t end);

}  // namespace mxcheck
