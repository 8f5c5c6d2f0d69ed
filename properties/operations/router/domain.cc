// The domain of the routers' operations: to 131,072 tokens, 1 to 512 experts, tiles to 512.

#include "properties/operations/router/operation.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "numerics/error.h"
#include "properties/core/domain/usual_domain.h"
#include "properties/core/input.h"
#include "properties/core/limits.h"
#include "properties/core/simpler.h"
#include "properties/core/statement.h"
#include "properties/operations/router/fields.h"
#include "reference/router/any_order.h"
#include "reference/router/router.h"
#include "reference/router/token_rounding.h"

namespace mxcheck {
namespace {

constexpr std::array<std::int64_t, 20> kTokens{0,  1,  2,   3,   8,   9,   16,   17,   32,    33,
                                               64, 65, 128, 129, 256, 512, 1024, 4096, 16384, 65537};
constexpr std::int64_t kMostTokens = 131'072;
constexpr std::array<std::int64_t, 6> kLogits{0, 1000, 10'000, 50'000, 250'000, 1'000'000};
constexpr std::array<std::int64_t, 12> kTopK{0, 1, 2, 3, 4, 5, 8, 9, 16, 17, 33, 65};
constexpr std::array<std::int64_t, 9> kGroups{1, 2, 3, 4, 5, 8, 9, 16, 17};
constexpr std::array<std::int64_t, 17> kTiles{1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65, 128, 129, 256, 257};
constexpr std::array<float, 9> kScales{1, 2.5F, 0.5F, 1.0F / 3, 0, -0.0F, -1.5F, 0x1p-140F, 0x1p120F};
constexpr std::array<std::int64_t, 4> kDrops{0, 1, 51, 100};
constexpr std::array<std::int64_t, 8> kRagged{1, 8, 9, 17, 33, 65, 129, 257};
constexpr std::array<std::int64_t, 3> kMasked{0, 1, 51};
constexpr std::int64_t kMostRandomLogits = 6'000;  // exp, correctly rounded, takes its time

// none, 1, below the fair share, the fair share, above it, all tokens.
std::int64_t capacity_kind(const Case& c) {
  const std::int64_t capacity = route_case(c).capacity;
  const std::int64_t fair = c.rows * route_case(c).top_k / c.cols;
  if (capacity <= 1) return capacity;
  if (capacity >= c.rows) return 5;
  return capacity < fair ? 2 : capacity == fair ? 3 : 4;
}

std::int64_t draw_capacity(std::int64_t kind, const Case& c, Draw& draw) {
  const std::int64_t fair = c.rows * route_case(c).top_k / c.cols;
  switch (kind) {
    case 0:
    case 1: return kind;
    case 2: return draw.between(2, std::max<std::int64_t>(2, fair - 1));
    case 3: return fair;
    case 4: return draw.between(fair + 1, std::max(fair + 1, c.rows - 1));
    default: return c.rows + draw.between(0, 5);
  }
}

// 0, what fits into half of its bits, and more.
std::int64_t size_kind(std::uint64_t value, int bits) { return value == 0 ? 0 : value >> (bits / 2) == 0 ? 1 : 2; }
std::uint64_t draw_sized(std::int64_t kind, int bits, Draw& draw) {
  const std::uint64_t word = draw.word() >> (64 - bits);
  if (kind == 0) return 0;
  const std::uint64_t half = std::uint64_t{1} << (bits / 2);
  return kind == 1 ? std::max<std::uint64_t>(1, word % half) : word | half << (bits / 2 - 1);
}

// The number of the one with these bits; kNotOnAxis for another.
std::int64_t number_of_scale(const Case& c) {
  const auto bits = std::bit_cast<std::uint32_t>(route_case(c).scale);
  const auto found = std::ranges::find(kScales, bits, [](float scale) { return std::bit_cast<std::uint32_t>(scale); });
  return found == kScales.end() ? kNotOnAxis : found - kScales.begin();
}

TokenRoundingRule rule_of(const Variant& v) { return token_rounding_rule_named(route_of(v).rule); }
bool domain_has_tile(const Variant& v) {
  const RouteKind& kind = kind_of(v);
  return !kind.reads_logits || (kind.rounds && rounds_to_tiles(rule_of(v)));
}

class RouteDomain final : public LayeredDomain<RouteLayers> {
 public:
  explicit RouteDomain(const DomainRequest& request)
      : LayeredDomain(request, 1),
        kind_(kind_of(request.variants.front())),
        metadata_(!kind_.reads_logits),
        rounds_(kind_.rounds) {
    const auto [router, rule] = add_variant_axes();
    tokens_ = add_rows("tokens", kTokens, kMostTokens);
    experts_ = add("experts", expert_bins(), [](const Case& c) { return c.cols; });
    logits_ = add("tokens x experts", extent_bins(kLogits, std::int64_t{1} << 30),
                  [](const Case& c) { return c.elements(); });
    if (!kind_.is_loss)
      top_k_ = add("top-k", extent_bins(metadata_ ? std::span(kTopK) : std::span(kTopK).subspan(1), 512),
                   [](const Case& c) { return route_case(c).top_k; });
    if (kind_.has_router())
      every_ = add("chosen", word_bins({"some experts", "every expert"}),
                   [](const Case& c) { return route_case(c).top_k == c.cols ? 1 : 0; });
    if (std::ranges::any_of(variants(), [](const Variant& v) { return route_of(v).limited; })) add_groups();
    if (rounds_ || metadata_)
      tile_ = add("tile", extent_bins(kTiles, 512),
                  [](const Case& c) { return domain_has_tile(c.variant) ? route_case(c).tile : kNotOnAxis; });
    if (metadata_)
      ragged_ = add("slots of a ragged token, at most", extent_bins(kRagged, 512),
                    [](const Case& c) { return route_case(c).top_k == 0 ? most_ragged_slots(c) : kNotOnAxis; });
    if (std::ranges::any_of(variants(), may_mask))
      masked_ = add("experts with a bias of -Inf, %", extent_bins(kMasked, 90), [](const Case& c) {
        return may_mask(c.variant) ? std::int64_t{route_case(c).masked} : kNotOnAxis;
      });
    if (rounds_) add_rounding();
    if (!metadata_) add_scale();
    if (kind_.name == kBalanceLoss.name)
      loads_ = add("loads", word_bins({"equal", "of one expert", "drawn", "beyond 32 bits"}),
                   [](const Case& c) { return static_cast<std::int64_t>(route_case(c).loads); });
    if (!kind_.chooses && !kind_.is_loss)
      drops_ = add("dropped routes, %", extent_bins(kDrops, 100), [](const Case& c) { return route_case(c).drops; });
    if (!metadata_ && statement().strides) add_gap();
    const auto width = [](const Variant& v) { return static_cast<std::int64_t>(value_bytes(v.dtype)); };
    const auto first_width = [=](const Variant& v) { return kind_of(v).reads_logits ? width(v) : 4; };
    const auto output_width = [=](const Variant& v) {
      return kind_of(v).has_gradient && !kind_of(v).is_loss ? width(v) : 4;
    };
    const auto last_width = [=](const Variant& v) { return kind_of(v).is_loss ? width(v) : 4; };
    add_place("first input past a multiple of 64 bytes", {false, 0, 0}, first_width);
    if (kind_.name != kZLoss.name) add_place("other inputs past it", {false, 1, 3}, 1, true);
    add_place("first output past it", {true, 0, 0}, output_width);
    add_place("other outputs past it", {true, 1, 3}, last_width);
    add_threads();
    add_data();
    // A row in registers, in shared memory or in passes by the experts, a selection network by top-k, warps by tokens,
    // each compiled for a variant; rounding by its rule over counts of as many experts as share a tile.
    interact({router, tokens_, experts_, top_k_, loads_});
    if (rounds_) interact({rule, experts_, tile_});
    if (metadata_) interact({tokens_, experts_, tile_});
    add_layers(RouteLayers(limits(), kind_));
  }

  [[nodiscard]] std::int64_t most_work_of_triples() const override { return most_work(Suite::quick) / 4; }
  [[nodiscard]] std::string family_of(const Variant& v) const override {
    return route_of(v).router + (route_of(v).limited ? ", group-limited" : "");
  }
  [[nodiscard]] std::int64_t small_work() const override {
    return metadata_ ? 20'000 : kind_.is_loss ? kMostRandomLogits / 2 : kMostRandomLogits;
  }
  [[nodiscard]] std::int64_t most_work(Suite suite) const override {
    return std::int64_t{1} << ((suite == Suite::quick ? 19 : 22) - (kind_.is_loss ? 2 : 0));  // exact sums take longer
  }

 protected:
  [[nodiscard]] std::int64_t work_of(const Case& c) const override {
    const std::int64_t slots =
        c.rows * (metadata_ && route_case(c).top_k == 0 ? most_ragged_slots(c) : route_case(c).top_k);
    const std::int64_t padding = domain_has_tile(c.variant) ? c.cols * route_case(c).tile / 8 : 0;
    return std::max({c.rows * std::max(metadata_ ? 1 : c.cols, c.stride), slots, padding});
  }

  bool fill(Case& c, const Bins& wanted, std::int64_t most, int attempt, Draw& draw) const override {
    const bool high = seed_ >= 0 && (is_wanted(wanted, seed_) ? bin(wanted, seed_) == 1 : draw.chance(20));
    c.seed = high ? draw.word() | std::uint64_t{1} << 63 : draw.word() >> 16;
    if (!draw_shape(c, wanted, most, attempt, draw)) return false;
    if (!kind_.is_loss && !draw_choice(c, wanted, draw)) return false;
    if (rounds_) draw_rounding(c, wanted, draw);
    if (domain_has_tile(std::as_const(c).variant) && (is_wanted(wanted, tile_) || !rounds_ || draw.chance(90)))
      route_case(c).tile = draw_small_value(wanted, tile_, draw);
    draw_options(c, wanted, draw);
    return true;
  }

 private:
  // The axes of the router and of the rule.
  std::pair<int, int> add_variant_axes() {
    const auto flag = [](bool holds) { return std::string(holds ? "yes" : "no"); };
    const int router = add_of_variant("variant", [](const Variant& v) { return route_of(v).router; });
    add_of_variant("x", [](const Variant& v) { return std::string(spec(v.dtype).name); });
    add_of_variant("nan", [](const Variant& v) { return route_of(v).nan_last ? "last" : "refuse"; });
    add_of_variant("bias", [=](const Variant& v) { return flag(route_of(v).bias); });
    add_of_variant("group-limited", [=](const Variant& v) { return flag(route_of(v).limited); });
    const int rule = add_of_variant("rule", [](const Variant& v) { return route_of(v).rule; });
    add_of_variant("weights", [](const Variant& v) { return route_of(v).renormalize ? "renorm" : "raw"; });
    return {router, rule};
  }
  std::vector<Bin> expert_bins() const {
    std::vector<Bin> bins;
    for (const Bin& b : expert_count_bins()) {
      const std::int64_t starts[] = {b.low};
      for (Bin& cut : extent_bins(starts, b.high, limits().cols_multiple, limits().max_cols))
        bins.push_back(std::move(cut));
    }
    return bins;
  }
  void add_groups() {
    groups_ = add("groups", extent_bins(kGroups, 32),
                  [](const Case& c) { return route_of(c.variant).limited ? route_case(c).groups : kNotOnAxis; });
    kept_ = add("groups kept", word_bins({"one", "some", "all"}), [](const Case& c) {
      const RouteCase& own = route_case(c);
      if (!route_of(c.variant).limited) return kNotOnAxis;
      return std::int64_t{own.groups_kept == own.groups ? 2 : own.groups_kept == 1 ? 0 : 1};
    });
  }
  void add_rounding() {
    capacity_ = add(
        "capacity", word_bins({"none", "1", "below the fair share", "the fair share", "above it", "all tokens"}),
        [](const Case& c) { return takes_capacity(rule_of(c.variant)) && c.cols > 0 ? capacity_kind(c) : kNotOnAxis; });
    seed_ =
        add("seed", word_bins({"below 2^48", "from 2^63"}), [](const Case& c) { return c.seed >> 48 == 0 ? 0 : 1; });
    step_ = add("step", word_bins({"0", "below 2^32", "from 2^63"}),
                [](const Case& c) { return size_kind(route_case(c).step, 64); });
    layer_ = add("layer", word_bins({"0", "below 2^16", "from 2^31"}),
                 [](const Case& c) { return size_kind(route_case(c).layer, 32); });
  }
  void add_scale() {
    std::vector<std::string> texts;
    for (const float scale : kScales) texts.push_back(fmt::format("{}", scale));
    scale_ = kind_.is_loss ? add("coefficient", word_bins(texts), number_of_scale)
                           : add_option("scale", word_bins(texts), number_of_scale);
  }

  bool draw_shape(Case& c, const Bins& wanted, std::int64_t most, int attempt, Draw& draw) const {
    const ExtentRange rows{small_range(wanted, tokens_, draw), limits().rows_multiple, 32};
    ExtentRange cols{small_range(wanted, experts_, draw), limits().cols_multiple, 8};
    Bin product = range(wanted, logits_);
    product.high =
        std::min(product.high, is_wanted(wanted, logits_) || attempt >= 5 ? most : std::min(most, small_work()));
    if (metadata_ && !is_wanted(wanted, logits_)) product.high = std::numeric_limits<std::int64_t>::max() / 2;
    return draw_extents(c, rows, cols, product, attempt, draw) && c.cols >= 1;
  }

  void draw_masked(Case& c, const Bins& wanted, Draw& draw) const {
    if (masked_ < 0 || !may_mask(std::as_const(c).variant)) return;
    if (is_wanted(wanted, masked_) || draw.chance(10))
      route_case(c).masked = static_cast<int>(draw_value(wanted, masked_, draw));
  }

  // Groups, those kept, and top-k.
  bool draw_choice(Case& c, const Bins& wanted, Draw& draw) const {
    std::int64_t most = c.cols;
    if (route_of(std::as_const(c).variant).limited) {
      const Bin allowed = is_wanted(wanted, groups_) ? range(wanted, groups_) : Bin{1, 32, {}};
      std::vector<std::int64_t> divisors;
      for (std::int64_t g = allowed.low; g <= std::min(c.cols, allowed.high); ++g) {
        if (c.cols % g == 0) divisors.push_back(g);
      }
      if (divisors.empty()) return false;
      const std::int64_t groups = draw.pick(divisors);
      const std::int64_t kind = draw_kind(wanted, kept_, 3, draw);
      const std::int64_t kept = kind == 2 ? groups : kind == 0 || groups < 3 ? 1 : draw.between(2, groups - 1);
      route_case(c).groups = groups, route_case(c).groups_kept = kept;
      most = kept * (c.cols / groups);
    }
    if (metadata_) most = 512;
    const Bin allowed = small_range(wanted, top_k_, draw);
    const bool every = is_wanted(wanted, every_) ? bin(wanted, every_) == 1 : every_ >= 0 && draw.chance(8);
    std::int64_t top_k = draw_extent(allowed.low, std::min(allowed.high, most), 1, 1, draw).value_or(most);
    if (every) top_k = most;
    if (is_wanted(wanted, ragged_)) top_k = 0;
    route_case(c).top_k = top_k;
    if (metadata_ && top_k == 0 && (is_wanted(wanted, ragged_) || draw.chance(30)))
      route_case(c).ragged = static_cast<int>(draw_small_value(wanted, ragged_, draw));
    return metadata_ || top_k >= 1;
  }

  void draw_rounding(Case& c, const Bins& wanted, Draw& draw) const {
    if (takes_capacity(rule_of(c.variant)))
      route_case(c).capacity = draw_capacity(draw_kind(wanted, capacity_, 6, draw), c, draw);
    route_case(c).step = draw_sized(draw_kind(wanted, step_, 3, draw), 64, draw);
    route_case(c).layer = static_cast<std::uint32_t>(draw_sized(draw_kind(wanted, layer_, 3, draw), 32, draw));
  }

  void draw_options(Case& c, const Bins& wanted, Draw& draw) const {
    if (scale_ >= 0 && (is_wanted(wanted, scale_) || draw.chance(kind_.is_loss ? 80 : 20)))
      route_case(c).scale = kScales[static_cast<std::size_t>(draw_value(wanted, scale_, draw))];
    if (drops_ >= 0 && (is_wanted(wanted, drops_) || draw.chance(40)))
      route_case(c).drops = static_cast<int>(draw_value(wanted, drops_, draw));
    if (loads_ >= 0) route_case(c).loads = static_cast<Loads>(draw_value(wanted, loads_, draw));
    draw_gap(c, wanted, draw);
    draw_places(c, wanted, draw);
    draw_threads(c, wanted, draw);
    draw_data(c, wanted, draw);
    draw_masked(c, wanted, draw);
  }

  const RouteKind& kind_;
  bool metadata_, rounds_;
  int tokens_ = -1, experts_ = -1, logits_ = -1, top_k_ = -1, every_ = -1, groups_ = -1, kept_ = -1, tile_ = -1;
  int capacity_ = -1, seed_ = -1, step_ = -1, layer_ = -1, scale_ = -1, drops_ = -1, loads_ = -1, ragged_ = -1,
      masked_ = -1;
};

}  // namespace

std::unique_ptr<Domain> route_domain(const DomainRequest& request) { return std::make_unique<RouteDomain>(request); }

namespace {

constexpr std::int64_t kLayersMostTokens = 4096;  // of a step of training on one device
constexpr std::int64_t kShare = 16;               // of the suite's most logits: there are hundreds of these cases
constexpr std::int64_t kMostGroups = 32;

// The operation's gradient has neither bias nor groups.
bool is_own_router(const Variant& v, const LayerRouter& router) {
  if (route_of(v).router != router.variant) return false;
  return kind_of(v).has_gradient || (route_of(v).bias == router.bias && route_of(v).limited == (router.groups > 1));
}

// Groups that divide the layer's experts, and kept ones that hold its active ones.
void draw_groups_of(const ProductionLayer& layer, RouteCase& c, Draw& draw) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t g = 1; g <= std::min(kMostGroups, layer.experts); ++g) {
    if (layer.experts % g == 0) divisors.push_back(g);
  }
  c.groups = draw.pick(divisors);
  const std::int64_t size = layer.experts / c.groups;
  c.groups_kept = draw.between((layer.active + size - 1) / size, c.groups);
}

}  // namespace

