#include "properties/operations/scaled_blocks/layers.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "properties/core/domain/groups.h"
#include "properties/core/domain/usual_axes.h"
#include "properties/core/layers/layers.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kBlock = 32;  // rows of a block along columns, and the unit of experts' ends
constexpr std::int64_t kFewRows = 8;
constexpr std::int64_t kMostRows = 4096;  // tokens of a step of training on one device
constexpr std::int64_t kShare = 16;       // of the suite's most elements: there are hundreds of these cases

void redraw_groups(Case& c, Draw& draw) {
  if (c.experts.empty()) return;
  const auto count = static_cast<std::int64_t>(c.experts.size()) - 1;
  for (int tries = 0; tries < 4; ++tries) {
    auto offsets = draw_groups(static_cast<Groups>(draw.below(kGroupKinds)), count, c.rows, kBlock, draw);
    if (offsets) return void(c.experts = *std::move(offsets));
  }
  c.experts = *draw_groups(Groups::one_has_all, count, c.rows, kBlock, draw);
}

}  // namespace

BlockLayers::BlockLayers(const OperationInfo& limits) : limits_(limits) {
  for (const ProductionLayer& layer : production_layers()) {
    const std::pair<const char*, std::int64_t> widths[] = {{"d", layer.d}, {"n", layer.n}, {"2n", 2 * layer.n}};
    for (const auto& [name, cols] : widths) {
      if (cols % limits.cols_multiple != 0 || (limits.max_cols > 0 && cols > limits.max_cols)) continue;
      for (const bool many : {false, true}) {
        if (many && limits.max_rows > 0 && limits.max_rows <= kBlock) continue;
        uses_.push_back(
            {layer.model, fmt::format("{} = {}, {}", name, cols, many ? "many rows" : "few rows"), cols, many});
      }
    }
  }
}

bool BlockLayers::is(const Use& use, const Case& c) const {
  if (c.cols != use.cols) return false;
  if (!use.many) return c.rows >= 1 && c.rows <= std::max(kFewRows, limits_.rows_multiple);
  return c.rows > kBlock && (c.rows % kBlock != 0 || limits_.rows_multiple % kBlock == 0);
}

std::optional<Case> BlockLayers::at(const Use& use, Case drawn, std::int64_t most, Draw& draw) const {
  const std::int64_t multiple = limits_.rows_multiple;
  std::int64_t low = 1;
  std::int64_t high = std::max(kFewRows, multiple);
  if (use.many) low = kBlock + 1, high = std::min(kMostRows, std::max(kBlock + 15, most / kShare / use.cols));
  high = std::max(high, (low + multiple - 1) / multiple * multiple);
  if (limits_.max_rows > 0) high = std::min(high, limits_.max_rows);
  auto rows = draw_extent(low, high, multiple, kBlock, draw);
  if (!rows) return std::nullopt;
  if (use.many && *rows % kBlock == 0 && *rows - 1 > kBlock && multiple == 1) --*rows;
  const int index = static_cast<int>(UsualAxes::index_kind(drawn));
  const std::int64_t gap = std::max<std::int64_t>(0, drawn.stride - drawn.cols);
  drawn.rows = *rows, drawn.cols = use.cols;
  drawn.stride = gap == 0 ? 0 : use.cols + gap;
  redraw_groups(drawn, draw);
  drawn.gather = UsualAxes::source_rows(index, drawn.rows, draw);
  return drawn;
}

}  // namespace mxcheck
