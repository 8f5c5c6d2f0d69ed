// The domain of aggregation: to 131,072 tokens, 20,480 columns, 512 slots of a token.

#include <algorithm>
#include <array>
#include <utility>

#include "properties/core/domain/usual_axes.h"
#include "properties/core/statement.h"
#include "properties/operations/layer/operation.h"
#include "properties/operations/scaled_blocks/layers.h"

namespace mxcheck {
namespace {

constexpr std::array<std::int64_t, 13> kTokens{0, 1, 2, 32, 33, 64, 128, 129, 256, 1024, 4096, 16384, 65536};
constexpr std::int64_t kMostTokens = 131'072;
constexpr std::array<std::int64_t, 14> kCols{0, 1, 2, 8, 31, 32, 33, 64, 65, 256, 512, 1024, 2048, 8192};
constexpr std::int64_t kMostCols = 20'480;
constexpr std::array<std::int64_t, 9> kMostSlots{0, 1, 2, 3, 8, 9, 16, 33, 65};
constexpr std::array<std::int64_t, 4> kDrops{0, 1, 51, 100};
constexpr std::int64_t kSmallWork = 20'000;  // additions

// Rows of y: none, one, fewer than slots may be, as many, more.
std::int64_t rows_kind(const Case& c) {
  const std::int64_t y = layer_case(c).y_rows;
  const std::int64_t slots = c.rows * layer_case(c).most;
  return y <= 1 ? y : y < slots ? 2 : y == slots ? 3 : 4;
}

class AggregateDomain final : public Domain {
 public:
  explicit AggregateDomain(const DomainRequest& request)
      : statement_(request.statement), limits_(*request.process.operation(request.variants.front().operation)) {
    weighted_.of(request.variants, [](const Variant& v) { return std::string(layer_of(v).weighted ? "yes" : "no"); });
    add_of_variant("weighted", weighted_.bins());
    tokens_ = add("tokens", extent_bins(kTokens, kMostTokens, limits_.rows_multiple, limits_.max_rows));
    cols_ = add("cols", extent_bins(kCols, kMostCols, limits_.cols_multiple, limits_.max_cols));
    most_ = add("slots of a token, at most", extent_bins(kMostSlots, 512));
    y_ = add("rows of y", word_bins({"none", "one", "fewer than slots", "as many", "more"}));
    drops_ = add("dropped slots, %", extent_bins(kDrops, 100));
    usual_ = UsualAxes(statement_, request.process.info().cuda);
    input_ = add_option("y past a multiple of 64 bytes", usual_.offset_bins());
    other_ = add_option("other inputs past it", usual_.few_offset_bins());
    output_ = add_option("output past it", usual_.offset_bins());
    if (!usual_.cuda()) threads_ = add_option("threads", usual_.thread_bins());
    data_ = add("data", usual_.data_bins());
    // Loads by columns and by where a row begins, rows in flight by the slots of a token.
    interact({cols_, most_, input_});
    layers_ = BlockLayers(limits_);
    for (const BlockLayers::Use& use : layers_.uses()) {
      if (!use.text.starts_with("d = ")) continue;
      uses_.push_back(use);
      add_layer_use(use.layer, use.text);
    }
    set_variants(request.variants);
  }

  [[nodiscard]] std::string family_of(const Variant&) const override { return "aggregate"; }
  [[nodiscard]] bool is_of_layer(std::size_t use, const Case& c) const override { return layers_.is(uses_[use], c); }
  [[nodiscard]] std::int64_t small_work() const override { return kSmallWork; }
  [[nodiscard]] std::int64_t most_work(Suite suite) const override {
    return std::int64_t{1} << (suite == Suite::quick ? 18 : 22);
  }

 protected:
  [[nodiscard]] std::vector<std::int64_t> values_of(const Case& c) const override {
    std::vector<std::int64_t> values{weighted_.index_of(c.variant)};
    values.resize(axes().size(), kNotOnAxis);
    const auto set = [&](int axis, std::int64_t value) {
      if (axis >= 0) values[static_cast<std::size_t>(axis)] = value;
    };
    set(tokens_, c.rows);
    set(cols_, c.cols);
    set(most_, layer_case(c).most);
    set(y_, rows_kind(c));
    set(drops_, layer_case(c).drops);
    if (c.misaligned.inputs[0] % 2 == 0) set(input_, c.misaligned.inputs[0]);
    set(other_, c.misaligned.inputs[1]);
    if (c.misaligned.outputs[0] % 2 == 0) set(output_, c.misaligned.outputs[0]);
    set(threads_, c.threads);
    set(data_, static_cast<std::int64_t>(c.data));
    return values;
  }