RouteLayers::RouteLayers(const OperationInfo& limits, const RouteKind& kind) : limits_(limits) {
  for (const ProductionLayer& layer : production_layers()) {
    if (layer.experts % limits.cols_multiple != 0 || (limits.max_cols > 0 && layer.experts > limits.max_cols)) continue;
    const std::string experts = fmt::format("{} experts", layer.experts);
    uses_.push_back(
        {layer.model, kind.is_loss ? experts : fmt::format("{} of {}", layer.active, experts), &layer, false});
    if (kind.has_router() && layer.router)
      uses_.push_back({layer.model, "its own router, " + layer.router->variant, &layer, true});
  }
}

bool RouteLayers::is(const Use& use, const Case& c) const {
  const RouteCase& own = route_case(c);
  if (c.rows < 1 || c.cols != use.dimensions->experts) return false;
  if (own.top_k != use.dimensions->active && !is_loss(c.variant)) return false;
  if (!use.own_router) return true;
  const LayerRouter& router = *use.dimensions->router;
  const bool grouped =
      !route_of(c.variant).limited || (own.groups == router.groups && own.groups_kept == router.groups_kept);
  return is_own_router(c.variant, router) && grouped && own.scale == router.scale;
}

std::optional<Case> RouteLayers::at(const Use& use, Case drawn, std::int64_t most, Draw& draw) const {
  const ProductionLayer& layer = *use.dimensions;
  if (use.own_router && !is_own_router(drawn.variant, *layer.router)) return std::nullopt;
  const std::int64_t multiple = limits_.rows_multiple;
  std::int64_t high = std::max(multiple, std::min(kLayersMostTokens, most / kShare / layer.experts));
  if (limits_.max_rows > 0) high = std::min(high, limits_.max_rows);
  const auto tokens = draw_extent(1, high, multiple, 32, draw);
  if (!tokens) return std::nullopt;
  const std::int64_t gap = std::max<std::int64_t>(0, drawn.stride - drawn.cols);
  drawn.rows = *tokens, drawn.cols = layer.experts;
  drawn.stride = gap == 0 ? 0 : drawn.cols + gap;
  RouteCase& own = route_case(drawn);
  if (!is_loss(drawn.variant)) own.top_k = layer.active;
  if (route_of(std::as_const(drawn).variant).limited) draw_groups_of(layer, own, draw);
  if (!use.own_router) return drawn;
  own.scale = layer.router->scale;
  if (own.groups != 0) own.groups = layer.router->groups, own.groups_kept = layer.router->groups_kept;
  return drawn;
}

