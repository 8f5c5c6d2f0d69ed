// The domain of the operations on blocks that share a scale.

#include "properties/operations/scaled_blocks/geometry.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "kernels/candidate.h"
#include "numerics/scale/recipe.h"
#include "properties/core/case_text.h"
#include "properties/core/domain/domain.h"
#include "properties/core/domain/usual_axes.h"
#include "properties/core/input.h"
#include "properties/core/layers/layers.h"
#include "properties/core/limits.h"
#include "properties/core/notation.h"
#include "properties/core/statement.h"
#include "properties/operations/scaled_blocks/operation.h"
#include "reference/quantize/scale_layout.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kUnit = 32;  // of experts' ends
constexpr std::array<std::int64_t, 17> kRows{0,   1,   2,    32,   33,   64,   65,    128,  129,
                                             256, 512, 1024, 2048, 4096, 8192, 16384, 65536};
constexpr std::int64_t kMostRows = 131'072;
constexpr std::array<std::int64_t, 15> kCols{0, 1, 2, 32, 33, 64, 65, 128, 129, 256, 512, 1024, 2048, 4096, 8192};
constexpr std::int64_t kMostCols = 20'480;
constexpr std::array<std::int64_t, 6> kElements{0, 1000, 10'000, 50'000, 250'000, 1'000'000};
constexpr std::int64_t kMostElements = std::int64_t{1} << 31;
constexpr std::array<std::int64_t, 6> kPads{0, 1, 127, 128, 254, 255};

class ScaledBlocksDomain final : public Domain {
 public:
  ScaledBlocksDomain(const DomainRequest& request, const ScaledBlocksOperation& operation)
      : statement_(request.statement),
        limits_(*request.process.operation(request.variants.front().operation)),
        most_in_quick_(operation.most_in_quick()),
        reads_x_(operation.reads_x()) {
    const auto text_of_variant = [](auto get) { return [get](const Variant& v) { return get(blocks_of(v)); }; };
    format_.of(request.variants, text_of_variant([](const auto& b) { return std::string(spec(b.format).name); }));
    recipe_.of(request.variants, text_of_variant([](const auto& b) { return b.recipe; }));
    block_.of(request.variants, text_of_variant([](const auto& b) { return to_text(b.block); }));
    layout_.of(request.variants, text_of_variant([](const auto& b) {
                 return std::string(b.layout == MXCHECK_TCGEN05 ? "tcgen05" : "compact");
               }));
    dtype_.of(request.variants, [](const Variant& v) { return std::string(spec(v.dtype).name); });
    const int format = add_of_variant("format", format_.bins());
    add_of_variant("recipe", recipe_.bins());
    const int block = add_of_variant("block", block_.bins());
    add_of_variant("scales", layout_.bins());
    add_of_variant(reads_x_ ? "x" : "y", dtype_.bins());
    rows_ = add("rows", extent_bins(kRows, kMostRows, limits_.rows_multiple, limits_.max_rows));
    cols_ = add("cols", extent_bins(kCols, kMostCols, limits_.cols_multiple, limits_.max_cols));
    elements_ = add("elements", extent_bins(kElements, kMostElements));
    add_groups(operation);
    if (reads_x_ && statement_.strides)
      gap_ = add_option("row stride, beyond the columns", extent_bins(kStrideGaps, kMostStrideGap));
    usual_ = UsualAxes(statement_, request.process.info().cuda);
    input_ = add_option("first input past a multiple of 64 bytes", usual_.offset_bins());
    other_ = add_option("other inputs past it", usual_.few_offset_bins());
    output_ = add_option("first output past it", usual_.offset_bins());
    others_ = add_option("other outputs past it", usual_.offset_bins());
    if (!usual_.cuda()) threads_ = add_option("threads", usual_.thread_bins());
    pad_ = add("pad byte", extent_bins(kPads, 255));
    if (reads_x_) data_ = add("data", usual_.data_bins());
    // quantize has it for CUDA libraries alone: a host library may take it for a tensor too many.
    if (operation.has_row_index(usual_.cuda()) && reads_x_ && operation.has_experts())
      index_ = add_option("row index", usual_.index_bins());
    // A conversion instruction by the format, a reduction by the block, vectors and unrolled loops by columns and by
    // where a row begins: kernels choose a path by all four together.
    interact({format, block, cols_, input_});
    layers_ = BlockLayers(limits_);
    for (const BlockLayers::Use& use : layers_.uses()) add_layer_use(use.layer, use.text);
    set_variants(request.variants);
  }

  [[nodiscard]] std::string family_of(const Variant& v) const override {
    const bool tiled = blocks_of(v).layout == MXCHECK_TCGEN05;
    return std::string(spec(blocks_of(v).format).name) + (tiled ? ", tcgen05" : ", compact");
  }
  [[nodiscard]] bool is_of_layer(std::size_t use, const Case& c) const override {
    return layers_.is(layers_.uses()[use], c);
  }

  [[nodiscard]] std::int64_t small_work() const override { return kMostDrawnElements; }
  [[nodiscard]] std::int64_t most_work(Suite suite) const override {
    return suite == Suite::quick ? most_in_quick_ : std::int64_t{1} << 24;
  }

 protected:
  [[nodiscard]] std::vector<std::int64_t> values_of(const Case& c) const override {
    const ScaledBlocksVariant& v = blocks_of(c.variant);
    std::vector<std::int64_t> values{format_.index_of(c.variant), recipe_.index_of(c.variant),
                                     block_.index_of(c.variant), layout_.index_of(c.variant),
                                     dtype_.index_of(c.variant)};
    values.resize(axes().size(), kNotOnAxis);
    const auto set = [&](int axis, std::int64_t value) {
      if (axis >= 0) values[static_cast<std::size_t>(axis)] = value;
    };
    set(rows_, c.rows);
    set(cols_, c.cols);
    set(elements_, c.elements());
    set(experts_, c.experts.empty() ? 0 : static_cast<std::int64_t>(c.experts.size()) - 1);
    if (!c.experts.empty()) set(groups_, static_cast<std::int64_t>(kind_of_groups(c.experts, kUnit)));
    set(gap_, std::max<std::int64_t>(0, c.stride - c.cols));
    const std::int64_t width = reads_x_ ? static_cast<std::int64_t>(value_bytes(c.variant.dtype)) : 1;
    if (c.misaligned.inputs[0] % width == 0) set(input_, c.misaligned.inputs[0]);
    set(other_, c.misaligned.inputs[1]);
    const std::int64_t output = reads_x_ ? 1
                                : c.variant.operation == "dequantize"
                                    ? static_cast<std::int64_t>(value_bytes(c.variant.dtype))
                                    : 1;
    if (c.misaligned.outputs[0] % output == 0) set(output_, c.misaligned.outputs[0]);
    set(others_, c.misaligned.outputs[1]);
    set(threads_, c.threads);
    if (v.layout == MXCHECK_TCGEN05) set(pad_, blocks_case(c).pad);
    set(data_, static_cast<std::int64_t>(c.data));
    set(index_, UsualAxes::index_kind(c));
    return values;
  }

  [[nodiscard]] std::int64_t work_of(const Case& c) const override {
    const BlockShape block = blocks_of(c.variant).block;
    // Tiles of 128 x 4 scales for each expert, whatever its rows.
    const std::int64_t experts = std::max<std::int64_t>(1, static_cast<std::int64_t>(c.experts.size()) - 1);
    const bool tiled = blocks_of(c.variant).layout == MXCHECK_TCGEN05;
    const std::int64_t across = block.rows == 1 ? (c.cols / block.width(c.cols) + 4) / 4 : (c.cols + 127) / 128;
    return std::max({c.rows * std::max(c.cols, c.stride), tiled ? experts * across * 512 : 0, c.gather * c.cols / 4});
  }

  [[nodiscard]] std::optional<Case> at_layer(std::size_t use, Case drawn, std::int64_t most,
                                             Draw& draw) const override {
    return layers_.at(layers_.uses()[use], std::move(drawn), most, draw);
  }

  [[nodiscard]] std::optional<Case> attempt(const Bins& wanted, std::int64_t most, int attempt,
                                            Draw& draw) const override {
    const Variant* v = draw_variant_in(wanted, draw);
    if (v == nullptr) return std::nullopt;
    Case c;
    c.variant = *v;
    c.seed = draw.word() >> 16;  // 48 bits: readable in a reproduce line
    std::int64_t experts = experts_ >= 0 ? draw_count(wanted, draw) : 0;
    const std::optional<Groups> kind = wanted_kind(wanted);
    if (kind && experts == 0) experts = draw.between(4, 7);
    if (!draw_shape(c, wanted, most, attempt, experts, kind, draw)) return std::nullopt;
    if (experts > 0 && !draw_offsets(c, experts, kind, draw)) return std::nullopt;
    draw_options(c, wanted, draw);
    return c;
  }

 private:
  void add_groups(const ScaledBlocksOperation& operation) {
    if (!operation.has_experts() || statement_.experts == 0) return;
    std::vector<Bin> bins = expert_count_bins();
    if (statement_.experts < 100) bins.insert(bins.begin(), Bin{0, 0, "none"});
    experts_ = add_option("experts", std::move(bins), statement_.experts < 100 ? 0 : kAnyBin);
    groups_ = add("experts' rows", word_bins(group_kind_labels()));
  }

  [[nodiscard]] std::int64_t draw_count(const Bins& wanted, Draw& draw) const {
    const auto at = static_cast<std::size_t>(experts_);
    if (wanted[at] == kAnyBin && draw.below(100) >= static_cast<std::uint64_t>(statement_.experts)) return 0;
    return draw_small_value(wanted, experts_, draw);
  }
  [[nodiscard]] std::optional<Groups> wanted_kind(const Bins& wanted) const {
    if (groups_ < 0 || wanted[static_cast<std::size_t>(groups_)] == kAnyBin) return std::nullopt;
    return static_cast<Groups>(wanted[static_cast<std::size_t>(groups_)]);
  }

  bool draw_shape(Case& c, const Bins& wanted, std::int64_t most, int attempt, std::int64_t experts,
                  std::optional<Groups> kind, Draw& draw) const {
    const BlockShape block = blocks_of(c.variant).block;
    ExtentRange rows{small_range(wanted, rows_, draw), limits_.rows_multiple,
                     block.rows == 0 ? kUnit : std::max(kUnit, block.rows)};
    ExtentRange cols{small_range(wanted, cols_, draw), limits_.cols_multiple,
                     block.cols == 0 ? 64 : std::max(kUnit, block.cols)};
    const bool any_rows = wanted[static_cast<std::size_t>(rows_)] == kAnyBin;
    if (kind && any_rows) fit_rows_to(*kind, experts, rows, draw);
    Bin product = range(wanted, elements_);
    const bool any_product = wanted[static_cast<std::size_t>(elements_)] == kAnyBin;
    product.high = std::min(product.high, any_product && attempt < 5 ? std::min(most, kMostDrawnElements) : most);
    const auto extents = draw_extents(rows, cols, product, attempt, draw);
    if (!extents) return false;
    c.rows = extents->rows, c.cols = extents->cols;
    if (kind == Groups::whole_units) c.rows = c.rows / kUnit * kUnit;
    return c.rows % limits_.rows_multiple == 0;
  }

  // Rows of which such groups can be made.
  void fit_rows_to(Groups kind, std::int64_t experts, ExtentRange& rows, Draw& draw) const {
    const Bin all = range(Bins(axes().size(), kAnyBin), rows_);
    rows.range = all;
    switch (kind) {
      case Groups::none_has_rows: rows.range.high = all.low; break;
      case Groups::one_row_each:
        rows.range = {std::max<std::int64_t>(2, all.low), std::min(experts, all.high), {}};
        break;
      case Groups::one_has_all:
        rows.range = {std::max<std::int64_t>(1, all.low), std::min<std::int64_t>(all.high, 300), {}};
        break;
      case Groups::whole_units:
        rows.multiple = std::lcm(rows.multiple, kUnit);
        rows.range = {
            std::max(experts * kUnit, all.low), std::min((experts + draw.between(0, 8)) * kUnit, all.high), {}};
        break;
      default: rows.range = {std::max(experts, all.low), std::min(all.high, experts * 2 + draw.between(3, 300)), {}};
    }
  }

  static bool draw_offsets(Case& c, std::int64_t experts, std::optional<Groups> kind, Draw& draw) {
    for (int tries = 0; tries < 6; ++tries) {
      const Groups one = kind.value_or(static_cast<Groups>(draw.below(kGroupKinds)));
      const auto offsets = draw_groups(one, experts, c.rows, kUnit, draw);
      if (!offsets) continue;
      c.experts = *offsets;
      return true;
    }
    if (kind) return false;
    c.experts = *draw_groups(Groups::one_has_all, experts, c.rows, kUnit, draw);
    return true;
  }

  void draw_options(Case& c, const Bins& wanted, Draw& draw) const {
    if (gap_ >= 0 && (is_wanted(wanted, gap_) || draw.chance(20))) {
      const std::int64_t gap = draw_small_value(wanted, gap_, draw);
      c.stride = gap == 0 ? 0 : c.cols + gap;
    }
    const std::int64_t width = reads_x_ ? static_cast<std::int64_t>(value_bytes(c.variant.dtype)) : 1;
    const auto offset = [&](int axis, std::int64_t element) {
      return draw_misalignment(wanted, axis, element, 30, draw);
    };
    c.misaligned.inputs[0] = offset(input_, width);
    c.misaligned.inputs[1] = c.misaligned.inputs[2] = c.misaligned.inputs[3] = offset(other_, 1);
    c.misaligned.outputs[0] = offset(
        output_, c.variant.operation == "dequantize" ? static_cast<std::int64_t>(value_bytes(c.variant.dtype)) : 1);
    c.misaligned.outputs[1] = c.misaligned.outputs[2] = c.misaligned.outputs[3] = offset(others_, 1);
    if (threads_ >= 0 && (is_wanted(wanted, threads_) || draw.chance(25)))
      c.threads = static_cast<int>(draw_value(wanted, threads_, draw));
    if (blocks_of(std::as_const(c).variant).layout == MXCHECK_TCGEN05 || is_wanted(wanted, pad_))
      blocks_case(c).pad = static_cast<std::uint8_t>(draw_value(wanted, pad_, draw));
    c.data = draw.pick(statement_.data);
    if (is_wanted(wanted, data_)) c.data = static_cast<Data>(draw_value(wanted, data_, draw));
    if (index_ >= 0 && (is_wanted(wanted, index_) || draw.chance(20))) {
      const int kind =
          is_wanted(wanted, index_) ? wanted[static_cast<std::size_t>(index_)] : static_cast<int>(draw.below(5));
      c.gather = UsualAxes::source_rows(kind, c.rows, draw);
    }
  }

  const Statement& statement_;
  OperationInfo limits_;
  std::int64_t most_in_quick_;
  bool reads_x_;
  UsualAxes usual_;
  BlockLayers layers_;
  VariantAxis format_, recipe_, block_, layout_, dtype_;
  int rows_ = -1, cols_ = -1, elements_ = -1, experts_ = -1, groups_ = -1, gap_ = -1, input_ = -1, other_ = -1;
  int output_ = -1, others_ = -1, threads_ = -1, pad_ = -1, data_ = -1, index_ = -1;
};

}  // namespace

