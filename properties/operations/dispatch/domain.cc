// The domain of dispatch and combine: to 320 ranks, 512 experts, 16,384 tokens, 20,480 columns, 64 slots a token.

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "properties/core/domain/usual_domain.h"
#include "properties/core/layers/layers.h"
#include "properties/core/limits.h"
#include "properties/core/statement.h"
#include "properties/operations/dispatch/operation.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kUnit = 8;  // tokens of a rank
constexpr std::array<std::int64_t, 10> kTokens{0, 1, 2, 31, 32, 33, 129, 256, 1024, 4096};
constexpr std::int64_t kMostTokens = 16'384;  // corner cases have more
constexpr std::array<std::int64_t, 14> kCols{0, 1, 2, 8, 31, 32, 127, 128, 129, 256, 257, 1024, 4096, 8193};
constexpr std::int64_t kMostCols = 20'480;
constexpr std::array<std::int64_t, 10> kRanks{1, 2, 3, 4, 5, 8, 9, 17, 33, 65};
constexpr std::int64_t kMostRanks = 320;
constexpr std::int64_t kUsualRanks = 16;
constexpr std::array<std::int64_t, 9> kExperts{1, 2, 3, 8, 9, 32, 65, 129, 256};
constexpr std::int64_t kMostExperts = 512;
constexpr std::array<std::int64_t, 8> kSlots{0, 1, 2, 3, 8, 9, 17, 33};
constexpr std::int64_t kMostSlots = 64;
constexpr std::array<std::int64_t, 4> kPercents{0, 1, 51, 100};
constexpr std::int64_t kSmallWork = 20'000;

// No capacity, one row, fewer rows than an even share of the slots, as many or more.
std::int64_t even_share(const Case& c) {
  const DispatchCase& own = dispatch_case(c);
  return (c.rows * own.k + own.experts - 1) / own.experts;
}
std::int64_t capacity_kind(const Case& c) {
  const std::int64_t capacity = dispatch_case(c).capacity;
  return capacity <= 1 ? capacity : capacity < even_share(c) ? 2 : 3;
}

// Tokens of a layer of production to its experts: d columns, the active ones of all experts. A kernel is compiled for a
// width, or chosen by the number of experts.
class RoutedLayers {
 public:
  struct Use {
    std::string layer;
    std::string text;
    const ProductionLayer* dimensions = nullptr;
  };
  RoutedLayers() = default;
  explicit RoutedLayers(const OperationInfo& limits) : limits_(limits) {
    for (const ProductionLayer& layer : production_layers()) {
      if (layer.d % limits.cols_multiple != 0 || (limits.max_cols > 0 && layer.d > limits.max_cols)) continue;
      uses_.push_back(
          {layer.model, fmt::format("d = {}, {} of {} experts", layer.d, layer.active, layer.experts), &layer});
    }
  }

  [[nodiscard]] const std::vector<Use>& uses() const { return uses_; }
  [[nodiscard]] bool is(const Use& use, const Case& c) const {
    const DispatchCase& own = dispatch_case(c);
    const ProductionLayer& l = *use.dimensions;
    return c.rows >= 1 && c.cols == l.d && own.experts == l.experts && own.k == l.active;
  }
  // Without a capacity: each expert would have rows.
  [[nodiscard]] std::optional<Case> at(const Use& use, Case drawn, std::int64_t most, Draw& draw) const {
    const ProductionLayer& l = *use.dimensions;
    const std::int64_t high = std::clamp(most / (l.d * (l.active + 1)), kFewestTokens, kMostTokensOfLayer);
    const auto rows =
        draw_extent(kFewestTokens, std::max(limits_.rows_multiple, high), limits_.rows_multiple, kUnit, draw);
    if (!rows || (limits_.max_rows > 0 && *rows > limits_.max_rows)) return std::nullopt;
    drawn.rows = *rows, drawn.cols = l.d;
    DispatchCase& own = dispatch_case(drawn);
    own.experts = l.experts, own.k = l.active, own.capacity = 0;
    const auto offsets = draw_groups(Groups::any, draw.between(1, kUsualRanks), drawn.rows, kUnit, draw);
    own.ranks = offsets ? *offsets : std::vector<std::int64_t>{0, drawn.rows};
    return drawn;
  }

