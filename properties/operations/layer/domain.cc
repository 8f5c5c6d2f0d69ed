// The domain of swiglu and its gradient: to 131,072 rows, 20,480 columns of A, 512 experts.

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "numerics/error.h"
#include "numerics/scale/recipe.h"
#include "properties/core/domain/usual_domain.h"
#include "properties/core/limits.h"
#include "properties/core/simpler.h"
#include "properties/core/statement.h"
#include "properties/operations/layer/operation.h"
#include "properties/operations/scaled_blocks/operation.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kUnit = 32;  // of experts' ends
constexpr std::array<std::int64_t, 15> kRows{0, 1, 2, 32, 33, 64, 128, 129, 256, 512, 1024, 2048, 4096, 16384, 65536};
constexpr std::int64_t kMostRows = 131'072;
constexpr std::array<std::int64_t, 16> kCols{0, 1, 2, 31, 32, 33, 64, 65, 128, 129, 256, 512, 1024, 2048, 4096, 8192};
constexpr std::int64_t kMostCols = 20'480;
constexpr std::int64_t kSmallElements = 3'000;  // exp, correctly rounded, takes its time

class SwigluDomain final : public LayeredDomain<BlockLayers> {
 public:
  explicit SwigluDomain(const DomainRequest& request) : LayeredDomain(request, kUnit) {
    const int written = add_variant_axes();
    rows_ = add_rows("rows", kRows, kMostRows);
    cols_ = add_cols("cols of A", kCols, kMostCols);
    add_optional_experts();
    if (statement().strides && std::ranges::any_of(variants(), [](const Variant& v) { return !has_coded_h(v); }))
      add_gap();
    const auto width_of_h = [](const Variant& v) { return has_coded_h(v) ? 1 : 2; };
    const auto width_of_output = [](const Variant& v) {
      return is_backward(v) ? 4 : writes(v, MXCHECK_VALUES) ? 2 : 1;
    };
    const int input = add_place("h past a multiple of 64 bytes", {false, 0, 0}, width_of_h);
    add_place("other inputs past it", {false, 1, 3}, 1, true);
    add_place("first output past it", {true, 0, 0}, width_of_output);
    add_place("other outputs past it", {true, 1, 3}, 1);
    add_threads();
    add_data();
    // Kernels choose a tile and its passes by what is written, the width of loads by columns and by where a row begins.
    interact({written, cols_, input});
    add_layers(BlockLayers(limits()), "n = ");
  }

  [[nodiscard]] std::string family_of(const Variant& v) const override { return written_text(v); }
  [[nodiscard]] std::int64_t small_work() const override { return kSmallElements; }
  [[nodiscard]] std::int64_t most_work(Suite suite) const override {
    return std::int64_t{1} << (suite == Suite::quick ? 21 : 22);
  }
  [[nodiscard]] std::int64_t usual_work(Suite suite) const override {
    return std::int64_t{1} << (suite == Suite::quick ? 16 : 20);
  }

 protected:
  [[nodiscard]] std::int64_t work_of(const Case& c) const override {
    return std::max(c.rows * c.cols, c.rows * stride_of_h(c) / 4);
  }

  bool fill(Case& c, const Bins& wanted, std::int64_t most, int attempt, Draw& draw) const override {
    c.seed = draw.word() >> 16;
    const std::int64_t experts = draw_experts(wanted, draw);
    const std::optional<Groups> kind = wanted_groups(wanted);
    if (!draw_shape(c, wanted, most, attempt, experts, kind, draw)) return false;
    if (experts > 0 && !draw_offsets(c, experts, kind, draw)) return false;
    if (!has_coded_h(std::as_const(c).variant)) draw_gap(c, wanted, draw);
    draw_places(c, wanted, draw);
    draw_threads(c, wanted, draw);
    draw_data(c, wanted, draw);
    return true;
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

  // The axis of what is written.
  int add_variant_axes() {
    const auto of_codes = [](auto text) {
      return [text](const Variant& v) { return writes_codes(v) ? std::string(text(layer_of(v))) : "none"; };
    };
    add_of_variant("h", [](const Variant& v) { return std::string(spec(v.dtype).name); });
    add_of_variant("gate and up",
                   [](const Variant& v) { return layer_of(v).gate_up == MXCHECK_HALVES ? "halves" : "interleaved"; });
    const int written = add_of_variant("written", written_text);
    add_of_variant("format", of_codes([](const LayerVariant& v) { return spec(v.format).name; }));
    add_of_variant("recipe", of_codes([](const LayerVariant& v) { return v.recipe; }));
    add_of_variant("block", of_codes([](const LayerVariant& v) { return std::to_string(v.block); }));
    if (!is_backward(variants().front())) return written;
    add_of_variant("format of scaled_a", [](const Variant& v) {
      return has_scaled_format(v) ? std::string(spec(layer_of(v).scaled).name) : "none";
    });
    return written;
  }

  bool draw_shape(Case& c, const Bins& wanted, std::int64_t most, int attempt, std::int64_t experts,
                  std::optional<Groups> kind, Draw& draw) const {
    ExtentRange rows{small_range(wanted, rows_, draw), limits().rows_multiple, kUnit};
    const ExtentRange cols{small_range(wanted, cols_, draw), limits().cols_multiple, kUnit};
    if (kind && !is_wanted(wanted, rows_)) fit_rows_to(*kind, experts, rows_, rows, draw);
    const bool any = !is_wanted(wanted, rows_) && !is_wanted(wanted, cols_) && attempt < 5;
    const Bin product{0, any ? std::min(most, kSmallElements) : most, {}};
    if (!draw_extents(c, rows, cols, product, attempt, draw)) return false;
    if (kind == Groups::whole_units) c.rows = c.rows / kUnit * kUnit;
    return c.rows % limits().rows_multiple == 0;
  }

  int rows_ = -1, cols_ = -1;
};

}  // namespace

