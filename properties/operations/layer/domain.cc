// The domain of swiglu and its gradient: to 131,072 rows, 20,480 columns of A, 512 experts.

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "numerics/scale/recipe.h"
#include "properties/core/domain/groups.h"
#include "properties/core/domain/usual_axes.h"
#include "properties/core/statement.h"
#include "properties/operations/layer/operation.h"
#include "properties/operations/scaled_blocks/layers.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kUnit = 32;  // of experts' ends
constexpr std::array<std::int64_t, 14> kRows{0, 1, 2, 32, 33, 64, 128, 129, 256, 512, 1024, 4096, 16384, 65536};
constexpr std::int64_t kMostRows = 131'072;
constexpr std::array<std::int64_t, 15> kCols{0, 1, 2, 31, 32, 33, 64, 65, 128, 129, 256, 512, 1024, 2048, 8192};
constexpr std::int64_t kMostCols = 20'480;
constexpr std::int64_t kSmallElements = 3'000;  // exp, correctly rounded, takes its time

class SwigluDomain final : public Domain {
 public:
  explicit SwigluDomain(const DomainRequest& request)
      : statement_(request.statement),
        limits_(*request.process.operation(request.variants.front().operation)),
        backward_(is_backward(request.variants.front())) {
    add_variants(request.variants);
    rows_ = add("rows", extent_bins(kRows, kMostRows, limits_.rows_multiple, limits_.max_rows));
    cols_ = add("cols of A", extent_bins(kCols, kMostCols, limits_.cols_multiple, limits_.max_cols));
    if (statement_.experts > 0) {
      std::vector<Bin> bins = expert_count_bins();
      if (statement_.experts < 100) bins.insert(bins.begin(), Bin{0, 0, "none"});
      experts_ = add_option("experts", std::move(bins), statement_.experts < 100 ? 0 : kAnyBin);
      groups_ = add("experts' rows", word_bins(group_kind_labels()));
    }
    if (statement_.strides &&
        std::any_of(request.variants.begin(), request.variants.end(), [](const Variant& v) { return !has_coded_h(v); }))
      gap_ = add_option("row stride, beyond the columns", extent_bins(kStrideGaps, kMostStrideGap));
    usual_ = UsualAxes(statement_, request.process.info().cuda);
    input_ = add_option("h past a multiple of 64 bytes", usual_.offset_bins());
    other_ = add_option("other inputs past it", usual_.few_offset_bins());
    output_ = add_option("first output past it", usual_.offset_bins());
    others_ = add_option("other outputs past it", usual_.offset_bins());
    if (!usual_.cuda()) threads_ = add_option("threads", usual_.thread_bins());
    data_ = add("data", usual_.data_bins());
    // What is written decides on a tile and its passes, columns and where a row begins on the width of loads.
    interact({written_axis_, cols_, input_});
    layers_ = BlockLayers(limits_);
    for (const BlockLayers::Use& use : layers_.uses()) {
      if (!use.text.starts_with("n = ")) continue;
      uses_.push_back(use);
      add_layer_use(use.layer, use.text);
    }
    set_variants(request.variants);
  }

  [[nodiscard]] std::string family_of(const Variant& v) const override { return written_text(v); }
  [[nodiscard]] bool is_of_layer(std::size_t use, const Case& c) const override { return layers_.is(uses_[use], c); }
  [[nodiscard]] std::int64_t small_work() const override { return kSmallElements; }
  [[nodiscard]] std::int64_t most_work(Suite suite) const override {
    return std::int64_t{1} << (suite == Suite::quick ? 16 : 20);
  }

 protected:
  [[nodiscard]] std::vector<std::int64_t> values_of(const Case& c) const override {
    std::vector<std::int64_t> values;
    for (const VariantAxis& axis : of_variant_) values.push_back(axis.index_of(c.variant));
    values.resize(axes().size(), kNotOnAxis);
    const auto set = [&](int axis, std::int64_t value) {
      if (axis >= 0) values[static_cast<std::size_t>(axis)] = value;
    };
    set(rows_, c.rows);
    set(cols_, c.cols);
    set(experts_, c.experts.empty() ? 0 : static_cast<std::int64_t>(c.experts.size()) - 1);
    if (!c.experts.empty()) set(groups_, static_cast<std::int64_t>(kind_of_groups(c.experts, kUnit)));
    set(gap_, std::max<std::int64_t>(0, c.stride - c.cols));
    if (c.misaligned.inputs[0] % width_of_h(c.variant) == 0) set(input_, c.misaligned.inputs[0]);
    set(other_, c.misaligned.inputs[1]);
    if (c.misaligned.outputs[0] % width_of_output(c.variant) == 0) set(output_, c.misaligned.outputs[0]);
    set(others_, c.misaligned.outputs[1]);
    set(threads_, c.threads);
    set(data_, static_cast<std::int64_t>(c.data));
    return values;
  }