 private:
  static constexpr std::int64_t kFewestTokens = 3;
  static constexpr std::int64_t kMostTokensOfLayer = 8;  // there are dozens of these cases

  OperationInfo limits_;
  std::vector<Use> uses_;
};

class RoutedDomain final : public LayeredDomain<RoutedLayers> {
 public:
  explicit RoutedDomain(const DomainRequest& request) : LayeredDomain(request, kUnit) {
    const bool combines = is_combine(variants().front());
    const auto own = [](auto member) {
      return [member](const Case& c) { return std::int64_t{dispatch_case(c).*member}; };
    };
    add_of_variant("x", [](const Variant& v) { return std::string(spec(v.dtype).name); });
    if (combines) add_of_variant("weighted", [](const Variant& v) { return dispatch_of(v).weighted ? "yes" : "no"; });
    tokens_ = add_rows("tokens", kTokens, kMostTokens);
    cols_ = add_cols("cols", kCols, kMostCols);
    ranks_ = add("ranks", extent_bins(kRanks, kMostRanks), ranks_of);
    shares_ = add("tokens of ranks", word_bins(group_kind_labels()), [](const Case& c) {
      const std::vector<std::int64_t>& ranks = dispatch_case(c).ranks;
      return ranks.empty() ? kNotOnAxis : static_cast<std::int64_t>(kind_of_groups(ranks, kUnit));
    });
    experts_ = add("experts", extent_bins(kExperts, kMostExperts), own(&DispatchCase::experts));
    homes_ = add("homes of experts", word_bins({"blocks", "turns", "scattered", "one"}),
                 [](const Case& c) { return static_cast<std::int64_t>(dispatch_case(c).homes); });
    k_ = add("slots of a token, at most", extent_bins(kSlots, kMostSlots), own(&DispatchCase::k));
    drops_ = add("dropped slots, %", extent_bins(kPercents, 100), own(&DispatchCase::drops));
    hot_ = add("tokens of one hot expert, %", extent_bins(kPercents, 100), own(&DispatchCase::hot));
    capacity_ =
        add_option("rows of an expert", word_bins({"as many as it has slots", "one", "few", "many"}), capacity_kind);
    const auto width = [](const Variant& v) { return has_coded_rows(v) ? 1 : 2; };
    add_place("first input past a multiple of 64 bytes", {false, 0, 0}, width);
    add_place("other inputs past it", {false, 1, 3}, 1, true);
    add_place("first output past it", {true, 0, 0}, width);
    if (!combines) add_place("other outputs past it", {true, 1, 3}, 1, true);
    add_threads();
    add_data();
    // Ranks, experts and their homes decide together where a row goes.
    interact({ranks_, experts_, homes_});
    add_layers(RoutedLayers(limits()));
  }

  [[nodiscard]] std::string family_of(const Variant& v) const override {
    return is_combine(v)       ? (dispatch_of(v).weighted ? "weighted" : "not weighted")
           : has_coded_rows(v) ? "codes"
                               : "bf16";
  }
  [[nodiscard]] std::int64_t small_work() const override { return kSmallWork; }
  [[nodiscard]] std::int64_t most_work(Suite suite) const override {
    return std::int64_t{1} << (suite == Suite::quick ? 21 : 22);
  }
  [[nodiscard]] std::int64_t usual_work(Suite suite) const override {
    return std::int64_t{1} << (suite == Suite::quick ? 18 : 22);
  }

 protected:
  [[nodiscard]] std::int64_t work_of(const Case& c) const override { return routed_work(c); }

