#pragma once
// Where scale bytes live in memory: compact row-major [r, c] and the layouts that hardware and libraries read.
//
// tcgen05 (also cuBLASLt block scaling): tiles of 128 rows by 4 scale columns, 512 bytes each,
//   offset(i, j) = ((i / 128) * ceil(c / 4) + j / 4) * 512 + (i % 32) * 16 + ((i % 128) / 32) * 4 + j % 4
//   bytes        = roundup(r, 128) * roundup(c, 4)
// Source: CUDA C++ / cuBLAS documentation, "1D block scaling factors layout"; facts agree with CUTLASS and torchao.
//
// DeepGEMM packed: MN-major words of four consecutive K scales, little-endian (scale j in byte j % 4),
//   word(i, j / 4) at index (j / 4) * roundup(r, 4) + i,   words = ceil(c / 4) * roundup(r, 4)
//
// r counts rows of M or N, c scales along K. For column blocks (n x 1) K runs down the input, so the matrix laid out is
// the transpose of the compact scales: r = cols, c = scale rows. With expert offsets each expert is laid out (and
// padded) on its own, one after the other: row blocks split r, column blocks split c.
//
// Bytes that belong to no scale hold the pad byte. Both directions are exact inverses on the scales.
// Errors: Error{usage} for sizes that do not fit r, c or overflow; Error{environment} without memory.
//
// Does not promise: a layout for two-dimensional blocks (32x32, 128x128). tcgen05 has none; has_row_blocks refuses.

#include <cstdint>
#include <span>
#include <vector>

#include "reference/common/matrix.h"

namespace mxcheck {

// offset(row, col) of an r x cols matrix, 0 <= col < cols; bytes of the whole, padding included (0 when r or c is 0).
std::int64_t tcgen05_offset(std::int64_t row, std::int64_t col, std::int64_t cols);
std::int64_t tcgen05_bytes(std::int64_t rows, std::int64_t cols);
std::vector<std::uint8_t> to_tcgen05(std::span<const std::uint8_t> compact, std::int64_t rows, std::int64_t cols,
                                     std::uint8_t pad);
std::vector<std::uint8_t> from_tcgen05(std::span<const std::uint8_t> tiled, std::int64_t rows, std::int64_t cols);

std::int64_t deepgemm_words(std::int64_t rows, std::int64_t cols);
std::vector<std::uint32_t> to_deepgemm(std::span<const std::uint8_t> compact, std::int64_t rows, std::int64_t cols,
                                       std::uint8_t pad);
std::vector<std::uint8_t> from_deepgemm(std::span<const std::uint32_t> packed, std::int64_t rows, std::int64_t cols);

// Compact scales of a quantized matrix straight to tiles, with transposition for column blocks and one padded piece an
// expert. row_blocks: blocks have one row (n columns); otherwise they have one column (n rows). scale_rows_of_expert
// lists each expert's compact scale rows (one entry: no experts), as count_scale_rows_by_expert of
// reference/quantize/quantize.h gives them.
std::vector<std::uint8_t> scales_to_tcgen05(std::span<const std::uint8_t> compact, std::int64_t scale_cols,
                                            bool row_blocks, std::span<const std::int64_t> scale_rows_of_expert,
                                            std::uint8_t pad);
std::vector<std::uint8_t> scales_from_tcgen05(std::span<const std::uint8_t> tiled, std::int64_t scale_cols,
                                              bool row_blocks, std::span<const std::int64_t> scale_rows_of_expert);

// The size of that flat buffer.
std::int64_t scales_tcgen05_bytes(std::int64_t scale_cols, bool row_blocks,
                                  std::span<const std::int64_t> scale_rows_of_expert);

// The same three for DeepGEMM's packed words.
std::vector<std::uint32_t> scales_to_deepgemm(std::span<const std::uint8_t> compact, std::int64_t scale_cols,
                                              bool row_blocks, std::span<const std::int64_t> scale_rows_of_expert,
                                              std::uint8_t pad);
std::vector<std::uint8_t> scales_from_deepgemm(std::span<const std::uint32_t> packed, std::int64_t scale_cols,
                                               bool row_blocks, std::span<const std::int64_t> scale_rows_of_expert);
std::int64_t scales_deepgemm_words(std::int64_t scale_cols, bool row_blocks,
                                   std::span<const std::int64_t> scale_rows_of_expert);

// The row_blocks argument for a block shape: true for one row, false for one column; Error{usage} for blocks of several
// rows and columns. (A block of 1 x 1 is a row block.)
bool has_row_blocks(BlockShape block);

}  // namespace mxcheck
