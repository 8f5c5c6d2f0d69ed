#include "bindings/at_speed.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "bindings/guard.h"
#include "numerics/names.h"

namespace mxcheck::c {
namespace {

constexpr std::array<Named<Engine>, 3> kEngines{
    {{"auto", Engine::automatic}, {"simd", Engine::simd}, {"reference", Engine::reference}}};

// One row of blocks: matrix rows [begin, end), the number-th row of its expert's scales.
struct Row {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::size_t expert = 0;
  std::int64_t number = 0;
};

// Chosen by a multiplicative hash, so that they follow no period: 2^64 / 1024 of its values.
bool is_in_sample(std::size_t i) { return i * 0x9E3779B97F4A7C15 < std::uint64_t{1} << 54; }

template <class Look>
void for_sample(std::int64_t rows, const SimdBlocks& blocks, const Look& look) {
  const std::vector<std::int64_t> starts = block_row_starts(rows, blocks.block.rows, blocks.offsets);
  const std::vector<std::int64_t> of_expert = count_scale_rows_by_expert(rows, blocks.block.rows, blocks.offsets);
  const std::size_t count = starts.empty() ? 0 : starts.size() - 1;
  std::size_t expert = 0;
  std::int64_t first = 0;  // row of blocks of this expert
  for (std::size_t i = 0; i < count; ++i) {
    while (static_cast<std::int64_t>(i) - first >= of_expert[expert]) first += of_expert[expert++];
    if (i + 1 != count && !is_in_sample(i)) continue;
    look(Row{starts[i], starts[i + 1], expert, static_cast<std::int64_t>(i) - first});
  }
}

ScaleShape shape_of(std::int64_t rows, std::int64_t cols, const SimdBlocks& blocks) {
  const std::int64_t width = blocks.block.width(cols);
  return {count_scale_rows_by_expert(rows, blocks.block.rows, blocks.offsets),
          cols / width + (cols % width != 0 ? 1 : 0), blocks.block};
}

// The scales of one row of blocks, out of their layout.
std::vector<std::uint8_t> scales_of(const Row& row, const ScaleShape& shape, ScaleLayout layout,
                                    std::span<const std::uint8_t> scales) {
  const ScaleShape before{
      {shape.rows_of_expert.begin(), shape.rows_of_expert.begin() + std::int64_t(row.expert)}, shape.cols, shape.block};
  const std::int64_t base = before.rows_of_expert.empty() ? 0 : layout_bytes(layout, before);
  const std::int64_t height = shape.rows_of_expert[row.expert];
  const bool transposed = layout != ScaleLayout::compact && shape.block.rows != 1;
  std::vector<std::uint8_t> found;
  for (std::int64_t j = 0; j < shape.cols; ++j) {
    const std::int64_t at = transposed ? layout_offset(layout, j, row.number, shape.cols, height)
                                       : layout_offset(layout, row.number, j, height, shape.cols);
    found.push_back(scales[static_cast<std::size_t>(base + at)]);
  }
  return found;
}

[[noreturn]] void refuse_difference(const Row& row) {
  throw Error(ErrorKind::internal, "the SIMD library and the reference differ in rows " + std::to_string(row.begin) +
                                       " to " + std::to_string(row.end - 1) +
                                       ": this is a fault of mxcheck, or of the processor");
}

}  // namespace

Engine engine_of(std::string_view name) { return entry_named(kEngines, "engine", name).value; }

void refuse_simd() {
  refuse(
      "the SIMD library does not offer this: it has e4m3 and e5m2 of fp32 and bf16, with the recipes rceil, floor, "
      "ocp, torchao and te, and values of e8m0 scales; engine 'auto' takes the reference for all else");
}

void quantize_checked(const MatrixView& x, const SimdBlocks& blocks, const Recipe& recipe, std::uint8_t* codes,
                      std::span<std::uint8_t> scales) {
  const ScaleShape shape = shape_of(x.rows, x.cols, blocks);
  if (blocks.layout == ScaleLayout::deepgemm) {
    SimdBlocks as_compact = blocks;
    as_compact.layout = ScaleLayout::compact;
    std::vector<std::uint8_t> compact(static_cast<std::size_t>(layout_bytes(ScaleLayout::compact, shape)));
    quantize_checked(x, as_compact, recipe, codes, compact);
    std::ranges::copy(to_layout(blocks.layout, shape, compact, blocks.pad), scales.begin());
    return;
  }
  simd_quantize(x, blocks, recipe, codes, scales);
  const std::int64_t row_bytes = x.row_stride * (x.dtype == Format::fp32 ? 4 : 2);
  for_sample(x.rows, blocks, [&](const Row& row) {
    const MatrixView band{x.dtype,  x.data + row.begin * row_bytes, row.end - row.begin, x.cols, x.row_stride,
                          row.begin};
    const QuantizedTensor want = quantize(band, blocks.element, blocks.block, recipe, {}, 1);
    if (!std::ranges::equal(want.codes.as<std::uint8_t>(),
                            std::span<const std::uint8_t>(codes + row.begin * x.cols, want.codes.size())) ||
        !std::ranges::equal(want.scales().as<std::uint8_t>(), scales_of(row, shape, blocks.layout, scales))) {
      refuse_difference(row);
    }
  });
}

void dequantize_checked(const std::uint8_t* codes, std::span<const std::uint8_t> scales, std::int64_t rows,
                        std::int64_t cols, const SimdBlocks& blocks, Format values, void* to) {
  const ScaleShape shape = shape_of(rows, cols, blocks);
  if (blocks.layout == ScaleLayout::deepgemm) {
    SimdBlocks as_compact = blocks;
    as_compact.layout = ScaleLayout::compact;
    return dequantize_checked(codes, from_layout(blocks.layout, shape, scales), rows, cols, as_compact, values, to);
  }
  // Its NaN is the reference's, though the candidate interface asks for any: test_engines.py has all codes and scales.
  simd_dequantize(codes, scales, rows, cols, blocks, values, to);
  for_sample(rows, blocks, [&](const Row& row) {
    const std::int64_t rows_of_band = row.end - row.begin;
    const std::span band(codes + row.begin * cols, static_cast<std::size_t>(rows_of_band * cols));
    const std::vector<std::uint8_t> own = scales_of(row, shape, blocks.layout, scales);
    const QuantizedTensor q{tensor_of(blocks.element, {rows_of_band, cols}, band),
                            {{blocks.block, ScaleRule::rceil, tensor_of(Format::e8m0, {1, shape.cols}, own)}}};
    const auto check = [&](const auto& want) {
      const std::size_t each = sizeof(want[0]);
      const auto* found = static_cast<const std::byte*>(to) + row.begin * cols * static_cast<std::int64_t>(each);
      if (!want.empty() && std::memcmp(want.data(), found, want.size() * each) != 0) refuse_difference(row);
    };
    values == Format::fp32 ? check(dequantize(q, {}, 1)) : check(dequantize_bf16(q, {}, 1));
  });
}

}  // namespace mxcheck::c