  bool fill(Case& c, const Bins& wanted, std::int64_t most, int attempt, Draw& draw) const override {
    c.seed = draw.word() >> 16;
    DispatchCase own;
    const bool is_small = attempt >= 5;
    own.experts = is_wanted(wanted, experts_) ? draw_value(wanted, experts_, draw) : draw.between(1, is_small ? 8 : 40);
    own.k = is_wanted(wanted, k_) ? draw_value(wanted, k_, draw) : draw.between(is_small ? 0 : 1, is_small ? 2 : 8);
    if (is_wanted(wanted, k_) && is_wanted(wanted, experts_) && own.k > own.experts) own.k = range(wanted, k_).low;
    if (own.k > own.experts && is_wanted(wanted, k_) && !is_wanted(wanted, experts_)) own.experts = own.k;
    own.k = std::min(own.k, own.experts);
    own.homes = static_cast<Homes>(draw_kind(wanted, homes_, 4, draw));
    if (is_wanted(wanted, drops_) || draw.chance(40)) own.drops = static_cast<int>(draw_value(wanted, drops_, draw));
    if (is_wanted(wanted, hot_) || draw.chance(30)) own.hot = static_cast<int>(draw_value(wanted, hot_, draw));
    if (!draw_tokens(c, own, wanted, most, attempt, draw)) return false;
    dispatch_case(c) = std::move(own);
    if (!draw_capacity(c, wanted, draw)) return false;
    draw_places(c, wanted, draw);
    draw_threads(c, wanted, draw);
    draw_data(c, wanted, draw);
    return true;
  }

 private:
  bool draw_tokens(Case& c, DispatchCase& own, const Bins& wanted, std::int64_t most, int attempt, Draw& draw) const {
    const bool any = !is_wanted(wanted, tokens_) && !is_wanted(wanted, cols_) && attempt < 5;
    const std::int64_t limit = (any ? std::min(most, kSmallWork) : most) / (own.k + 2);
    const ExtentRange rows{small_range(wanted, tokens_, draw), limits().rows_multiple, kUnit};
    const ExtentRange cols{small_range(wanted, cols_, draw), limits().cols_multiple, 32};
    if (!draw_extents(c, rows, cols, Bin{0, limit, {}}, attempt, draw)) return false;
    const std::int64_t ranks =
        is_wanted(wanted, ranks_) ? draw_value(wanted, ranks_, draw) : draw.between(1, kUsualRanks);
    for (int tries = 0; tries < 8; ++tries) {
      const auto kind = static_cast<Groups>(draw_kind(wanted, shares_, kGroupKinds, draw));
      const auto offsets = draw_groups(kind, ranks, c.rows, kUnit, draw);
      if (!offsets) continue;
      own.ranks = *offsets;
      return true;
    }
    return false;
  }

  bool draw_capacity(Case& c, const Bins& wanted, Draw& draw) const {
    DispatchCase& own = dispatch_case(c);
    const std::int64_t kind = is_wanted(wanted, capacity_) ? bin(wanted, capacity_)
                              : draw.chance(60)            ? 0
                                                           : draw.between(1, 3);
    const std::int64_t share = even_share(std::as_const(c));
    if (kind == 2 && share <= 2) {
      if (is_wanted(wanted, capacity_)) return false;
      own.capacity = 0;
      return true;
    }
    own.capacity = kind <= 1   ? kind
                   : kind == 2 ? draw.between(2, share - 1)
                               : std::max<std::int64_t>(2, share + draw.between(0, 3));
    return true;
  }

  int tokens_ = -1, cols_ = -1, ranks_ = -1, shares_ = -1, experts_ = -1, homes_ = -1, k_ = -1, drops_ = -1, hot_ = -1,
      capacity_ = -1;
};

}  // namespace

std::unique_ptr<Domain> routed_domain(const DomainRequest& request) { return std::make_unique<RoutedDomain>(request); }

}  // namespace mxcheck