// The variants of routers, and the cases that no call can express.

namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 30;  // rows and slots, which are int32
constexpr std::int64_t kMostTile = std::int64_t{1} << 20;

void require(bool holds, const char* what) {
  if (!holds) throw Error(ErrorKind::usage, std::string("a case of a router: ") + what);
}

void check_loss(const Case& c) {
  const RouteVariant& v = route_of(c.variant);
  const RouteCase& own = route_case(c);
  require(v.router.empty() && v.rule.empty() && !v.nan_last && !v.bias && !v.limited && own.top_k == 0 &&
              own.groups == 0 && own.groups_kept == 0 && own.drops == 0,
          "a loss has neither a variant nor routes");
  require(c.cols >= 1 && c.rows <= kMostRows / c.cols, "there is an expert, and no more logits than int32 can count");
}

void check_metadata(const Case& c) {
  const RouteCase& own = route_case(c);
  require(c.plants.empty() && c.stride == 0, "route_metadata has neither plants nor a stride");
  require(own.top_k >= 0 && c.cols >= 1, "k is 0 or more, and there is an expert");
  require(own.ragged >= 0 && own.ragged <= kMostRows, "ragged is the number of slots that a token has at most");
  const std::int64_t width = own.top_k == 0 ? most_ragged_slots(c) : own.top_k;
  require(c.rows <= kMostRows / width && c.cols <= kMostRows / own.tile, "more slots or rows than int32 can count");
}

}  // namespace