std::unique_ptr<Domain> swiglu_domain(const DomainRequest& request) { return std::make_unique<SwigluDomain>(request); }

// The domain of aggregation: to 131,072 tokens, 20,480 columns, 512 slots of a token.

namespace {

constexpr std::array<std::int64_t, 13> kTokens{0, 1, 2, 32, 33, 64, 128, 129, 256, 1024, 4096, 16384, 65536};
constexpr std::int64_t kMostTokens = 131'072;
constexpr std::array<std::int64_t, 14> kAggregateDomainCols{0, 1, 2, 8, 31, 32, 33, 64, 65, 256, 512, 1024, 2048, 8192};
constexpr std::array<std::int64_t, 9> kMostSlots{0, 1, 2, 3, 8, 9, 16, 33, 65};
constexpr std::array<std::int64_t, 4> kDrops{0, 1, 51, 100};
constexpr std::int64_t kSmallWork = 20'000;  // additions

// Rows of y: none, one, fewer than slots may be, as many, more.
std::int64_t rows_kind(const Case& c) {
  const std::int64_t y = layer_case(c).y_rows;
  const std::int64_t slots = c.rows * layer_case(c).most;
  return y <= 1 ? y : y < slots ? 2 : y == slots ? 3 : 4;
}

class AggregateDomain final : public LayeredDomain<BlockLayers> {
 public:
  explicit AggregateDomain(const DomainRequest& request) : LayeredDomain(request, 1) {
    add_of_variant("weighted", [](const Variant& v) { return layer_of(v).weighted ? "yes" : "no"; });
    tokens_ = add_rows("tokens", kTokens, kMostTokens);
    cols_ = add_cols("cols", kAggregateDomainCols, kMostCols);
    most_ = add("slots of a token, at most", extent_bins(kMostSlots, 512),
                [](const Case& c) { return layer_case(c).most; });
    y_ = add("rows of y", word_bins({"none", "one", "fewer than slots", "as many", "more"}), rows_kind);
    drops_ = add("dropped slots, %", extent_bins(kDrops, 100), [](const Case& c) { return layer_case(c).drops; });
    const int input = add_place("y past a multiple of 64 bytes", {false, 0, 0}, 2);
    add_place("other inputs past it", {false, 1, 3}, 1, true);
    add_place("output past it", {true, 0, 0}, 2);
    add_threads();
    add_data();
    // Loads by columns and by where a row begins, rows in flight by the slots of a token.
    interact({cols_, most_, input});
    add_layers(BlockLayers(limits()), "d = ");
  }

  [[nodiscard]] std::string family_of(const Variant&) const override { return "aggregate"; }
  [[nodiscard]] std::int64_t small_work() const override { return kSmallWork; }
  [[nodiscard]] std::int64_t most_work(Suite suite) const override {
    return std::int64_t{1} << (suite == Suite::quick ? 21 : 22);
  }
  [[nodiscard]] std::int64_t usual_work(Suite suite) const override {
    return std::int64_t{1} << (suite == Suite::quick ? 18 : 22);
  }

 protected:
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
    std::optional<Case> c = LayeredDomain::at_layer(use, std::move(drawn), most / 8, draw);
    if (c) c->experts.clear(), c->gather = 0, layer_case(*c).y_rows = draw_rows(kind, *c, draw);
    return c;
  }

