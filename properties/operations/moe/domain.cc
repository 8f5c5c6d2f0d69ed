// The domain of whole layers: to 4,096 tokens, 2,048 columns, 512 experts, 16 slots a token. What a case may cost is
// bounded tightly, for the reference multiplies nine GEMMs bit by bit: bins that no such case can be in are left out.

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>

#include "numerics/error.h"
#include "properties/core/domain/usual_domain.h"
#include "properties/core/limits.h"
#include "properties/core/simpler.h"
#include "properties/core/statement.h"
#include "properties/operations/moe/operation.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kUnit = 64;  // rows of an expert: a tile's
constexpr std::array<std::int64_t, 12> kTokens{0, 1, 2, 9, 32, 33, 65, 128, 129, 300, 1024, 2048};
constexpr std::int64_t kMostTokens = 4096;
constexpr std::array<std::int64_t, 10> kWidths{8, 32, 33, 64, 65, 128, 129, 256, 512, 1024};
constexpr std::int64_t kMostWidth = 2048;
constexpr std::array<std::int64_t, 6> kSlots{0, 1, 2, 3, 8, 9};
constexpr std::int64_t kMostSlots = 16;
constexpr std::array<std::int64_t, 9> kExpertCounts{1, 2, 3, 8, 9, 17, 33, 65, 129};
constexpr std::array<std::int64_t, 3> kDrops{0, 1, 51};
// The work of small cases: those of laws and conduct, called up to a hundred times each, and those compared with the
// reference: 2 to 8 ms of its time. A CUDA library, which may take multiples of 128 alone, has larger ones, and does
// not compute them as slowly.
constexpr std::int64_t kSmallWork = std::int64_t{1} << 21;
constexpr std::int64_t kSmallEqualityWork = std::int64_t{1} << 23;
constexpr std::int64_t kSmallCudaWork = std::int64_t{1} << 25;

// The bin of 128 alone, which every library takes.
int plain_width(const std::vector<Bin>& bins) {
  const auto is_it = [](const Bin& bin) { return bin.low == 128 && bin.high == 128; };
  const auto found = std::find_if(bins.begin(), bins.end(), is_it);
  return found == bins.end() ? kAnyBin : static_cast<int>(found - bins.begin());
}

class MoeDomain final : public UsualDomain {
 public:
  explicit MoeDomain(const DomainRequest& request) : UsualDomain(request, kUnit) {
    const int recipe = add_of_variant("recipe", [](const Variant& v) { return moe_of(v).recipe; });
    add_of_variant("gate and up",
                   [](const Variant& v) { return moe_of(v).gate_up == MXCHECK_HALVES ? "halves" : "interleaved"; });
    tokens_ = add_rows("tokens", kTokens, kMostTokens);
    const std::vector<Bin> widths = extent_bins(kWidths, kMostWidth, limits().cols_multiple, limits().max_cols);
    cols_ = add_option(
        "d", widths, [](const Case& c) { return c.cols; }, plain_width(widths));
    const std::vector<Bin> all_widths = extent_bins(kWidths, kMostWidth);
    inner_ = add_option(
        "inner", all_widths, [](const Case& c) { return moe_case(c).inner; }, plain_width(all_widths));
    add_experts(extent_bins(kExpertCounts, 512));
    k_ = add("slots of a token, 0 for any", extent_bins(kSlots, kMostSlots),
             [](const Case& c) { return moe_case(c).k; });
    drops_ = add("tokens with a dropped slot more, %", extent_bins(kDrops, 100),
                 [](const Case& c) { return moe_case(c).k == 0 ? moe_case(c).drops : kNotOnAxis; });
    // Few: a library may leave out tensors that are not at multiples of 16 bytes.
    add_place("first input past a multiple of 64 bytes", {false, 0, 0}, 2, true, 8);
    add_place("W1 and W2 past it", {false, 1, 2}, 2, true, 8);
    add_place("other inputs past it", {false, 3, 3}, 1, true, 8);
    add_place("outputs past it", {true, 0, 3}, 2, true, 8);
    add_threads();
    add_data();
    // GEMMs are compiled for a recipe's operands, their tiles and tails follow from the width and the experts' rows.
    interact({recipe, inner_, groups_axis()});
    set_variants();
  }

