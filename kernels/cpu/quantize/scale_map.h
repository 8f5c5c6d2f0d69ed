#pragma once
// Addresses of a blocked matrix's scale bytes, in either layout of kernels/candidate.h, experts included.
//
// A band is a row of blocks: block_rows matrix rows (fewer at an expert's end) and one row of scales. Bands are
// numbered through all experts. Construction throws Refusal{INVALID} where a size overflows; afterwards nothing
// allocates.

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/common/quantize/policy.h"

namespace mxcheck_kernels::cpu {

struct Band {
  std::int64_t expert = 0;
  std::int64_t in_expert = 0;  // the band's number within its expert
  std::int64_t first_row = 0;  // of the matrix
  std::int64_t rows = 0;
};

class ScaleMap {
 public:
  // block.cols 0: all columns. offsets: empty, or checked. layout tcgen05 needs a block of one row or one column.
  ScaleMap(mxcheck_layout layout, Shape block, Shape matrix, std::span<const std::int64_t> offsets);

  [[nodiscard]] std::int64_t bands() const { return first_band_.back(); }
  [[nodiscard]] std::int64_t scale_cols() const { return scale_cols_; }
  [[nodiscard]] std::int64_t bytes() const { return first_byte_.back(); }
  [[nodiscard]] bool has_padding() const { return bytes() != bands() * scale_cols_; }

  [[nodiscard]] Band band(std::int64_t index) const;
  [[nodiscard]] Band next(const Band& band) const;
  [[nodiscard]] Band row_band(const Band& of, std::int64_t row) const;  // for one-row blocks: the band of a matrix row

  // A band's first byte; in tiles as far as it does not depend on the scale column: row blocks are rows of the tiled
  // matrix, column blocks are columns of it (the scales transposed).
  [[nodiscard]] std::int64_t first_byte(const Band& band) const;

  [[nodiscard]] bool row_blocks() const { return row_blocks_; }
  // The bands from this one on that are worked on together: those of a row of tiles, or of 4 columns of them, fewer at
  // an expert's end. 0 if this one is not their first.
  [[nodiscard]] std::int64_t bands_of_tiles(const Band& first) const;
  [[nodiscard]] std::int64_t tile_row_bytes(const Band& band) const;  // a row of its expert's tiles

  void store(std::uint8_t* scales, const Band& band, std::int64_t first_col, const std::uint8_t* bytes,
             std::int64_t count) const;
  void load(const std::uint8_t* scales, const Band& band, std::int64_t first_col, std::uint8_t* bytes,
            std::int64_t count) const;

 private:
  template <class Visit>
  void visit(const Band& band, std::int64_t first_col, std::int64_t count, Visit visit) const;

  bool tiled_;
  bool row_blocks_;
  std::int64_t block_rows_;
  std::int64_t scale_cols_;
  std::vector<std::int64_t> first_row_;  // by expert, one more than there are
  std::vector<std::int64_t> first_band_;
  std::vector<std::int64_t> first_byte_;
};

}  // namespace mxcheck_kernels::cpu
