// Corners of all variants of an operation together: where rows begin and end, and where experts do.
//
// A kernel reads vectors of up to 16 bytes. Where a row begins among 16 bytes, and how many elements are left at its
// end, choose its head and its tail together: each pair is met once for each shape of blocks and type of values, by one
// format, recipe and layout after the other.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/candidate.h"
#include "properties/core/input.h"
#include "properties/core/notation.h"
#include "properties/core/operation.h"
#include "properties/operations/scaled_blocks/operation.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kVector = 16;  // bytes

struct EdgeFamily {
  std::vector<const Variant*> members;
  [[nodiscard]] const Variant& number(std::size_t n) const { return *members[n % members.size()]; }
};

// Variants of one shape of blocks, type of values, rounding and directions; by_layout: of one layout of scales too.
std::vector<EdgeFamily> edge_families(std::span<const Variant> variants, bool by_layout) {
  std::map<std::tuple<std::int64_t, std::int64_t, Format, int, Nvfp4Rounding, bool>, EdgeFamily> families;
  for (const Variant& v : variants) {
    const ScaledBlocksVariant& blocks = blocks_of(v);
    if (blocks.options.hadamard != 0) continue;  // columns, or rows, are multiples of the group
    const Nvfp4Options& o = blocks.options;
    families[{blocks.block.rows, blocks.block.cols, v.dtype, by_layout ? blocks.layout : 0, o.rounding, o.has_both}]
        .members.push_back(&v);
  }
  std::vector<EdgeFamily> all;
  for (auto& [of, family] : families) all.push_back(std::move(family));
  return all;
}

void add_row_starts(const EdgeFamily& family, std::int64_t tails, std::vector<Case>& to) {
  constexpr std::int64_t kWhole = 48;  // columns before the tail
  std::size_t n = 0;
  const bool writes_values = family.number(0).operation.starts_with("dequantize");
  const auto width = static_cast<std::int64_t>(value_bytes(family.number(0).dtype));
  const std::int64_t step = writes_values ? 1 : width;
  for (std::int64_t start = 0; start < kVector; start += step) {
    for (std::int64_t tail = 0; tail < tails; ++tail, ++n) {
      const Variant& v = family.number(n);
      const std::int64_t height = blocks_of(v).block.rows;
      Case c = blocks_corner(v, height <= 1 ? 3 : height + 2, kWhole + tail, Data::boundaries, n);
      c.misaligned.inputs[0] = static_cast<std::uint8_t>(start);
      const std::int64_t out = (5 * start + 3 * tail) % kVector;
      c.misaligned.outputs[0] = static_cast<std::uint8_t>(writes_values ? out / width * width : out);
      to.push_back(std::move(c));
    }
  }
}

// Experts of a block's height, of one row less and more, of twice as many, of one row and of none. Tiles have 128 rows.
void add_expert_heights(const EdgeFamily& family, std::vector<Case>& to) {
  const Variant& v = family.number(to.size());
  const ScaledBlocksVariant& blocks = blocks_of(v);
  if (blocks.options.has_both) return;
  constexpr std::int64_t kTile = 128;
  const std::int64_t height = std::max(blocks.block.rows, blocks.layout == MXCHECK_TCGEN05 ? kTile : 1);
  if (height == 1) return;
  Case c = blocks_corner(v, 0, 5, Data::boundaries, to.size());
  c.experts = {0};
  for (const std::int64_t rows : {height - 1, height, std::int64_t{0}, height + 1, std::int64_t{1}, 2 * height - 1,
                                  2 * height, 2 * height + 1, height + 1, height - 1})
    c.experts.push_back(c.experts.back() + rows);
  c.rows = c.experts.back();
  to.push_back(std::move(c));
}

}  // namespace

std::vector<Case> edges_of_rows_and_experts(std::span<const Variant> variants, Suite) {
  std::vector<Case> cases;
  if (variants.empty()) return cases;
  const auto& operation = dynamic_cast<const ScaledBlocksOperation&>(operation_named(variants[0].operation));
  const ScaledBlocksTraits& traits = operation.traits();
  const bool has_values = traits.reads_x || traits.name.starts_with("dequantize");
  for (const EdgeFamily& family : edge_families(variants, false)) {
    const ScaledBlocksVariant& blocks = blocks_of(family.number(0));
    const bool is_usual =
        (blocks.block == BlockShape{1, 32} || blocks.block == BlockShape{1, 16}) && !blocks.options.any();
    if (has_values) add_row_starts(family, is_usual ? kVector : kVector / 2, cases);
  }
  if (!traits.has_experts) return cases;
  for (const EdgeFamily& family : edge_families(variants, true)) add_expert_heights(family, cases);
  return cases;
}

}  // namespace mxcheck