  [[nodiscard]] std::string family_of(const Variant& v) const override { return moe_of(v).recipe; }
  [[nodiscard]] std::int64_t small_work() const override {
    return cuda() ? kSmallCudaWork : statement().covers_pairs ? kSmallEqualityWork : kSmallWork;
  }
  [[nodiscard]] std::int64_t most_work(Suite suite) const override {
    return std::int64_t{1} << (suite == Suite::quick ? 27 : 28);
  }
  [[nodiscard]] std::int64_t usual_work(Suite suite) const override {
    return std::int64_t{1} << (suite != Suite::quick ? 28 : cuda() ? 26 : 24);
  }

 protected:
  [[nodiscard]] std::int64_t work_of(const Case& c) const override { return moe_work(c); }

  bool fill(Case& c, const Bins& wanted, std::int64_t most, int attempt, Draw& draw) const override {
    c.seed = draw.word() >> 16;
    draw_widths(c, wanted, attempt, draw);
    const bool is_small = attempt >= 5;
    c.rows = draw_extent_of(wanted, tokens_, is_small ? 8 : 40, limits().rows_multiple, draw);
    moe_case(c).k = is_wanted(wanted, k_)                          ? draw_value(wanted, k_, draw)
                    : is_wanted(wanted, drops_) || draw.chance(40) ? 0
                                                                   : draw.between(1, is_small ? 2 : 4);
    if (is_wanted(wanted, drops_) && moe_case(c).k != 0) return false;
    if (!draw_sizes(c, wanted, most, is_small, draw)) return false;
    if (moe_case(c).k == 0 && (is_wanted(wanted, drops_) || draw.chance(60)))
      moe_case(c).drops = static_cast<int>(draw_value(wanted, drops_, draw));
    draw_places(c, wanted, draw);
    draw_threads(c, wanted, draw);
    draw_data(c, wanted, draw);
    if (draw.chance(40)) moe_case(c).zero = static_cast<int>(draw.between(1, 4));
    return true;
  }

 private:
  // A wanted bin's value; else 1 to `most`, sometimes an end of a bin.
  [[nodiscard]] std::int64_t draw_extent_of(const Bins& wanted, int axis, std::int64_t most, std::int64_t multiple,
                                            Draw& draw) const {
    const Bin all = range(wanted, axis);
    const std::int64_t high = is_wanted(wanted, axis) ? all.high : std::min(all.high, std::max(all.low, most));
    const std::int64_t low = is_wanted(wanted, axis) ? all.low : std::min(std::max<std::int64_t>(all.low, 1), high);
    return draw_extent(low, high, multiple, kUnit, draw).value_or(all.low);
  }

  // Mostly multiples of 128, which every library takes; of those that are computed in blocks of 32, multiples of that;
  // few others.
  void draw_widths(Case& c, const Bins& wanted, int attempt, Draw& draw) const {
    const std::uint64_t kind = draw.below(100);
    const bool in_blocks_of_128 =
        layer_recipe_of(std::as_const(c).variant).gemm(LayerGemm::up).contract.find("promote") != std::string::npos;
    const std::uint64_t of_128 = !statement().covers_pairs ? 20 : in_blocks_of_128 ? 75 : 45;
    const auto one = [&](int axis, std::int64_t multiple_of_library) {
      const bool wants = is_wanted(wanted, axis);
      const Bin all = range(wanted, axis);
      std::int64_t multiple = kind < of_128 ? 128 : kind < 90 ? 32 : 8;
      if (attempt >= 5 || (wants && all.high / multiple * multiple < all.low)) multiple = 1;
      const std::int64_t most = multiple == 128 ? (kind % 5 == 0 ? 256 : 128) : 96;
      const std::int64_t high = wants ? all.high : std::min(all.high, std::max(all.low, most));
      const std::int64_t low = std::max<std::int64_t>(1, std::min(all.low, high));
      const auto drawn = draw_extent(low, high, std::max(multiple, multiple_of_library), 32, draw);
      if (drawn) return *drawn;
      return draw_extent(low, all.high, multiple_of_library, 32, draw).value_or(multiple_of_library);
    };
    c.cols = one(cols_, limits().cols_multiple);
    moe_case(c).inner = one(inner_, 1);
  }