std::vector<Variant> askable_routes(const std::string& operation) {
  std::vector<Variant> all;
  Variant v{operation};
  const RouteKind& kind = kind_of(v);
  if (!kind.reads_logits) return {v};
  if (kind.is_loss) return {v, {operation, Format::fp32, v.own}};
  const auto add_rules = [&] {
    if (!kind.rounds) return all.push_back(v);
    for (const TokenRoundingRuleSpec& rule : all_token_rounding_rules()) {
      route_of(v).rule = rule.name;
      for (const bool renormalize : {true, false}) {
        route_of(v).renormalize = renormalize;
        if (renormalize || rule.rule != TokenRoundingRule::none) all.push_back(v);  // whose weights are token choice's
      }
    }
  };
  for (const RouterVariant& router : all_router_variants()) {
    if (!promises_bits(v) && !has_weight_ranges(router)) continue;
    route_of(v).router = router.name;
    for (const Format dtype : {Format::bf16, Format::fp32}) {
      v.dtype = dtype;
      for (const bool last : {false, true}) {
        route_of(v).nan_last = last;
        for (const int options : {0, 1, 2, 3}) {
          if (!kind.chooses && options != 0) continue;
          route_of(v).bias = (options & 1) != 0, route_of(v).limited = (options & 2) != 0;
          add_rules();
        }
      }
    }
  }
  return all;
}

