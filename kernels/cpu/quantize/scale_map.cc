#include "kernels/cpu/quantize/scale_map.h"

#include <algorithm>
#include <cstring>

#include "kernels/common/refusal.h"

namespace mxcheck_kernels::cpu {
namespace {

constexpr std::int64_t kTileRows = 128;
constexpr std::int64_t kTileCols = 4;
constexpr std::int64_t kTileBytes = kTileRows * kTileCols;

std::int64_t divide_up(std::int64_t value, std::int64_t by) { return value / by + (value % by != 0 ? 1 : 0); }

std::int64_t add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) invalid("the number of scale bytes overflows 63 bits");
  return sum;
}

std::int64_t multiply(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) invalid("the number of scale bytes overflows 63 bits");
  return product;
}

std::int64_t tiled_bytes(std::int64_t rows, std::int64_t cols) {
  return multiply(multiply(divide_up(rows, kTileRows), divide_up(cols, kTileCols)), kTileBytes);
}

}  // namespace

ScaleMap::ScaleMap(mxcheck_layout layout, Shape block, Shape matrix, std::span<const std::int64_t> offsets)
    : tiled_(layout == MXCHECK_TCGEN05), row_blocks_(block.rows == 1), block_rows_(block.rows) {
  const std::int64_t block_cols = block.cols == 0 ? std::max<std::int64_t>(matrix.cols, 1) : block.cols;
  scale_cols_ = divide_up(matrix.cols, block_cols);
  first_row_ = offsets.empty() ? std::vector<std::int64_t>{0, matrix.rows}
                               : std::vector<std::int64_t>(offsets.begin(), offsets.end());
  first_band_ = {0};
  first_byte_ = {0};
  for (std::size_t e = 0; e + 1 < first_row_.size(); ++e) {
    const std::int64_t bands = divide_up(first_row_[e + 1] - first_row_[e], block_rows_);
    const std::int64_t bytes = !tiled_       ? multiply(bands, scale_cols_)
                               : row_blocks_ ? tiled_bytes(bands, scale_cols_)
                                             : tiled_bytes(scale_cols_, bands);
    first_band_.push_back(first_band_.back() + bands);
    first_byte_.push_back(add(first_byte_.back(), bytes));
  }
}

Band ScaleMap::band(std::int64_t index) const {
  // The last expert that starts at or before the band: experts without bands are passed over.
  const auto after = std::upper_bound(first_band_.begin(), first_band_.end(), index);
  const std::int64_t expert = after - first_band_.begin() - 1;
  const std::size_t e = static_cast<std::size_t>(expert);
  const std::int64_t in_expert = index - first_band_[e];
  const std::int64_t first_row = first_row_[e] + in_expert * block_rows_;
  const std::int64_t last_row = e + 1 < first_row_.size() ? first_row_[e + 1] : first_row;
  return {expert, in_expert, first_row, std::min(block_rows_, last_row - first_row)};
}

Band ScaleMap::next(const Band& band) const {
  const std::size_t e = static_cast<std::size_t>(band.expert);
  const std::int64_t first_row = band.first_row + band.rows;
  if (first_row == first_row_[e + 1]) return this->band(first_band_[e + 1]);
  return {band.expert, band.in_expert + 1, first_row, std::min(block_rows_, first_row_[e + 1] - first_row)};
}

Band ScaleMap::row_band(const Band& of, std::int64_t row) const {
  return {of.expert, row - first_row_[static_cast<std::size_t>(of.expert)], row, 1};
}

std::int64_t ScaleMap::first_byte(const Band& band) const {
  const std::int64_t start = first_byte_[static_cast<std::size_t>(band.expert)];
  const std::int64_t i = band.in_expert;
  if (!tiled_) return start + i * scale_cols_;
  if (!row_blocks_) return start + i / kTileCols * kTileBytes + i % kTileCols;
  const std::int64_t tile_row = i / kTileRows * divide_up(scale_cols_, kTileCols) * kTileBytes;
  return start + tile_row + i % 32 * 16 + i % kTileRows / 32 * kTileCols;
}

std::int64_t ScaleMap::bands_of_tiles(const Band& first) const {
  const std::size_t e = static_cast<std::size_t>(first.expert);
  const std::int64_t bands = row_blocks_ ? kTileRows : 4 * kTileCols;
  if (first.in_expert % bands != 0) return 0;
  return std::min(bands, first_band_[e + 1] - first_band_[e] - first.in_expert);
}

std::int64_t ScaleMap::tile_row_bytes(const Band& band) const {
  const std::size_t e = static_cast<std::size_t>(band.expert);
  return divide_up(row_blocks_ ? scale_cols_ : first_band_[e + 1] - first_band_[e], kTileCols) * kTileBytes;
}

template <class Visit>
void ScaleMap::visit(const Band& band, std::int64_t first_col, std::int64_t count, Visit visit) const {
  const std::int64_t start = first_byte(band);
  if (row_blocks_) {
    for (std::int64_t k = 0, at = start + first_col / kTileCols * kTileBytes, in_tile = first_col % kTileCols;
         k < count;) {
      const std::int64_t run = std::min(kTileCols - in_tile, count - k);
      visit(at + in_tile, k, run);
      k += run;
      at += kTileBytes;
      in_tile = 0;
    }
    return;
  }
  const std::int64_t row_bytes = tile_row_bytes(band);
  for (std::int64_t k = 0; k < count;) {
    const std::int64_t row = first_col + k;
    const std::int64_t end = k + std::min(32 - row % 32, count - k);  // rows 16 bytes apart
    std::int64_t at = start + row / kTileRows * row_bytes + row % 32 * 16 + row % kTileRows / 32 * kTileCols;
    for (; k < end; ++k, at += 16) visit(at, k, std::int64_t{1});
  }
}

namespace {

void copy_few(std::uint8_t* to, const std::uint8_t* from, std::int64_t count) {
  if (count == kTileCols) {
    std::memcpy(to, from, kTileCols);  // of constant size: one load and one store
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
  }
}

}  // namespace

void ScaleMap::store(std::uint8_t* scales, const Band& band, std::int64_t first_col, const std::uint8_t* bytes,
                     std::int64_t count) const {
  if (!tiled_) {
    std::memcpy(scales + first_byte(band) + first_col, bytes, static_cast<std::size_t>(count));
    return;
  }
  visit(band, first_col, count,
        [&](std::int64_t offset, std::int64_t k, std::int64_t run) { copy_few(scales + offset, bytes + k, run); });
}

void ScaleMap::load(const std::uint8_t* scales, const Band& band, std::int64_t first_col, std::uint8_t* bytes,
                    std::int64_t count) const {
  if (!tiled_) {
    std::memcpy(bytes, scales + first_byte(band) + first_col, static_cast<std::size_t>(count));
    return;
  }
  visit(band, first_col, count,
        [&](std::int64_t offset, std::int64_t k, std::int64_t run) { copy_few(bytes + k, scales + offset, run); });
}

}  // namespace mxcheck_kernels::cpu