  [[nodiscard]] bool draw_sizes(Case& c, const Bins& wanted, std::int64_t most, bool is_small, Draw& draw) const {
    const std::int64_t matrix = c.cols * moe_case(c).inner;
    const std::int64_t passes = is_moe_backward(c.variant) ? 3 : 1;
    const std::int64_t affordable = most / passes / matrix;  // of 3 rows + the experts' weights
    const Bin counts = range(wanted, experts_axis());
    const std::int64_t most_experts =
        std::min({counts.high, affordable / (kMoeWorkOfWeight + 1), is_wanted(wanted, experts_axis()) ? 512 : 9L});
    if (counts.low > most_experts) return false;
    const std::int64_t experts = draw_extent(counts.low, most_experts, 1, 1, draw).value_or(counts.low);
    std::int64_t most_rows = std::min(c.rows * experts, (affordable - kMoeWorkOfWeight * experts) / 3);
    if (moe_case(c).k > 0) most_rows = std::min(most_rows, c.rows * moe_case(c).k);
    if (is_small) most_rows = std::min<std::int64_t>(most_rows, 32);
    const std::optional<Groups> kind = wanted_groups(wanted);
    const bool needs_rows = kind.value_or(Groups::any) != Groups::none_has_rows && c.rows > 0;
    if (most_rows < (needs_rows ? 1 : 0)) return false;
    for (int tries = 0; tries < 8; ++tries) {
      const Groups one = kind.value_or(static_cast<Groups>(draw.below(kGroupKinds)));
      std::int64_t rows = draw.chance(30) ? most_rows : draw.between(0, most_rows);
      if (one == Groups::none_has_rows) rows = 0;
      if (one == Groups::one_has_all) rows = std::min(rows, c.rows);
      if (one == Groups::one_row_each) rows = std::min(rows, experts);
      if (one == Groups::whole_units) rows = rows / kUnit * kUnit;
      auto offsets = draw_groups(one, experts, rows, kUnit, draw);
      if (!offsets) continue;
      c.experts = *std::move(offsets);
      fit_moe(c);
      return true;
    }
    return false;
  }

  int tokens_ = -1, cols_ = -1, inner_ = -1, k_ = -1, drops_ = -1;
};

}  // namespace

std::unique_ptr<Domain> moe_domain(const DomainRequest& request) { return std::make_unique<MoeDomain>(request); }

// The variants of whole layers, and the cases that no call can pose.