void check_route(const Case& c) {
  const RouteVariant& v = route_of(c.variant);
  const RouteCase& own = route_case(c);
  require(c.experts.empty() && c.gather == 0, "there are no expert offsets and no gathered rows");
  require(c.variant.dtype == Format::fp32 || c.variant.dtype == Format::bf16, "logits are fp32 or bf16");
  require(own.tile >= 1 && own.tile <= kMostTile && own.capacity >= 0 && own.drops >= 0 && own.drops <= 100,
          "tile is at least 1 and at most 2^20, capacity at least 0, drops a percentage");
  require(std::isfinite(own.scale), "scale is a number");
  require(own.masked >= 0 && own.masked <= 100 && (own.masked == 0 || may_mask(c.variant)),
          "masked is a percentage, of a router with a bias that takes infinities");
  require(own.loads == Loads::equal || c.variant.operation == kBalanceLoss.name, "loads are of route_balance_loss");
  const RouteKind& kind = kind_of(c.variant);
  if (!kind.reads_logits) return check_metadata(c);
  if (kind.is_loss) return check_loss(c);
  require(!v.router.empty(), "variant is missing");
  require(kind.rounds == !v.rule.empty(), "rule goes with route_round");
  require(own.top_k >= 1 && own.top_k <= c.cols, "k is 1 to the number of experts");
  require(v.limited ? own.groups >= 1 && c.cols % own.groups == 0 && own.groups_kept >= 1 &&
                          own.groups_kept <= own.groups && own.top_k <= own.groups_kept * (c.cols / own.groups)
                    : own.groups == 0 && own.groups_kept == 0,
          "groups and kept go with limited=1; groups divide the experts, and those kept hold k of them");
  require(c.cols <= kMostRows / own.tile && (c.rows == 0 || own.top_k <= kMostRows / c.rows) &&
              (c.rows == 0 || c.cols <= kMostRows / c.rows),
          "more rows than int32 can count");
}