  [[nodiscard]] std::int64_t work_of(const Case& c) const override {
    return std::max(c.rows * c.cols, c.rows * stride_of_h(c) / 4);
  }

  [[nodiscard]] std::optional<Case> at_layer(std::size_t use, Case drawn, std::int64_t most,
                                             Draw& draw) const override {
    return layers_.at(uses_[use], std::move(drawn), most, draw);
  }

  [[nodiscard]] std::optional<Case> attempt(const Bins& wanted, std::int64_t most, int attempt,
                                            Draw& draw) const override {
    const Variant* v = draw_variant_in(wanted, draw);
    if (v == nullptr) return std::nullopt;
    Case c;
    c.variant = *v;
    c.seed = draw.word() >> 16;
    std::int64_t experts = 0;
    if (experts_ >= 0 &&
        (is_wanted(wanted, experts_) || draw.below(100) < static_cast<std::uint64_t>(statement_.experts)))
      experts = draw_small_value(wanted, experts_, draw);
    std::optional<Groups> kind;
    if (is_wanted(wanted, groups_)) kind = static_cast<Groups>(wanted[static_cast<std::size_t>(groups_)]);
    if (kind && experts == 0) experts = draw.between(4, 7);
    if (!draw_shape(c, wanted, most, attempt, experts, kind, draw)) return std::nullopt;
    if (experts > 0 && !draw_offsets(c, experts, kind, draw)) return std::nullopt;
    draw_options(c, wanted, draw);
    return c;
  }

 private:
  static std::string written_text(const Variant& v) {
    const char* kinds[] = {"values", "rows", "columns"};
    std::string text;
    for (int bit = 0; bit < 3; ++bit) {
      if (writes(v, 1 << bit)) text += (text.empty() ? "" : " and ") + std::string(kinds[bit]);
    }
    return text;
  }
  static std::int64_t width_of_h(const Variant& v) { return has_coded_h(v) ? 1 : 2; }
  static std::int64_t width_of_output(const Variant& v) {
    return is_backward(v) ? 4 : writes(v, MXCHECK_VALUES) ? 2 : 1;
  }

  void add_variants(std::span<const Variant> variants) {
    const auto of_codes = [](auto text) {
      return [text](const Variant& v) { return writes_codes(v) ? std::string(text(layer_of(v))) : "none"; };
    };
    const std::pair<const char*, VariantAxis::Text> axes[] = {
        {"h", [](const Variant& v) { return std::string(spec(v.dtype).name); }},
        {"gate and up",
         [](const Variant& v) { return layer_of(v).gate_up == MXCHECK_HALVES ? "halves" : "interleaved"; }},
        {"written", written_text},
        {"format", of_codes([](const LayerVariant& v) { return spec(v.format).name; })},
        {"recipe", of_codes([](const LayerVariant& v) { return v.recipe; })},
        {"block", of_codes([](const LayerVariant& v) { return std::to_string(v.block); })},
        {"format of scaled_a",
         [](const Variant& v) { return has_scaled_format(v) ? std::string(spec(layer_of(v).scaled).name) : "none"; }},
    };
    of_variant_.reserve(std::size(axes));
    for (const auto& [name, text] : axes) {
      if (name == std::string_view("format of scaled_a") && !backward_) continue;
      of_variant_.emplace_back().of(variants, text);
      const int axis = add_of_variant(name, of_variant_.back().bins());
      if (name == std::string_view("written")) written_axis_ = axis;
    }
  }

