// The gate's own inputs of casts and quantizations, for whoever asks a black box: identify.

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/candidate.h"
#include "properties/core/statement.h"
#include "properties/operations/scaled_blocks/definitions.h"
#include "properties/operations/scaled_blocks/expand.h"
#include "properties/operations/scaled_blocks/operation.h"
#include "reference/common/checked_size.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostInMatrix = std::int64_t{1} << 18;
constexpr std::int64_t kDrawnInMatrix = std::int64_t{1} << 14;  // each exponent and each place of a block comes up
constexpr std::int64_t kMostOfRun = std::int64_t{1} << 16;      // elements of a run of words

// The case without experts, strides and an index, in whole blocks; of a run of words what is in its middle, which is
// what it is about.
Case in_whole_blocks(Case c, std::int64_t height, std::int64_t width) {
  c.experts.clear(), c.plants.clear(), c.set_contiguous(), c.gather = 0, c.misaligned = {}, c.threads = 0;
  c.cols = ceil_div(c.cols, width) * width;
  const std::int64_t most_rows = std::max<std::int64_t>(1, kMostOfRun / std::max<std::int64_t>(1, c.cols));
  const bool is_run = c.data == Data::every_word || c.data == Data::every_amax;
  if (is_run && c.rows > most_rows) c.seed += static_cast<std::uint64_t>(c.rows - most_rows) / 2, c.rows = most_rows;
  c.rows = ceil_div(c.rows, height) * height;
  return c;
}

}  // namespace

std::vector<GateMatrix> gate_matrices(Format element, std::optional<BlockShape> block, Format type) {
  Variant v{block ? "quantize" : "cast", type};
  blocks_of(v) = {element, "rceil", block.value_or(BlockShape{1, 32}), MXCHECK_COMPACT};
  const std::int64_t height = block ? block->height(1) : 1;
  const std::int64_t width = !block || block->cols == 0 ? 1 : block->cols;
  const std::int64_t drawn_height = height * 2,
                     drawn_width = (width == 1 && (!block || block->cols == 0) ? 64 : width) * 2;
  std::vector<Case> cases;
  const auto add = [&](const Case& c) {
    if (c.elements() == 0) return;
    Case whole = in_whole_blocks(c, height, width);
    if (whole.elements() <= kMostInMatrix && std::ranges::find(cases, whole) == cases.end())
      cases.push_back(std::move(whole));
  };
  for (const Statement& s : all_statements()) {
    if (s.of_the_interface || !s.corners || !s.applies(v, {&v, 1})) continue;
    for (const Case& c : s.corners(v, Suite::quick)) add(c);
    if (!s.covers_pairs) continue;
    const std::int64_t rows = ceil_div(kDrawnInMatrix, drawn_height * drawn_width) * drawn_height;
    for (const Data data : s.data)
      add(blocks_corner(v, rows, drawn_width, data, 100 + static_cast<std::uint64_t>(data)));
  }
  std::vector<GateMatrix> matrices;
  for (const Case& c : cases) {
    const Input input = expand(c);
    GateMatrix m{"gate " + std::string(to_text(c.data)) + " " + std::to_string(c.rows) + "x" + std::to_string(c.cols) +
                     " " + std::to_string(c.seed),
                 c.rows,
                 c.cols,
                 {}};
    for (std::int64_t i = 0; i < c.elements(); ++i) m.x.push_back(input.view().at(i / c.cols, i % c.cols));
    matrices.push_back(std::move(m));
  }
  return matrices;
}

}  // namespace mxcheck