bool is_route_option(const Case& c) {
  return (route_case(c).scale != 1 && !is_loss(c.variant)) || c.stride > c.cols || route_case(c).top_k > 16;
}

// The limits that a router's case must keep to, and simpler cases in place of a failing one.

void fit_route(Case& c) {
  route_case(c).tile = std::max<std::int64_t>(1, route_case(c).tile);
  c.cols = std::max<std::int64_t>(1, c.cols);
  if (!reads_logits(c.variant)) return;
  if (is_loss(c.variant)) {
    route_case(c).top_k = 0;
    return;
  }
  std::int64_t most = c.cols;
  if (route_of(c.variant).limited) {
    route_case(c).groups = std::clamp<std::int64_t>(route_case(c).groups, 1, c.cols);
    while (c.cols % route_case(c).groups != 0) --route_case(c).groups;
    route_case(c).groups_kept = std::clamp<std::int64_t>(route_case(c).groups_kept, 1, route_case(c).groups);
    most = route_case(c).groups_kept * (c.cols / route_case(c).groups);
  }
  route_case(c).top_k = std::clamp<std::int64_t>(route_case(c).top_k, 1, most);
}

Case route_corner(const Variant& v, std::int64_t tokens, std::int64_t experts, std::int64_t top_k, Data data,
                  std::uint64_t seed) {
  Case c;
  c.variant = v;
  c.rows = tokens, c.cols = experts, route_case(c).top_k = top_k, c.data = data, c.seed = seed;
  if (route_of(v).limited) route_case(c).groups = 4, route_case(c).groups_kept = 2;
  fit_route(c);
  return c;
}