  bool fill(Case& c, const Bins& wanted, std::int64_t most, int attempt, Draw& draw) const override {
    c.seed = draw.word() >> 16;
    LayerCase& own = layer_case(c);
    const bool any = !is_wanted(wanted, tokens_) && !is_wanted(wanted, cols_) && attempt < 5;
    const bool both = is_wanted(wanted, tokens_) && is_wanted(wanted, cols_);  // for which something is added up
    const Bin slots = range(wanted, most_);
    own.most = is_wanted(wanted, most_) ? attempt < 5 ? draw_value(wanted, most_, draw) : slots.low
                                        : draw.between(both ? 1 : 0, attempt < 5 ? 9 : 2);
    const std::int64_t limit = std::min(any ? kSmallWork : most, most) / std::max<std::int64_t>(1, own.most);
    const ExtentRange rows{small_range(wanted, tokens_, draw), limits().rows_multiple, 32};
    const ExtentRange cols{small_range(wanted, cols_, draw), limits().cols_multiple, 32};
    if (!draw_extents(c, rows, cols, Bin{0, limit, {}}, attempt, draw)) return false;
    const std::int64_t kind =
        is_wanted(wanted, y_) ? bin(wanted, y_)
                              : static_cast<std::int64_t>(both || draw.chance(90) ? 2 + draw.below(3) : draw.below(2));
    own.y_rows = draw_rows(kind, c, draw);
    if (is_wanted(wanted, drops_) || (!both && draw.chance(40)))
      own.drops = static_cast<int>(draw_value(wanted, drops_, draw));
    draw_places(c, wanted, draw);
    draw_threads(c, wanted, draw);
    draw_data(c, wanted, draw);
    return true;
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

  int tokens_ = -1, cols_ = -1, most_ = -1, y_ = -1, drops_ = -1;
};

}  // namespace

std::unique_ptr<Domain> aggregate_domain(const DomainRequest& request) {
  return std::make_unique<AggregateDomain>(request);
}

// The variants of swiglu, swiglu_backward and aggregate, and the cases that no call can pose.

namespace {

constexpr std::int64_t kMostCaseRows = std::int64_t{1} << 30;  // of y and of slots, which are int32

constexpr int kVariantsRows = MXCHECK_ROWS_CODED;
constexpr int kColumns = MXCHECK_COLUMNS_CODED;

// The formats of a byte a code.
std::vector<Format> byte_formats() {
  std::vector<Format> all;
  for (const Format format : kElementFormats) {
    if (spec(format).bits == 8) all.push_back(format);
  }
  return all;
}

// The recipes of E8M0 scales, and the plain rule of FP32 ones.
bool can_be_asked(const Recipe& recipe) { return recipe.has_e8m0_scales() || recipe.name == "fp32"; }

void add_coded(const Variant& like, std::vector<Variant>& all) {
  const auto add = [&](int outputs) {
    Variant v = like;
    layer_of(v).outputs = outputs;
    layer_of(v).scaled = layer_of(like).format;
    if (!has_scaled_format(v)) layer_of(v).scaled = LayerVariant{}.scaled;
    all.push_back(v);
    if (!has_scaled_format(v) || layer_of(like).format != Format::e5m2) return;
    layer_of(v).scaled = Format::e4m3;  // gradients in E5M2, activations in E4M3
    all.push_back(std::move(v));
  };
  for (const int outputs : {kVariantsRows, kColumns, kVariantsRows | kColumns}) add(outputs);
  const LayerVariant& own = layer_of(like);
  if (own.recipe != "rceil" || own.block != 32 || own.format != Format::e4m3) return;
  for (const int outputs : {kVariantsRows, kColumns, kVariantsRows | kColumns}) add(MXCHECK_VALUES | outputs);
}

void require(bool holds, const char* what) {
  if (!holds) throw Error(ErrorKind::usage, std::string("a case of a layer's step: ") + what);
}

void check_window(const Case& c) {
  const LayerCase& own = layer_case(c);
  require(c.gather == 0 && c.plants.empty(), "there are neither gathered rows nor plants; at= is a window");
  require(own.first_row >= 0 && own.first_col >= 0 && own.first_row <= kMostCaseRows && own.first_col <= kMostRows,
          "at is 0 to 2^30");
}

}  // namespace

std::vector<Variant> askable_aggregates(const std::string& operation) {
  std::vector<Variant> all;
  Variant v{operation};
  for (const bool weighted : {false, true}) {
    layer_of(v).weighted = weighted;
    all.push_back(v);
  }
  return all;
}

