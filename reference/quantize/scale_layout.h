#pragma once
// Where E8M0 scale bytes live in memory: compact, and the two layouts that hardware and libraries read.
//
// compact   row-major, as quantize gives them: the scale of block (i, j) at i * cols + j. Blocks of any shape.
//
// tcgen05   what tcgen05.mma and cuBLASLt's block scaling read, for r rows of M or N and c scales along K: tiles of 128
//           rows by 4 scales, 512 bytes each, tiles along K first,
//             offset(i, j) = ((i / 128) * ceil(c / 4) + j / 4) * 512 + (i % 32) * 16 + ((i % 128) / 32) * 4 + j % 4
//             bytes        = roundup(r, 128) * roundup(c, 4)
//           Source: cuBLAS documentation, "1D Block Scaling Factors Layout"; CUTLASS and torchao agree.
//
// deepgemm  the packed words of DeepGEMM: 32 bits hold four scales along K, the first in the lowest byte; the words of
//           one group of four follow one another down the rows. Bytes, as a little-endian machine stores the words,
//             offset(i, j) = ((j / 4) * roundup(r, 4) + i) * 4 + j % 4
//             bytes        = roundup(r, 4) * ceil(c / 4) * 4
//           values_in<std::uint32_t>() of numerics/bytes.h gives the words. Source: DeepGEMM,
//           get_mn_major_tma_aligned_packed_ue8m0_tensor.
//
// K runs along the compact columns of row blocks (1 x n): r = compact rows, c = compact columns. It runs down the rows
// of column blocks (n x 1), whose transpose is laid out: r = compact columns, c = compact rows. With experts each has a
// layout (and padding) of its own, one after the other in memory. Other blocks have layout compact alone.
//
//   const QuantizedTensor q = quantize(x, Format::e4m3, {1, 32}, recipe_named("rceil"));
//   const auto tiles = to_layout(ScaleLayout::tcgen05, scale_shape(q), q.scales);
//
// Errors: Error{usage} for blocks that have no such layout, sizes below 0, beyond 2^63 - 1 or other than the shape's;
// Error{environment} without memory.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "numerics/names.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {

enum class ScaleLayout : std::uint8_t { compact, tcgen05, deepgemm };

inline constexpr std::array<Named<ScaleLayout>, 3> kScaleLayouts{
    {{"compact", ScaleLayout::compact}, {"tcgen05", ScaleLayout::tcgen05}, {"deepgemm", ScaleLayout::deepgemm}}};
constexpr std::string_view to_text(ScaleLayout layout) { return name_in(kScaleLayouts, layout); }
constexpr std::optional<ScaleLayout> find_scale_layout(std::string_view name) { return value_in(kScaleLayouts, name); }

// The compact scales of one matrix. {{rows}, cols} is a plain matrix of scales of row blocks.
struct ScaleShape {
  std::vector<std::int64_t> rows_of_expert;  // compact rows of each expert; one entry without experts
  std::int64_t cols = 0;                     // compact columns
  BlockShape block{1, 32};                   // one row or one column: which way K runs. The other extent has no say
};
ScaleShape scale_shape(const QuantizedTensor& q, std::span<const std::int64_t> offsets = {});

// Bytes of the whole, padding included; 0 where there are no scales.
std::int64_t layout_bytes(ScaleLayout layout, const ScaleShape& shape);

// The byte of scale (i, j) in the layout of one r x c matrix, by the formulas above (compact: i * c + j).
// Error{usage} for a scale outside it.
std::int64_t layout_offset(ScaleLayout layout, std::int64_t i, std::int64_t j, std::int64_t r, std::int64_t c);

// Compact scales into a layout, whose bytes that belong to no scale hold `pad`, and back. Exact inverses on the scales.
std::vector<std::uint8_t> to_layout(ScaleLayout layout, const ScaleShape& shape, std::span<const std::uint8_t> compact,
                                    std::uint8_t pad = 0);
std::vector<std::uint8_t> from_layout(ScaleLayout layout, const ScaleShape& shape, std::span<const std::uint8_t> bytes);

// True if the layout holds scales of such blocks: compact of any, the others of blocks of one row or one column.
constexpr bool has_layout(ScaleLayout layout, BlockShape block) {
  return layout == ScaleLayout::compact || block.rows == 1 || block.cols == 1;
}

}  // namespace mxcheck