std::vector<Case> simpler_routes(const Case& c, const Finding& finding) {
  SimplerCases simpler(c, [](Case& n) {
    fit_route(n);
    std::erase_if(n.plants, [&](const Plant& p) { return p.row >= n.rows || p.col >= n.cols; });
  });
  // 1, halves, one less: whatever the threshold, it is found in few steps.
  const auto shrink = [&](std::int64_t value, std::int64_t least, auto set) {
    if (value <= least) return;
    for (const std::int64_t n : {least, value / 8, value / 4, value / 2, value - value / 4, value - 1}) {
      if (n >= least && n < value) simpler.with([&](Case& to) { set(to, n); });
    }
  };
  const auto shrink_own = [&](std::int64_t RouteCase::*field, std::int64_t least) {
    shrink(route_case(c).*field, least, [field](Case& n, std::int64_t to) { route_case(n).*field = to; });
  };
  if (c.data != Data::zeros && !finding.relevant.empty() && reads_logits(c.variant)) {
    simpler.with([&](Case& n) {  // the token alone, its logits planted
      n.data = Data::zeros, n.plants = finding.relevant, n.rows = 1, n.stride = 0, n.threads = 0;
      for (Plant& p : n.plants) p.row = 0;
    });
    simpler.with([&](Case& n) { n.data = Data::zeros, n.plants = finding.relevant; });
  }
  shrink(c.rows, 1, [](Case& n, std::int64_t to) { n.rows = to; });
  shrink(c.cols, 1, [](Case& n, std::int64_t to) { n.cols = to; });
  shrink_own(&RouteCase::top_k, 1);
  if (route_case(c).top_k == 0) simpler.with([](Case& n) { route_case(n).top_k = 1; });
  shrink_own(&RouteCase::tile, 1);
  shrink_own(&RouteCase::capacity, 0);
  shrink_own(&RouteCase::groups, 1);
  shrink_own(&RouteCase::groups_kept, 1);
  simpler.plainer_call();
  simpler.with([](Case& n) { route_case(n).scale = 1; });
  simpler.with([](Case& n) { route_case(n).step = 0; });
  simpler.with([](Case& n) { route_case(n).layer = 0; });
  simpler.with([](Case& n) { route_case(n).drops = 0; });
  simpler.with([](Case& n) { route_case(n).ragged = 0; });
  simpler.with([](Case& n) { route_case(n).masked = 0; });
  simpler.with([](Case& n) { route_case(n).loads = Loads::equal; });
  simpler.plainer_data();
  for (std::size_t i = 0; i < c.plants.size(); ++i)
    simpler.with([&](Case& n) { n.plants.erase(n.plants.begin() + static_cast<std::ptrdiff_t>(i)); });
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    if (c.seed > seed) simpler.with([&](Case& n) { n.seed = seed; });
  }
  return simpler.take();
}

}  // namespace mxcheck