std::vector<Variant> askable_swiglus(const std::string& operation) {
  std::vector<Variant> all;
  Variant v{operation};
  for (const int gate_up : {MXCHECK_HALVES, MXCHECK_INTERLEAVED}) {
    layer_of(v) = {};
    layer_of(v).gate_up = gate_up;
    all.push_back(v);
    for (const Recipe& recipe : all_recipes()) {
      if (!can_be_asked(recipe)) continue;
      for (const Format format : byte_formats()) {
        for (const std::int64_t block : {32, 128}) {
          layer_of(v).recipe = recipe.name, layer_of(v).format = format, layer_of(v).block = block;
          add_coded(v, all);
        }
      }
    }
  }
  layer_of(v) = {};
  for (const Format format : {Format::e4m3, Format::e5m2}) {
    v.dtype = format;
    all.push_back(v);
  }
  return all;
}

void check_aggregate(const Case& c) {
  const LayerCase& own = layer_case(c);
  check_window(c);
  require(c.experts.empty() && c.stride == 0, "aggregate has neither expert offsets nor a stride");
  require(c.variant.dtype == Format::bf16, "y is bf16");
  require(own.y_rows >= 0 && own.y_rows <= kMostCaseRows, "y is 0 to 2^30 rows");
  require(own.most >= 0 && (c.rows == 0 || own.most <= kMostCaseRows / c.rows),
          "k is 0 or more, and slots at most 2^30");
  require(own.drops >= 0 && own.drops <= 100, "drops is a percentage");
}

void check_swiglu(const Case& c) {
  const LayerCase& own = layer_case(c);
  check_window(c);
  require(own.y_rows == 0 && own.most == 0 && own.drops == 0, "y, k and drops go with aggregate");
  require(c.variant.dtype == Format::bf16 || c.variant.dtype == Format::e4m3 || c.variant.dtype == Format::e5m2,
          "h is bf16, or codes in e4m3 or e5m2");
  require(!has_coded_h(c.variant) || c.stride == 0, "codes of h have no stride");
  const LayerVariant& v = layer_of(c.variant);
  require(v.outputs >= 1 && v.outputs <= 7, "outputs is values, rows, columns or several of them");
  require(!writes_codes(c.variant) || v.block == 32 || v.block == 128, "block is 32 or 128");
  require(spec(v.format).bits == 8 && spec(v.scaled).bits == 8, "codes are of a byte");
}

// Simpler cases in place of a failing one: windows of its matrices, the place that differs first, then smaller ones.

namespace {

// Gates that are numbered row by row stay those that they are.
void move(Case& n, std::int64_t row, std::int64_t col) {
  if (n.data == Data::every_word) {
    n.seed += static_cast<std::uint64_t>(row * n.cols + col);
  } else {
    layer_case(n).first_row += row, layer_case(n).first_col += col;
  }
}

// The row, the element or the block's beginning alone.
void windows(const Case& c, const Finding& finding, SimplerCases& simpler) {
  for (const Plant& p : finding.relevant) {
    const std::int64_t col = std::max<std::int64_t>(0, p.col);
    for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{32}, std::int64_t{128}}) {
      for (const std::int64_t cols : {std::int64_t{1}, std::int64_t{32}, std::int64_t{128}, c.cols}) {
        if (p.row >= c.rows || col >= c.cols) continue;
        simpler.with([&](Case& n) {
          if (cols != c.cols) move(n, p.row, col), n.cols = std::min(cols, c.cols - col);
          if (cols == c.cols) move(n, p.row, 0);
          n.rows = std::min(rows, c.rows - p.row);
          n.experts.clear(), n.stride = 0, n.threads = 0, n.misaligned = {};
        });
      }
    }
  }
}

}  // namespace

std::vector<Case> simpler_steps(const Case& c, const Finding& finding) {
  SimplerCases simpler(c, fit_experts);
  const LayerCase& own = layer_case(c);
  if (c.rows > 1 || c.cols > 1) windows(c, finding, simpler);
  simpler.with([](Case& n) { n.experts.clear(); });
  simpler.fewer_experts({0, 1, c.rows / 2});
  simpler.plainer_call();
  if (c.rows > 1) simpler.with([](Case& n) { move(n, n.rows / 2, 0), n.rows -= n.rows / 2; });
  simpler.fewer_rows();
  simpler.fewer_cols();
  for (const std::int64_t rows : smaller_extents(own.y_rows))
    simpler.with([&](Case& n) { layer_case(n).y_rows = rows; });
  for (const std::int64_t most : smaller_extents(own.most)) simpler.with([&](Case& n) { layer_case(n).most = most; });
  simpler.with([](Case& n) { layer_case(n).drops = 0; });
  simpler.plainer_data();
  simpler.with([](Case& n) { layer_case(n).first_row = 0; });
  simpler.with([](Case& n) { layer_case(n).first_col = 0; });
  if (c.data != Data::every_word) simpler.first_seed();
  return simpler.take();
}

}  // namespace mxcheck