std::unique_ptr<Domain> ScaledBlocksOperation::domain(const DomainRequest& request) const {
  return std::make_unique<ScaledBlocksDomain>(request, *this);
}

namespace {

constexpr std::int64_t kBlock = 32;  // rows of a block along columns, and the unit of experts' ends
constexpr std::int64_t kFewRows = 8;
constexpr std::int64_t kLayersMostRows = 4096;  // tokens of a step of training on one device
constexpr std::int64_t kShare = 16;             // of the suite's most elements: there are hundreds of these cases

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
  if (use.many) low = kBlock + 1, high = std::min(kLayersMostRows, std::max(kBlock + 15, most / kShare / use.cols));
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

ScaleGeometry scale_geometry(const Case& c, BlockShape block) {
  ScaleGeometry g;
  g.block = block;
  const std::int64_t height = block.height(c.rows);
  const std::int64_t width = block.width(c.cols);
  g.cols = (c.cols + width - 1) / width;
  if (c.experts.empty()) {
    g.rows_of_expert = {(c.rows + height - 1) / height};
  } else {
    for (std::size_t e = 1; e < c.experts.size(); ++e) {
      g.rows_of_expert.push_back((c.experts[e] - c.experts[e - 1] + height - 1) / height);
    }
  }
  for (std::int64_t rows : g.rows_of_expert) g.rows += rows;
  if (has_layout(ScaleLayout::tcgen05, block)) g.tiled_bytes = layout_bytes(ScaleLayout::tcgen05, g.shape());
  return g;
}

std::int64_t scale_row_of(const Case& c, const ScaleGeometry& g, std::int64_t row) {
  std::int64_t before = 0;
  for (std::size_t e = 0; e < g.rows_of_expert.size(); ++e) {
    const std::int64_t first = c.experts.empty() ? 0 : c.experts[e];
    const std::int64_t end = c.experts.empty() ? c.rows : c.experts[e + 1];
    if (row >= first && row < end) return before + (row - first) / g.block.height(c.rows);
    before += g.rows_of_expert[e];
  }
  return 0;
}

std::vector<std::uint8_t> in_layout(const Case& c, const ScaleGeometry& g, std::vector<std::uint8_t> compact,
                                    int layout) {
  if (layout == MXCHECK_COMPACT) return compact;
  return to_layout(ScaleLayout::tcgen05, g.shape(), compact, blocks_case(c).pad);
}

std::vector<std::uint8_t> to_compact(const ScaleGeometry& g, std::span<const std::uint8_t> scales, int layout) {
  if (layout == MXCHECK_COMPACT) return {scales.begin(), scales.end()};
  return from_layout(ScaleLayout::tcgen05, g.shape(), scales);
}

TensorInfo codes_info(const Case& c, std::string name, BlockShape block) {
  return {std::move(name),
          blocks_of(c.variant).format,
          c.rows,
          c.cols,
          block.rows == 0 ? c.rows : block.rows,
          block.cols == 0 ? c.cols : block.cols,
          false};
}

TensorInfo scales_info(const Case& c, std::string name, BlockShape block) {
  if (blocks_of(c.variant).layout == MXCHECK_COMPACT) {
    TensorInfo info = compact_scales_info(c, block);
    info.name = std::move(name);
    return info;
  }
  return {std::move(name), Format::e8m0, 1, scale_geometry(c, block).tiled_bytes, 0, 0, false};
}

TensorInfo compact_scales_info(const Case& c, BlockShape block) {
  const ScaleGeometry g = scale_geometry(c, block);
  return {"scales", Format::e8m0, g.rows, g.cols, 0, 0, false};
}

TensorInfo compact_scales_info(const Case& c) { return compact_scales_info(c, blocks_of(c.variant).block); }

BlockBounds block_at_scale(const Case& c, const ScaleGeometry& g, std::int64_t scale_row, std::int64_t scale_col) {
  const std::int64_t height = g.block.height(c.rows);
  const std::int64_t width = g.block.width(c.cols);
  std::int64_t before = 0;
  BlockBounds b{0, 0, scale_col * width, std::min(c.cols, (scale_col + 1) * width)};
  for (std::size_t e = 0; e < g.rows_of_expert.size(); ++e) {
    const std::int64_t first = c.experts.empty() ? 0 : c.experts[e];
    const std::int64_t end = c.experts.empty() ? c.rows : c.experts[e + 1];
    if (scale_row < before + g.rows_of_expert[e]) {
      b.first_row = first + (scale_row - before) * height;
      b.end_row = std::min(end, b.first_row + height);
      return b;
    }
    before += g.rows_of_expert[e];
  }
  return b;
}

ScalePlace scale_at(const ScaleGeometry& g, std::int64_t offset) {
  std::int64_t base = 0;
  std::int64_t before = 0;
  for (std::int64_t rows : g.rows_of_expert) {
    const std::int64_t r = g.row_blocks() ? rows : g.cols;
    const std::int64_t k = g.row_blocks() ? g.cols : rows;
    for (std::int64_t i = 0; i < r; ++i) {
      for (std::int64_t j = 0; j < k; ++j) {
        if (base + layout_offset(ScaleLayout::tcgen05, i, j, r, k) == offset) {
          return g.row_blocks() ? ScalePlace{before + i, j} : ScalePlace{before + j, i};
        }
      }
    }
    base += layout_bytes(ScaleLayout::tcgen05, {{r}, k});
    before += rows;
  }
  return {};
}

std::string place_text(std::int64_t row, std::int64_t col) { return fmt::format("({}, {})", row, col); }

std::string place_line(const Case& c, const ScaleGeometry& g, std::int64_t row, std::int64_t col) {
  const std::int64_t scale_row = scale_row_of(c, g, row);
  const std::int64_t scale_col = col / g.block.width(c.cols);
  const BlockBounds b = block_at_scale(c, g, scale_row, scale_col);
  return "place     element " + place_text(row - b.first_row, col - b.first_col) + " of block " +
         place_text(scale_row, scale_col);
}

ScalePlace explain_tiled_byte(const ScaleGeometry& g, Finding& finding) {
  const std::int64_t offset = finding.difference->first.col;
  const ScalePlace place = scale_at(g, offset);
  finding.element.push_back(
      fmt::format("layout    byte {} of the tcgen05 tiles is {}", offset,
                  place.row < 0 ? "padding" : "the scale of block " + place_text(place.row, place.col)));
  return place;
}

void explain_words(Finding& finding) {
  const Difference::Element& e = finding.difference->first;
  const Format format = finding.difference->tensor.format;
  finding.element.push_back("expected  " + notations(format, e.expected));
  finding.element.push_back("observed  " + notations(format, e.observed) +
                            (e.ulps < 0
                                 ? "; a NaN against a number"
                                 : "; " + std::to_string(e.ulps) + (e.ulps == 1 ? " step away" : " steps away")));
}

}  // namespace mxcheck