  [[nodiscard]] std::int64_t work_of(const Case& c) const override {
    return std::max(c.rows * std::max<std::int64_t>(1, layer_case(c).most), layer_case(c).y_rows) *
           std::max<std::int64_t>(1, c.cols);
  }

  [[nodiscard]] std::optional<Case> at_layer(std::size_t use, Case drawn, std::int64_t most,
                                             Draw& draw) const override {
    // So that tokens of few slots and rows are left to the width.
    LayerCase& own = layer_case(drawn);
    own.most = std::min<std::int64_t>(own.most, 8);
    const std::int64_t kind = rows_kind(drawn);
    std::optional<Case> c = layers_.at(uses_[use], std::move(drawn), most / 8, draw);
    if (c) c->experts.clear(), c->gather = 0, layer_case(*c).y_rows = draw_rows(kind, *c, draw);
    return c;
  }

  [[nodiscard]] std::optional<Case> attempt(const Bins& wanted, std::int64_t most, int attempt,
                                            Draw& draw) const override {
    const Variant* v = draw_variant_in(wanted, draw);
    if (v == nullptr) return std::nullopt;
    Case c;
    c.variant = *v;
    c.seed = draw.word() >> 16;
    LayerCase& own = layer_case(c);
    const bool any = !is_wanted(wanted, tokens_) && !is_wanted(wanted, cols_) && attempt < 5;
    const Bin slots = range(wanted, most_);
    own.most = is_wanted(wanted, most_) ? attempt < 5 ? draw_value(wanted, most_, draw) : slots.low
                                        : draw.between(0, attempt < 5 ? 9 : 2);
    const std::int64_t limit = std::min(any ? kSmallWork : most, most) / std::max<std::int64_t>(1, own.most);
    const ExtentRange rows{small_range(wanted, tokens_, draw), limits_.rows_multiple, 32};
    const ExtentRange cols{small_range(wanted, cols_, draw), limits_.cols_multiple, 32};
    const auto extents = draw_extents(rows, cols, Bin{0, limit, {}}, attempt, draw);
    if (!extents) return std::nullopt;
    c.rows = extents->rows, c.cols = extents->cols;
    own.y_rows = draw_rows(is_wanted(wanted, y_)
                               ? wanted[static_cast<std::size_t>(y_)]
                               : static_cast<std::int64_t>(draw.chance(90) ? 2 + draw.below(3) : draw.below(2)),
                           c, draw);
    if (is_wanted(wanted, drops_) || draw.chance(40)) own.drops = static_cast<int>(draw_value(wanted, drops_, draw));
    draw_options(c, wanted, draw);
    return c;
  }

 private:
  static std::int64_t draw_rows(std::int64_t kind, const Case& c, Draw& draw) {
    const std::int64_t slots = c.rows * layer_case(c).most;
    switch (kind) {
      case 0:
      case 1: return kind;
      case 2: return slots <= 2 ? slots : draw.between(2, slots - 1);
      case 3: return slots;
      default: return slots + draw.between(1, 40) + (slots == 0 ? 1 : 0);
    }
  }

  void draw_options(Case& c, const Bins& wanted, Draw& draw) const {
    const auto offset = [&](int axis, std::int64_t element) {
      return draw_misalignment(wanted, axis, element, 30, draw);
    };
    c.misaligned.inputs[0] = offset(input_, 2);
    c.misaligned.inputs[1] = c.misaligned.inputs[2] = c.misaligned.inputs[3] = offset(other_, 1);
    c.misaligned.outputs[0] = offset(output_, 2);
    if (threads_ >= 0 && (is_wanted(wanted, threads_) || draw.chance(25)))
      c.threads = static_cast<int>(draw_value(wanted, threads_, draw));
    c.data = is_wanted(wanted, data_) ? static_cast<Data>(draw_value(wanted, data_, draw)) : draw.pick(statement_.data);
  }

  const Statement& statement_;
  OperationInfo limits_;
  UsualAxes usual_;
  BlockLayers layers_;
  std::vector<BlockLayers::Use> uses_;
  VariantAxis weighted_;
  int tokens_ = -1, cols_ = -1, most_ = -1, y_ = -1, drops_ = -1, input_ = -1, other_ = -1, output_ = -1;
  int threads_ = -1, data_ = -1;
};

}  // namespace

std::unique_ptr<Domain> aggregate_domain(const DomainRequest& request) {
  return std::make_unique<AggregateDomain>(request);
}

}  // namespace mxcheck