namespace {

constexpr std::int64_t kMostCaseTokens = std::int64_t{1} << 20;
constexpr std::int64_t kMostCaseWidth = std::int64_t{1} << 20;
constexpr std::int64_t kMostRows = std::int64_t{1} << 30;  // routed, and slots, which are int32

void require(bool holds, const char* what) {
  if (!holds) throw Error(ErrorKind::usage, std::string("a case of a layer: ") + what);
}

std::int64_t ceil_of(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::vector<Variant> askable_layers(const std::string& operation) {
  std::vector<Variant> all;
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    for (const int gate_up : {MXCHECK_HALVES, MXCHECK_INTERLEAVED}) {
      Variant v{operation};
      moe_of(v).recipe = recipe.name, moe_of(v).gate_up = gate_up;
      all.push_back(std::move(v));
    }
  }
  return all;
}

// Random words make weights others at each step.
std::vector<Variant> askable_kept_weights(const std::string& operation) {
  std::vector<Variant> all;
  for (Variant& v : askable_layers(operation)) {
    const LayerRecipe& recipe = layer_recipe_of(v);
    const bool backward = is_moe_backward(v);
    const std::array<LayerGemm, 2> gemms{backward ? LayerGemm::d_down : LayerGemm::up,
                                         backward ? LayerGemm::d_up : LayerGemm::down};
    const auto has_words = [&](LayerGemm gemm) {
      return recipe.gemm(gemm).b.stochastic || recipe.gemm(gemm).b.random_signs;
    };
    if (std::any_of(gemms.begin(), gemms.end(), has_words)) continue;
    moe_of(v).keeps_weights = true;
    all.push_back(std::move(v));
  }
  return all;
}

void check_moe(const Case& c) {
  const MoeCase& own = moe_case(c);
  require(c.variant.dtype == Format::bf16, "x is bf16");
  require(c.stride == 0 && c.gather == 0 && c.plants.empty(), "there are neither strides nor gathered rows nor plants");
  require(c.rows >= 0 && c.rows <= kMostCaseTokens, "rows, the tokens, are 0 to 2^20");
  require(c.cols >= 1 && c.cols <= kMostCaseWidth && own.inner >= 1 && own.inner <= kMostCaseWidth,
          "cols and inner are 1 to 2^20");
  require(c.experts.size() >= 2, "experts are the offsets of the rows of one expert or more");
  require(moe_experts(c) <= kMostCaseWidth && moe_experts(c) * c.cols <= kMostRows / own.inner,
          "an operand has at most 2^30 elements");
  require(c.experts.front() == 0 && moe_routed(c) <= kMostRows, "experts are offsets from 0 to at most 2^30 rows");
  for (std::size_t e = 0; e + 1 < c.experts.size(); ++e) {
    const std::int64_t size = c.experts[e + 1] - c.experts[e];
    require(size >= 0 && size <= c.rows, "an expert has at most a row of each token");
  }
  require(own.k >= 0 && (c.rows == 0 || own.k <= kMostRows / c.rows), "k is 0 or more, and slots at most 2^30");
  require(own.k == 0 || moe_routed(c) <= own.k * c.rows, "k slots of each token are as many as there are rows");
  require(own.drops >= 0 && own.drops <= 100, "drops is a percentage");
  require(own.zero >= 0 && own.zero <= 7,
          "zero is 1 for the seed, 2 for the step, 3 for the layer, 4 for small numbers, 5 for all three, 6 for the "
          "largest, 7 for lower halves, or 0");
  require(own.k == 0 || own.drops == 0, "with k the slots that no row fills are the dropped ones");
}

void fit_moe(Case& c) {
  if (c.experts.size() < 2) return;
  std::int64_t end = 0;
  std::vector<std::int64_t> fitted{0};
  for (std::size_t e = 0; e + 1 < c.experts.size(); ++e) {
    end += std::clamp<std::int64_t>(c.experts[e + 1] - c.experts[e], 0, c.rows);
    fitted.push_back(end);
  }
  c.experts = std::move(fitted);
  const std::int64_t k = std::as_const(c).own.get<MoeCase>().k;
  if (k > 0 && c.rows > 0 && moe_routed(c) > k * c.rows) moe_case(c).k = ceil_of(moe_routed(c), c.rows);
}

Case moe_corner(const Variant& v, std::int64_t tokens, std::int64_t cols, std::int64_t inner,
                const std::vector<std::int64_t>& sizes, std::int64_t k, Data data, std::uint64_t seed) {
  Case c;
  c.variant = v;
  c.rows = tokens, c.cols = cols, c.data = data, c.seed = seed;
  c.experts.assign(sizes.size() + 1, 0);
  std::partial_sum(sizes.begin(), sizes.end(), c.experts.begin() + 1);
  moe_case(c).inner = inner, moe_case(c).k = k;
  if (k == 0) moe_case(c).drops = 20;
  return c;
}

// Products of three GEMMs, or of nine with those of the forward pass that makes what was kept.
std::int64_t moe_work(const Case& c) {
  const std::int64_t matrix = c.cols * moe_case(c).inner;
  const std::int64_t passes = is_moe_backward(c.variant) ? 3 : 1;
  return passes * (3 * moe_routed(c) * matrix + kMoeWorkOfWeight * moe_experts(c) * matrix + 4 * c.rows * c.cols);
}

// Simpler layers in place of a failing one: fewer experts, rows, tokens and columns, then plainer data. Every element
// is that of its place, so that what is left is what it was.

namespace {

using Sizes = std::vector<std::int64_t>;

Sizes sizes_of(const Case& c) {
  Sizes sizes;
  for (std::size_t e = 0; e + 1 < c.experts.size(); ++e) sizes.push_back(c.experts[e + 1] - c.experts[e]);
  return sizes;
}

void with_sizes(SimplerCases& simpler, const Sizes& sizes) {
  simpler.with([&](Case& n) {
    n.experts.assign(1, 0);
    for (const std::int64_t size : sizes) n.experts.push_back(n.experts.back() + size);
  });
}

void fewer_experts(const Case& c, SimplerCases& simpler) {
  const Sizes sizes = sizes_of(c);
  const std::size_t count = sizes.size();
  with_sizes(simpler, {*std::max_element(sizes.begin(), sizes.end())});
  if (count > 2) with_sizes(simpler, {sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(count / 2)});
  if (count > 2) with_sizes(simpler, {sizes.begin() + static_cast<std::ptrdiff_t>(count / 2), sizes.end()});
  if (count > 1) with_sizes(simpler, {sizes.begin() + 1, sizes.end()});
  if (count > 1) with_sizes(simpler, {sizes.begin(), sizes.end() - 1});
}

// All that an expert can lose at once, then half of it, then a row.
void fewer_rows(const Case& c, SimplerCases& simpler) {
  const Sizes sizes = sizes_of(c);
  Sizes ones = sizes;
  for (std::int64_t& size : ones) size = std::min<std::int64_t>(size, 1);
  with_sizes(simpler, ones);
  const std::size_t shown = std::min<std::size_t>(sizes.size(), 4);
  for (std::size_t e = 0; e < shown; ++e) {
    for (const std::int64_t size : {std::int64_t{0}, sizes[e] / 2, sizes[e] - 1}) {
      if (size < 0 || size >= sizes[e]) continue;
      Sizes fewer = sizes;
      fewer[e] = size;
      with_sizes(simpler, fewer);
    }
  }
}

// Multiples of 128 before others: a library may take no others.
void narrower(const Case& c, SimplerCases& simpler) {
  const auto widths = [](std::int64_t width) {
    std::vector<std::int64_t> all;
    for (const std::int64_t to : {std::int64_t{128}, std::int64_t{32}, std::int64_t{8}, std::int64_t{1}, width / 2}) {
      if (to > 0 && to < width) all.push_back(to);
    }
    return all;
  };
  for (const std::int64_t cols : widths(c.cols)) simpler.with([&](Case& n) { n.cols = cols; });
  for (const std::int64_t inner : widths(moe_case(c).inner)) simpler.with([&](Case& n) { moe_case(n).inner = inner; });
}

}  // namespace

std::vector<Case> simpler_layers(const Case& c, const Finding&) {
  if (c.experts.size() < 2) return {};
  SimplerCases simpler(c, fit_moe);
  const MoeCase& own = moe_case(c);
  fewer_experts(c, simpler);
  simpler.fewer_rows();
  narrower(c, simpler);
  fewer_rows(c, simpler);
  simpler.with([](Case& n) { n.threads = 0; });
  simpler.with([](Case& n) { n.misaligned = {}; });
  simpler.with([](Case& n) { moe_case(n).drops = 0; });
  simpler.with([](Case& n) { moe_case(n).zero = 0; });
  if (own.k > 1) simpler.with([](Case& n) { moe_case(n).k = 1; });
  if (own.k > 1) simpler.with([](Case& n) { moe_case(n).k -= 1; });
  simpler.with([](Case& n) { moe_case(n).k = 0; });
  simpler.plainer_data();
  simpler.first_seed();
  return simpler.take();
}

}  // namespace mxcheck
