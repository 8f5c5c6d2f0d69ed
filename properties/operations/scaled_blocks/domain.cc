// The domain of the operations on blocks that share a scale.

#include "properties/operations/scaled_blocks/geometry.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "kernels/candidate.h"
#include "numerics/scale/recipe.h"
#include "properties/core/case_text.h"
#include "properties/core/domain/usual_domain.h"
#include "properties/core/input.h"
#include "properties/core/layers/layers.h"
#include "properties/core/limits.h"
#include "properties/core/notation.h"
#include "properties/core/operation.h"
#include "properties/core/statement.h"
#include "properties/operations/scaled_blocks/operation.h"
#include "reference/quantize/scale_layout.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kUnit = 32;  // of experts' ends
constexpr std::array<std::int64_t, 17> kRows{0,   1,   2,    32,   33,   64,   65,    128,  129,
                                             256, 512, 1024, 2048, 4096, 8192, 16384, 65537};
constexpr std::int64_t kMostRows = 131'072;
constexpr std::array<std::int64_t, 15> kCols{0, 1, 2, 32, 33, 64, 65, 128, 129, 256, 512, 1024, 2048, 4096, 8192};
constexpr std::int64_t kMostCols = 20'480;
constexpr std::array<std::int64_t, 6> kElements{0, 1000, 10'000, 50'000, 250'000, 1'000'000};
constexpr std::int64_t kMostElements = std::int64_t{1} << 31;
constexpr std::array<std::int64_t, 6> kPads{0, 1, 127, 128, 254, 255};

class ScaledBlocksDomain final : public LayeredDomain<BlockLayers> {
 public:
  ScaledBlocksDomain(const DomainRequest& request, const ScaledBlocksTraits& traits)
      : LayeredDomain(request, kUnit), usual_in_quick_(traits.usual_in_quick) {
    const bool reads_x = traits.reads_x;
    const int format =
        add_of_variant("format", [](const Variant& v) { return std::string(spec(blocks_of(v).format).name); });
    add_of_variant("recipe", [](const Variant& v) { return blocks_of(v).recipe; });
    const int block = add_of_variant("block", [](const Variant& v) { return to_text(blocks_of(v).block); });
    add_of_variant("scales",
                   [](const Variant& v) { return blocks_of(v).layout == MXCHECK_TCGEN05 ? "tcgen05" : "compact"; });
    add_of_variant(reads_x ? "x" : "y", [](const Variant& v) { return std::string(spec(v.dtype).name); });
    rows_ = add_rows("rows", kRows, kMostRows);
    cols_ = add_cols("cols", kCols, kMostCols);
    elements_ = add("elements", extent_bins(kElements, kMostElements), [](const Case& c) { return c.elements(); });
    if (traits.has_experts) add_optional_experts();
    if (reads_x && statement().strides) add_gap();
    if (reads_x && statement().col_strides) add_col_stride();
    const auto width = [](const Variant& v) { return static_cast<std::int64_t>(value_bytes(v.dtype)); };
    const auto input_width = [=](const Variant& v) { return reads_x ? width(v) : 1; };
    const auto output_width = [=](const Variant& v) { return v.operation.starts_with("dequantize") ? width(v) : 1; };
    const int input = add_place("first input past a multiple of 64 bytes", {false, 0, 0}, input_width);
    add_place("other inputs past it", {false, 1, 3}, 1, true);
    add_place("first output past it", {true, 0, 0}, output_width);
    add_place("other outputs past it", {true, 1, 3}, 1);
    add_threads();
    pad_ = add("pad byte", extent_bins(kPads, 255), [](const Case& c) {
      return blocks_of(c.variant).layout == MXCHECK_TCGEN05 ? std::int64_t{blocks_case(c).pad} : kNotOnAxis;
    });
    if (reads_x) add_data();
    // quantize has it for CUDA libraries alone: a host library may take it for a tensor too many.
    const bool may_gather = reads_x && traits.has_experts;
    if (may_gather && (cuda() || traits.has_row_index_on_host))
      add_row_index([](const Variant& v) { return !blocks_of(v).options.has_both; });
    if (std::ranges::any_of(variants(), [](const Variant& v) { return blocks_of(v).options.any(); })) add_options();
    // Laws take the scale of the matrix, near which no arithmetic leaves what is normal.
    if (reads_x && traits.has_two_levels && statement().covers_pairs) {
      scale_ = add("tensor's scale", word_bins(drawn_scale_labels()),
                   [](const Case& c) { return kind_of_drawn_scale(recipe_of(c), blocks_case(c).tensor_scale); });
    }
    // A conversion instruction by the format, a reduction by the block, vectors and unrolled loops by columns and by
    // where a row begins: kernels choose a path by all four together.
    interact({format, block, cols_, input});
    add_layers(BlockLayers(limits()));
  }

  [[nodiscard]] std::string family_of(const Variant& v) const override {
    const bool tiled = blocks_of(v).layout == MXCHECK_TCGEN05;
    const std::string family = std::string(spec(blocks_of(v).format).name) + (tiled ? ", tcgen05" : ", compact");
    const Nvfp4Options& o = blocks_of(v).options;
    if (o.has_both) return family + ", both directions";
    if (o.hadamard != 0) return family + (o.hadamard == 16 ? ", transformed by 16" : ", transformed");
    if (o.is_stochastic()) return family + ", stochastic";
    // Weights have square blocks.
    return scale_ >= 0 && blocks_of(v).block.rows > 1 ? family + ", square" : family;
  }
  [[nodiscard]] std::int64_t small_work() const override { return kMostDrawnElements; }
  [[nodiscard]] std::int64_t most_work(Suite suite) const override {
    return std::int64_t{1} << (suite == Suite::quick ? 21 : 24);
  }
  [[nodiscard]] std::int64_t usual_work(Suite suite) const override {
    return suite == Suite::quick ? usual_in_quick_ : most_work(suite);
  }

 protected:
  [[nodiscard]] std::int64_t work_of(const Case& c) const override {
    const BlockShape block = blocks_of(c.variant).block;
    // Tiles of 128 x 4 scales for each expert, whatever its rows.
    const std::int64_t experts = std::max<std::int64_t>(1, static_cast<std::int64_t>(c.experts.size()) - 1);
    const bool tiled = blocks_of(c.variant).layout == MXCHECK_TCGEN05;
    const std::int64_t across = block.rows == 1 ? (c.cols / block.width(c.cols) + 4) / 4 : (c.cols + 127) / 128;
    return std::max({span_of_x(c), tiled ? experts * across * 512 : 0}) * cost_of_transform(c);
  }

  bool fill(Case& c, const Bins& wanted, std::int64_t most, int attempt, Draw& draw) const override {
    c.seed = draw.word() >> 16;  // 48 bits: readable in a reproduce line
    const bool has_both = blocks_of(std::as_const(c).variant).options.has_both;
    const std::int64_t experts = has_both ? 0 : draw_experts(wanted, draw);
    const std::optional<Groups> kind = wanted_groups(wanted);
    if (!draw_shape(c, wanted, most, attempt, experts, kind, draw)) return false;
    if (experts > 0 && !draw_offsets(c, experts, kind, draw)) return false;
    draw_gap(c, wanted, draw);
    draw_places(c, wanted, draw);
    draw_threads(c, wanted, draw);
    if (blocks_of(std::as_const(c).variant).layout == MXCHECK_TCGEN05 || is_wanted(wanted, pad_))
      blocks_case(c).pad = static_cast<std::uint8_t>(draw_value(wanted, pad_, draw));
    c.data = draw.pick(statement().data);
    if (is_wanted(wanted, data_axis())) c.data = static_cast<Data>(draw_value(wanted, data_axis(), draw));
    if (!has_both) draw_row_index(c, wanted, 20, draw);
    draw_col_stride(c, wanted, draw);
    draw_nvfp4_random(c, draw);
    if (scale_ >= 0 && (is_wanted(wanted, scale_) || draw.chance(10))) draw_scales(c, wanted, draw);
    return true;
  }

  // Groups of a transform divide columns, or rows; with both directions there are no experts and no row index.
  [[nodiscard]] bool may_be_in(const Variant& v, const Bins& wanted) const override {
    const Nvfp4Options& o = blocks_of(v).options;
    if (!o.any()) return true;
    if (o.has_both && ((is_wanted(wanted, experts_axis()) && bin(wanted, experts_axis()) != 0) ||
                       is_wanted(wanted, groups_axis()) || is_wanted(wanted, index_axis())))
      return false;
    const Bin along = range(wanted, o.has_both ? rows_ : cols_);
    return o.hadamard == 0 || along.high / o.hadamard * o.hadamard >= along.low;
  }

 private:
  // A sum that is exact, or a tensor core's, takes the reference as long as 8 elements for 16 of its terms.
  static std::int64_t cost_of_transform(const Case& c) {
    const Nvfp4Options& o = blocks_of(c.variant).options;
    return o.hadamard == 0 || o.sum == "butterfly" ? 1 : 1 + o.hadamard / 2;
  }
  static int kind_of_offset(const Case& c) {
    const std::uint64_t limit = elements_of_first_word(blocks_of(c.variant).options);
    const std::uint64_t offset = blocks_case(c).random.offset;
    const auto last = static_cast<std::uint64_t>(std::max<std::int64_t>(1, c.elements()) - 1);
    return offset == 0 ? 0 : offset >= limit ? 3 : offset + last < limit ? 1 : 2;
  }

  static Recipe recipe_of(const Case& c) { return any_recipe_named(blocks_of(c.variant).recipe); }

  // Mostly of data that lie around the scale's ties, so that codes are no mere zeros or largest values.
  void draw_scales(Case& c, const Bins& wanted, Draw& draw) const {
    const Recipe recipe = recipe_of(c);
    blocks_case(c).tensor_scale = draw_scale(recipe, draw_value(wanted, scale_, draw), draw);
    if (!is_wanted(wanted, data_axis()) && draw.chance(80)) c.data = Data::boundaries;
    if (blocks_of(std::as_const(c).variant).options.has_both && draw.chance(50))
      blocks_case(c).random.column_scale = draw_scale(recipe, draw_value(wanted, scale_, draw), draw);
  }

  // Axes of the options of kernels/candidate_nvfp4.h.
  void add_options() {
    const auto text = [](const Variant& v) { return v.own.get<ScaledBlocksVariant>().options; };
    add_of_variant("rounding", [=](const Variant& v) { return std::string(to_text(text(v).rounding)); });
    add_of_variant("transform", [=](const Variant& v) {
      const Nvfp4Options o = text(v);
      return o.hadamard == 0 ? std::string("none") : fmt::format("{} by {}", o.hadamard, o.sum);
    });
    add_of_variant("transformed to", [=](const Variant& v) { return std::string(spec(text(v).result).name); });
    add_of_variant("directions", [=](const Variant& v) { return std::string(text(v).has_both ? "both" : "rows"); });
    add("counter of the first word", word_bins({"0", "of 32 bits", "of 32 bits, and passes them", "of more bits"}),
        [](const Case& c) {
          return blocks_of(c.variant).options.is_stochastic() ? std::int64_t{kind_of_offset(c)} : kNotOnAxis;
        });
    add("signs", word_bins({"none", "some"}), [](const Case& c) {
      if (blocks_of(c.variant).options.hadamard == 0) return kNotOnAxis;
      return std::int64_t{blocks_case(c).random.signs != std::array<std::uint32_t, 4>{} ? 1 : 0};
    });
  }

  // Elements of x with the gaps between its rows: hundreds of times those of the case, where rows are short. The steps
  // of a column stride, at most seven, do not count, nor do three of four rows that only the index may reach.
  static std::int64_t span_of_x(const Case& c) {
    if (c.is_turned()) return std::max(c.elements(), c.cols * c.col_stride / (c.gather != 0 ? 4 : 1));
    const std::int64_t pitch = std::max(c.cols, c.stride / std::max<std::int64_t>(1, c.col_stride));
    return std::max(c.rows, c.gather / 4) * pitch;
  }

  bool draw_shape(Case& c, const Bins& wanted, std::int64_t most, int attempt, std::int64_t experts,
                  std::optional<Groups> kind, Draw& draw) const {
    const BlockShape block = blocks_of(c.variant).block;
    ExtentRange rows{small_range(wanted, rows_, draw), limits().rows_multiple,
                     block.rows == 0 ? kUnit : std::max(kUnit, block.rows)};
    ExtentRange cols{small_range(wanted, cols_, draw), limits().cols_multiple,
                     block.cols == 0 ? 64 : std::max(kUnit, block.cols)};
    if (const Nvfp4Options& o = blocks_of(c.variant).options; o.hadamard != 0) {
      ExtentRange& along = o.has_both ? rows : cols;
      along.multiple = std::lcm(along.multiple, std::int64_t{o.hadamard});
    }
    if (kind && !is_wanted(wanted, rows_)) fit_rows_to(*kind, experts, rows_, rows, draw);
    Bin product = range(wanted, elements_);
    const bool any_product = !is_wanted(wanted, elements_);
    product.high = std::min(product.high, any_product && attempt < 5 ? std::min(most, kMostDrawnElements) : most);
    if (!draw_extents(c, rows, cols, product, attempt, draw)) return false;
    if (kind == Groups::whole_units) c.rows = c.rows / kUnit * kUnit;
    return c.rows % limits().rows_multiple == 0;
  }

  std::int64_t usual_in_quick_;
  int rows_ = -1, cols_ = -1, elements_ = -1, pad_ = -1, scale_ = -1;
};

}  // namespace

std::unique_ptr<Domain> ScaledBlocksOperation::domain(const DomainRequest& request) const {
  return std::make_unique<ScaledBlocksDomain>(request, traits_);
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
  const std::int64_t index = index_kind(drawn);
  const Case was = drawn;
  drawn.rows = *rows, drawn.cols = use.cols;
  redraw_groups(drawn, draw);
  drawn.gather = source_rows(index, drawn.rows, draw);
  operation_named(drawn.variant.operation).fit(drawn);
  drawn.fit_strides(was);
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
  TensorInfo info{std::move(name), Format::e8m0, 1, scale_geometry(c, block).tiled_bytes};
  info.is_vector = true;
  return info;
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