  bool draw_shape(Case& c, const Bins& wanted, std::int64_t most, int attempt, std::int64_t experts,
                  std::optional<Groups> kind, Draw& draw) const {
    ExtentRange rows{small_range(wanted, rows_, draw), limits_.rows_multiple, kUnit};
    const ExtentRange cols{small_range(wanted, cols_, draw), limits_.cols_multiple, kUnit};
    if (kind && !is_wanted(wanted, rows_)) fit_rows_to(*kind, experts, rows, draw);
    const bool any = !is_wanted(wanted, rows_) && !is_wanted(wanted, cols_) && attempt < 5;
    const Bin product{0, any ? std::min(most, kSmallElements) : most, {}};
    const auto extents = draw_extents(rows, cols, product, attempt, draw);
    if (!extents) return false;
    c.rows = extents->rows, c.cols = extents->cols;
    if (kind == Groups::whole_units) c.rows = c.rows / kUnit * kUnit;
    return c.rows % limits_.rows_multiple == 0;
  }

  // Rows of which such groups can be made.
  void fit_rows_to(Groups kind, std::int64_t experts, ExtentRange& rows, Draw& draw) const {
    const Bin all = range(Bins(axes().size(), kAnyBin), rows_);
    const auto between = [&](std::int64_t low, std::int64_t high) {
      return Bin{std::max(low, all.low), std::min(high, all.high), {}};
    };
    switch (kind) {
      case Groups::none_has_rows: rows.range = {all.low, all.low, {}}; break;
      case Groups::one_row_each: rows.range = between(2, experts); break;
      case Groups::one_has_all: rows.range = between(1, 300); break;
      case Groups::whole_units:
        rows.multiple = std::lcm(rows.multiple, kUnit);
        rows.range = between(experts * kUnit, (experts + draw.between(0, 8)) * kUnit);
        break;
      default: rows.range = between(experts, experts * 2 + draw.between(3, 300));
    }
  }

  static bool draw_offsets(Case& c, std::int64_t experts, std::optional<Groups> kind, Draw& draw) {
    for (int tries = 0; tries < 6; ++tries) {
      const Groups one = kind.value_or(static_cast<Groups>(draw.below(kGroupKinds)));
      auto offsets = draw_groups(one, experts, c.rows, kUnit, draw);
      if (offsets) return c.experts = *std::move(offsets), true;
    }
    if (kind) return false;
    c.experts = *draw_groups(Groups::one_has_all, experts, c.rows, kUnit, draw);
    return true;
  }

  void draw_options(Case& c, const Bins& wanted, Draw& draw) const {
    const Variant& v = std::as_const(c).variant;
    if (gap_ >= 0 && !has_coded_h(v) && (is_wanted(wanted, gap_) || draw.chance(20))) {
      const std::int64_t gap = draw_small_value(wanted, gap_, draw);
      c.stride = gap == 0 ? 0 : c.cols + gap;
    }
    const auto offset = [&](int axis, std::int64_t element) {
      return draw_misalignment(wanted, axis, element, 30, draw);
    };
    c.misaligned.inputs[0] = offset(input_, width_of_h(v));
    c.misaligned.inputs[1] = c.misaligned.inputs[2] = c.misaligned.inputs[3] = offset(other_, 1);
    c.misaligned.outputs[0] = offset(output_, width_of_output(v));
    c.misaligned.outputs[1] = c.misaligned.outputs[2] = c.misaligned.outputs[3] = offset(others_, 1);
    if (threads_ >= 0 && (is_wanted(wanted, threads_) || draw.chance(25)))
      c.threads = static_cast<int>(draw_value(wanted, threads_, draw));
    c.data = is_wanted(wanted, data_) ? static_cast<Data>(draw_value(wanted, data_, draw)) : draw.pick(statement_.data);
  }

  const Statement& statement_;
  OperationInfo limits_;
  bool backward_;
  UsualAxes usual_;
  BlockLayers layers_;
  std::vector<BlockLayers::Use> uses_;
  std::vector<VariantAxis> of_variant_;
  int written_axis_ = -1, rows_ = -1, cols_ = -1, experts_ = -1, groups_ = -1, gap_ = -1, input_ = -1, other_ = -1;
  int output_ = -1, others_ = -1, threads_ = -1, data_ = -1;
};

}  // namespace

std::unique_ptr<Domain> swiglu_domain(const DomainRequest& request) { return std::make_unique<SwigluDomain>(request); }

}  // namespace mxcheck
