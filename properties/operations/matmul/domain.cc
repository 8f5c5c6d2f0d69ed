// The domain of matmul: m and n to 131,072 and 20,480, k to 18,432, 1 to 512 experts.

#include "properties/operations/matmul/layers.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "kernels/candidate_matmul.h"
#include "properties/core/case_text.h"
#include "properties/core/domain/usual_domain.h"
#include "properties/core/layers/layers.h"
#include "properties/core/limits.h"
#include "properties/core/simpler.h"
#include "properties/core/statement.h"
#include "properties/operations/matmul/fields.h"
#include "properties/operations/matmul/masked.h"
#include "properties/operations/matmul/operation.h"
#include "properties/operations/matmul/shown.h"
#include "reference/matmul/matmul.h"
#include "reference/matmul/operand.h"

namespace mxcheck {
namespace {

constexpr std::array<std::int64_t, 22> kRows{0,   1,   2,   8,   9,    64,   65,   128,  129,   192,   193,
                                             256, 257, 384, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65537};
constexpr std::int64_t kMostRows = 131'072;
constexpr std::array<std::int64_t, 20> kCols{0,   1,   2,   8,   9,    64,   65,   128,  129,  192,
                                             193, 256, 257, 512, 1024, 2048, 4096, 4097, 7168, 8192};
constexpr std::int64_t kMostCols = 20'480;
constexpr std::array<std::int64_t, 17> kDepth{0,   1,   32,  33,   64,   65,   128,  129,  256,
                                              257, 512, 513, 1024, 2048, 4096, 8192, 16384};
constexpr std::int64_t kMostDepth = 18'432;
constexpr std::int64_t kMostIntegerDepth = 2560;  // of matmul_of_small_integers_is_exact
constexpr std::array<std::int64_t, 6> kOutputs{0, 1000, 10'000, 50'000, 250'000, 1'000'000};
constexpr std::int64_t kMostOutputs = std::int64_t{1} << 33;
constexpr std::array<std::int64_t, 4> kMultiplications{0, 10'000, 100'000, 1'000'000};
constexpr std::int64_t kMostMultiplications = std::int64_t{1} << 45;
constexpr std::uint64_t kDistances = 8;  // of products that cancel: 1 to 128
constexpr std::int64_t kUnit = 128;      // of groups' ends
constexpr std::int64_t kBeginning = 16;  // of groups along depth within a block: 16 bytes of codes
// Making an element of A or B takes as long as so many multiplications; an output, which has no more than C to be made,
// as long as two: rows 192 and beyond meet columns 4097 and beyond in the quick suite, at a k of 1 to 5.
constexpr std::int64_t kElementWork = 8;
constexpr std::int64_t kOutputWork = 2;
constexpr std::int64_t kMostExact = std::int64_t{1} << 20;  // integers: the exact sums are slow
// Some round the products; one of these makes some products infinite.
constexpr std::array<float, 10> kAlphas{1,     0.5F,     -1,        1.0F / 3,        0,
                                        -0.0F, 0x1p100F, 0x1p-140F, -0x1.921fb6p-3F, 0x1.555556p+120F};

// The number of the one with these bits; kNotOnAxis for another.
std::int64_t number_of_alpha(const Case& c) {
  const auto bits = std::bit_cast<std::uint32_t>(matmul_case(c).alpha);
  const auto found = std::ranges::find(kAlphas, bits, [](float a) { return std::bit_cast<std::uint32_t>(a); });
  return found == kAlphas.end() ? kNotOnAxis : found - kAlphas.begin();
}

class MatmulDomain final : public LayeredDomain<MatmulLayers> {
 public:
  explicit MatmulDomain(const DomainRequest& request)
      : LayeredDomain(request, kUnit),
        contract_(parse_matmul_contract(contract_text(request.variants.front().operation))),
        integers_(std::ranges::all_of(statement().data, [](Data d) { return d == Data::codes; })) {
    const int grouping = add_variant_axes();
    m_ = add_rows("m", kRows, kMostRows);
    n_ = add_cols("n", kCols, kMostCols);
    const auto depth = [](const Case& c) { return matmul_case(c).depth; };
    k_ = add("k", extent_bins(kDepth, kMostDepth, 1, integers_ ? kMostIntegerDepth : 0), depth);
    outputs_ = add("outputs", extent_bins(kOutputs, kMostOutputs), [](const Case& c) { return c.elements(); });
    multiplications_ = add("multiplications", extent_bins(kMultiplications, kMostMultiplications),
                           [](const Case& c) { return c.elements() * matmul_case(c).depth; });
    add_experts(expert_count_bins());
    if (std::ranges::any_of(variants(), is_masked)) add_masked_axes();
    adds_ = add_option("C", word_bins({"none", "added"}), [](const Case& c) { return matmul_case(c).adds ? 1 : 0; });
    if (!contract_.from_c) {
      std::vector<std::string> texts;
      for (const float alpha : kAlphas) texts.push_back(fmt::format("{}", alpha));
      alpha_ = add_option("alpha", word_bins(texts), number_of_alpha);
    }
    // Few: a library may leave out operands that are not at multiples of 16 bytes.
    const auto width_of_a = [](const Variant& v) { return width(matmul_of(v).format); };
    const auto width_of_b = [](const Variant& v) { return width(matmul_of(v).format_b); };
    const auto width_of_d = [](const Variant& v) { return width(v.dtype); };
    add_place("a past a multiple of 64 bytes", {false, 0, 0}, width_of_a, false, 5);
    add_place("b past it", {false, 1, 1}, width_of_b, false, 5);
    add_place("other inputs past it", {false, 2, 3}, 1, true);
    add_place("d past it", {true, 0, 0}, width_of_d);
    add_threads();
    add_data();
    add_row_index(has_row_index);
    // A schedule by the kind of groups and their sizes, tiles by n, the main loop and its tail by k: kernels are chosen
    // by these together. m is the groups' business where there are any.
    interact({grouping, n_, k_, groups_axis()});
    if (masked_ >= 0) interact({grouping, n_, k_, masked_});
    add_layers(MatmulLayers(limits()));
  }

  [[nodiscard]] std::int64_t most_work_of_triples() const override { return most_work(Suite::quick); }
  [[nodiscard]] std::string family_of(const Variant& v) const override {
    constexpr std::string_view kNames[] = {"dense", "groups of rows", "groups of depth", "masked groups"};
    return std::string(kNames[matmul_of(v).groups]) + ", " + std::string(spec(matmul_of(v).format).name);
  }
  [[nodiscard]] std::int64_t small_work() const override { return integers_ ? kMostExact : std::int64_t{1} << 21; }
  [[nodiscard]] std::int64_t most_work(Suite suite) const override {
    if (integers_) return kMostExact;
    return std::int64_t{1} << (suite == Suite::quick ? 22 : 26);
  }

 protected:
  [[nodiscard]] std::int64_t work_of(const Case& c) const override {
    const int groups = matmul_of(c.variant).groups;
    const std::int64_t experts = std::max<std::int64_t>(1, groups_in(c));
    const std::int64_t depth = matmul_case(c).depth;
    const std::int64_t matrices = groups == MXCHECK_DEPTH ? 1 : experts;
    const std::int64_t read = std::max(c.rows, c.gather) * depth + c.cols * depth * matrices;
    const std::int64_t written = c.elements() * (groups == MXCHECK_DEPTH ? experts : 1);
    return std::max(c.elements() * depth, read * kElementWork + written * kOutputWork);
  }

  bool fill(Case& c, const Bins& wanted, std::int64_t most, int attempt, Draw& draw) const override {
    c.seed = draw.word() >> 16;
    const bool wants_masked = is_wanted(wanted, masked_groups_) || is_wanted(wanted, masked_);
    const bool wants_ends = is_wanted(wanted, experts_axis()) || is_wanted(wanted, groups_axis());
    const auto fits = [&](const Variant& v) { return is_masked(v) ? !wants_ends : !wants_masked; };
    for (int tries = 0; tries < 24 && !fits(std::as_const(c).variant); ++tries)
      c.variant = *draw_variant_in(wanted, draw);
    if (!fits(std::as_const(c).variant)) return false;
    if (is_masked(std::as_const(c).variant)) return fill_masked(c, wanted, most, attempt, draw);
    const bool grouped = matmul_of(std::as_const(c).variant).groups != MXCHECK_DENSE;
    if (!grouped && (is_wanted(wanted, experts_axis()) || is_wanted(wanted, groups_axis()))) return false;
    const std::int64_t experts = grouped ? draw_small_value(wanted, experts_axis(), draw) : 0;
    const std::optional<Groups> kind = wanted_groups(wanted);
    if (!draw_shape(c, wanted, most, attempt, experts, kind, draw)) return false;
    if (grouped && !draw_ends(c, experts, kind, draw)) return false;
    return draw_options(c, wanted, draw);
  }

 private:
  static std::int64_t width(Format format) { return static_cast<std::int64_t>(code_width(format)); }

  static bool has_row_index(const Variant& v) {
    return matmul_of(v).groups == MXCHECK_DENSE || matmul_of(v).groups == MXCHECK_ROWS;
  }

  void add_masked_axes() {
    masked_groups_ = add("masked groups", expert_count_bins(),
                         [](const Case& c) { return is_masked(c.variant) ? groups_in(c) : kNotOnAxis; });
    masked_ = add("rows of masked groups", word_bins(masked_labels()), [](const Case& c) {
      if (!is_masked(c.variant)) return kNotOnAxis;
      return static_cast<std::int64_t>(kind_of_counts(matmul_case(c).counts, capacity_in(c)));
    });
  }

  bool fill_masked(Case& c, const Bins& wanted, std::int64_t most, int attempt, Draw& draw) const {
    std::int64_t groups = draw_small_value(wanted, masked_groups_, draw);
    // Many groups leave no room for extents that are wanted.
    if (!is_wanted(wanted, masked_groups_) && attempt >= 3) groups = draw.between(1, 4);
    if (!draw_shape(c, wanted, most, attempt, groups, std::nullopt, draw)) return false;
    const std::int64_t capacity = c.rows / groups;
    for (int tries = 0; tries < 12; ++tries) {
      const auto kind = static_cast<Masked>(draw_kind(wanted, masked_, kMaskedKinds, draw));
      auto counts = draw_counts(kind, groups, capacity, draw);
      if (!counts) continue;
      matmul_case(c).counts = *std::move(counts);
      return draw_options(c, wanted, draw);
    }
    return false;
  }

  // The axis of groups.
  int add_variant_axes() {
    add_of_variant("a", [](const Variant& v) { return std::string(spec(matmul_of(v).format).name); });
    add_of_variant("b", [](const Variant& v) { return std::string(spec(matmul_of(v).format_b).name); });
    add_of_variant("blocks", [](const Variant& v) {
      return block_field_text(matmul_of(v).block) + " " + block_field_text(matmul_of(v).block_b);
    });
    add_of_variant("scales", [](const Variant& v) {
      return std::string(kScaleTypes[static_cast<std::size_t>(matmul_of(v).scales)]);
    });
    const int groups = add_of_variant("groups", [](const Variant& v) {
      return std::string(kGroupings[static_cast<std::size_t>(matmul_of(v).groups)]);
    });
    add_of_variant("d", [](const Variant& v) { return std::string(spec(v.dtype).name); });
    return groups;
  }

  bool draw_shape(Case& c, const Bins& wanted, std::int64_t most, int attempt, std::int64_t experts,
                  std::optional<Groups> kind, Draw& draw) const {
    const int groups = matmul_of(c.variant).groups;
    const bool masked = groups == MXCHECK_MASKED;
    const std::int64_t matrices = groups == MXCHECK_ROWS || masked ? std::max<std::int64_t>(1, experts) : 1;
    const std::int64_t copies = groups == MXCHECK_DEPTH ? std::max<std::int64_t>(1, experts) : 1;
    ExtentRange depth{small_range(wanted, k_, draw), 1, kUnit};
    ExtentRange rows{small_range(wanted, m_, draw), limits().rows_multiple, 64};
    ExtentRange cols{small_range(wanted, n_, draw), limits().cols_multiple, 64};
    if (masked) rows.multiple = std::lcm(rows.multiple, experts), rows.unit = 64 * experts;
    if (masked && !is_wanted(wanted, m_) && !is_wanted(wanted, outputs_) && !is_wanted(wanted, multiplications_)) {
      const std::int64_t limit = range(wanted, m_).high;
      rows.range = {rows.multiple, std::min(limit, rows.multiple * draw.between(1, draw.chance(50) ? 8 : 200)), {}};
    }
    if (kind && groups == MXCHECK_ROWS && !is_wanted(wanted, m_)) fit_to(*kind, experts, m_, rows, draw);
    if (kind && groups == MXCHECK_DEPTH && !is_wanted(wanted, k_)) fit_to(*kind, experts, k_, depth, draw);
    if (!is_wanted(wanted, k_) && attempt >= 6) depth.range = {1, 128, {}};
    if (!is_wanted(wanted, k_) && is_wanted(wanted, data_axis()) && groups != MXCHECK_DEPTH) {
      const auto data = static_cast<Data>(draw_value(wanted, data_axis(), draw));
      depth.range.high = std::min(depth.range.high, deepest_shown(std::as_const(c).variant, data));
    }
    if (!kind && !is_wanted(wanted, k_) && draw.chance(70)) depth.multiple = kUnit;  // mostly whole blocks
    const Bin multiplications = range(wanted, multiplications_);
    const auto k = draw_extent(depth.range.low, depth.range.high, depth.multiple, depth.unit, draw);
    const std::int64_t drawn = k.value_or(draw_extent(depth.range.low, depth.range.high, 1, kUnit, draw).value_or(0));
    matmul_case(c).depth = drawn;
    const std::int64_t some = std::max<std::int64_t>(1, drawn);
    Bin outputs = range(wanted, outputs_);
    if (drawn > 0) outputs.low = std::max(outputs.low, (multiplications.low + some - 1) / some);
    if (drawn > 0) outputs.high = std::min(outputs.high, multiplications.high / some);
    outputs.high = std::min({outputs.high, most / some, most / kOutputWork / copies});
    if (!is_wanted(wanted, outputs_) && !is_wanted(wanted, multiplications_) && attempt < 5)
      outputs.high = std::min(outputs.high, kMostDrawnElements);
    cols.range.high = std::min(cols.range.high, most / kElementWork / some / matrices);
    rows.range.high = std::min(rows.range.high, most / kElementWork / some);
    if (cols.range.low > cols.range.high || rows.range.low > rows.range.high) return false;
    return draw_extents(c, rows, cols, outputs, attempt, draw);
  }

  // An extent of which such groups can be made.
  void fit_to(Groups kind, std::int64_t experts, int axis, ExtentRange& extent, Draw& draw) const {
    const Bin all = range(Bins(axes().size(), kAnyBin), axis);
    std::int64_t low = experts;
    std::int64_t high = 2 * experts + draw.between(3, 300);
    if (kind == Groups::none_has_rows) low = high = 0;
    if (kind == Groups::one_row_each) low = 2, high = experts;
    if (kind == Groups::one_has_all) low = 1, high = 300;
    if (kind == Groups::whole_units) {
      low = experts * kUnit, high = (experts + draw.between(0, 4)) * kUnit;
      extent.multiple = std::lcm(extent.multiple, kUnit);
    }
    extent.range = {std::max(low, all.low), std::min(high, all.high), {}};
  }

  // Multiples at which groups along depth begin: mostly 128, so that blocks of scales are whole, since others are an
  // option of the interface; or 16, within a block but where a library that loads 16 bytes at a time can begin; or 1.
  static std::int64_t multiple_of_beginnings(Groups kind, std::int64_t end, int tries, Draw& draw) {
    if (kind == Groups::one_row_each || kind == Groups::whole_units) return 1;
    if (kind != Groups::any && end % kUnit == 0 && tries < 4) return kUnit;
    return draw.chance(50) ? kBeginning : 1;
  }

  static bool draw_ends(Case& c, std::int64_t experts, std::optional<Groups> kind, Draw& draw) {
    const bool by_depth = matmul_of(c.variant).groups == MXCHECK_DEPTH;
    const std::int64_t end = by_depth ? matmul_case(c).depth : c.rows;
    for (int tries = 0; tries < 8; ++tries) {
      const Groups one = kind.value_or(static_cast<Groups>(draw.below(kGroupKinds)));
      const std::int64_t multiple = by_depth ? multiple_of_beginnings(one, end, tries, draw) : 1;
      auto offsets = draw_groups(one, experts, end / multiple, kUnit, draw);
      if (!offsets) continue;
      for (std::int64_t& offset : *offsets) offset *= multiple;
      // The last group ends where the operands do, also within a block.
      if (multiple == kBeginning && !offsets->empty()) offsets->back() = end;
      c.experts = *std::move(offsets);
      return true;
    }
    if (kind) return false;
    c.experts = *draw_groups(Groups::one_has_all, experts, end, kUnit, draw);
    return true;
  }

  // False: D would show none of its sums.
  bool draw_options(Case& c, const Bins& wanted, Draw& draw) const {
    draw_places(c, wanted, draw);
    if (is_wanted(wanted, adds_) || draw.chance(contract_.from_c ? 60 : 25))
      matmul_case(c).adds = !is_wanted(wanted, adds_) || bin(wanted, adds_) == 1;
    if (alpha_ >= 0 && (is_wanted(wanted, alpha_) || draw.chance(5)))
      matmul_case(c).alpha = kAlphas[static_cast<std::size_t>(draw_value(wanted, alpha_, draw))];
    draw_threads(c, wanted, draw);
    draw_data(c, wanted, draw);
    if (!is_wanted(wanted, alpha_) && !shows_sums(c)) matmul_case(c).alpha = 1;
    for (int tries = 0; tries < 8 && !is_wanted(wanted, data_axis()) && !shows_sums(c); ++tries)
      draw_data(c, wanted, draw);
    if (!shows_sums(c)) return false;
    if (contract_.promises_bits() && c.data == Data::normal && draw.chance(50))
      matmul_case(c).cancels = std::int64_t{1} << draw.below(kDistances);
    // The NaN that a NaN of C becomes where no step is taken is not defined.
    const bool is_any_bits = c.data == Data::bits || c.data == Data::wide;
    if (contract_.from_c && matmul_case(c).depth == 0 && matmul_case(c).adds && is_any_bits) c.data = Data::normal;
    if (has_row_index(std::as_const(c).variant)) draw_row_index(c, wanted, 15, draw);
    return true;
  }

  MatmulContract contract_;
  bool integers_;
  int m_ = -1, n_ = -1, k_ = -1, outputs_ = -1, multiplications_ = -1, adds_ = -1, alpha_ = -1;
  int masked_groups_ = -1, masked_ = -1;
};

}  // namespace

std::unique_ptr<Domain> matmul_domain(const DomainRequest& request) { return std::make_unique<MatmulDomain>(request); }

namespace {

constexpr std::int64_t kLayersElementWork = 8;  // as domain.cc counts
constexpr std::int64_t kFewExperts = 4;         // of a slice that has another extent whole
constexpr std::int64_t kLayersMostRows = 512;
constexpr std::int64_t kBlock = 128;  // of k, and of groups' ends along it

const char* name_of(MatmulLayers::Whole whole) {
  switch (whole) {
    case MatmulLayers::Whole::m: return "m";
    case MatmulLayers::Whole::n: return "n";
    case MatmulLayers::Whole::k: return "k";
    case MatmulLayers::Whole::experts: return "experts";
  }
  return "";
}

std::int64_t value_of(const MatmulLayers::Use& use) {
  switch (use.whole) {
    case MatmulLayers::Whole::m: return use.m;
    case MatmulLayers::Whole::n: return use.n;
    case MatmulLayers::Whole::k: return use.k;
    case MatmulLayers::Whole::experts: return use.experts;
  }
  return 0;
}

std::int64_t down(std::int64_t extent, std::int64_t multiple) { return extent / multiple * multiple; }

// Whole blocks of k where there is room for one, else half or a quarter of one: the smallest that scales have.
std::int64_t slice_of_k(std::int64_t k, std::int64_t most) {
  const std::int64_t some = std::min(k, most);
  return some == k ? k : some >= kBlock ? down(some, kBlock) : down(some, 32);
}

// Offsets of `end` rows or units: one or two to an expert, drawn, and none to most.
std::vector<std::int64_t> sparse_offsets(std::int64_t experts, std::int64_t end, std::int64_t unit, Draw& draw) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(experts));
  for (std::int64_t left = end; left > 0;) {
    const std::int64_t some = std::min(left, unit * draw.between(1, 2));
    sizes[draw.below(sizes.size())] += some, left -= some;
  }
  std::vector<std::int64_t> offsets{0};
  for (const std::int64_t size : sizes) offsets.push_back(offsets.back() + size);
  return offsets;
}

}  // namespace

MatmulLayers::MatmulLayers(const OperationInfo& limits) : limits_(limits) {
  for (const ProductionLayer& layer : production_layers()) {
    Use use{layer.model};
    use.experts = layer.experts;
    use.n = 2 * layer.n, use.k = layer.d;
    add(use, "up", {Whole::k, Whole::n, Whole::experts});
    use.n = layer.d, use.k = layer.n;
    add(use, "down", {Whole::k, Whole::n});
    use.gradient = true, use.k = 0;
    use.m = layer.d, use.n = 2 * layer.n;
    add(use, "gradient of up", {Whole::m, Whole::n, Whole::experts});
    use.m = layer.n, use.n = layer.d;
    add(use, "gradient of down", {Whole::m, Whole::n});
  }
}

bool MatmulLayers::fits(const Use& use) const {
  if (use.whole == Whole::n)
    return use.n % limits_.cols_multiple == 0 && (limits_.max_cols == 0 || use.n <= limits_.max_cols);
  if (use.whole == Whole::m)
    return use.m % limits_.rows_multiple == 0 && (limits_.max_rows == 0 || use.m <= limits_.max_rows);
  return true;
}

void MatmulLayers::add(Use use, const char* product, const std::vector<Whole>& wholes) {
  for (const Whole whole : wholes) {
    use.whole = whole;
    use.text = fmt::format("{}, {} = {}", product, name_of(whole), value_of(use));
    if (fits(use)) uses_.push_back(use);
  }
}

bool MatmulLayers::is(const Use& use, const Case& c) const {
  const int groups = matmul_of(c.variant).groups;
  if ((groups == MXCHECK_DEPTH) != use.gradient || c.rows < 1 || c.cols < 1 || matmul_case(c).depth < 1) return false;
  if (groups == MXCHECK_MASKED && std::ranges::max(matmul_case(c).counts) == 0) return false;
  switch (use.whole) {
    case Whole::m: return c.rows == use.m;
    case Whole::n: return c.cols == use.n;
    case Whole::k: return matmul_case(c).depth == use.k;
    case Whole::experts: return matmul_of(c.variant).groups != MXCHECK_DENSE && groups_in(c) == use.experts;
  }
  return false;
}

// n and k; elements: of all matrices B together.
bool MatmulLayers::slice_product(const Use& use, std::int64_t elements, std::int64_t experts, Case& c) const {
  const std::int64_t each = elements / std::max<std::int64_t>(1, experts);  // a matrix B
  std::int64_t& k = matmul_case(c).depth;
  if (use.whole == Whole::k) {
    k = use.k, c.cols = down(std::min(use.n, each / k), limits_.cols_multiple);
  } else if (use.whole == Whole::n) {
    c.cols = use.n, k = slice_of_k(use.k, each / c.cols);
  } else {
    for (k = kBlock; k > 32 && each / k < std::max<std::int64_t>(8, limits_.cols_multiple);) k /= 2;
    c.cols = down(std::min(use.n, each / k), limits_.cols_multiple);
  }
  return k >= 1 && c.cols >= 1;
}

// m and n of outputs that every expert has; elements: of all outputs together.
bool MatmulLayers::slice_gradient(const Use& use, std::int64_t elements, std::int64_t experts, Case& c) const {
  const std::int64_t each = std::min(elements / std::max<std::int64_t>(1, experts),  // an output D
                                     elements * kLayersElementWork / matmul_case(c).depth);
  if (use.whole == Whole::m) {
    c.rows = use.m, c.cols = down(std::min(use.n, each / use.m), limits_.cols_multiple);
  } else if (use.whole == Whole::n) {
    c.cols = use.n, c.rows = down(std::min(use.m, each / use.n), limits_.rows_multiple);
  } else {
    const std::int64_t least = std::max<std::int64_t>(16, limits_.rows_multiple);
    c.rows = down(std::min({use.m, least, each}), limits_.rows_multiple);
    c.cols = c.rows < 1 ? 0 : down(std::min(use.n, each / c.rows), limits_.cols_multiple);
  }
  return c.rows >= 1 && c.cols >= 1;
}

std::optional<Case> MatmulLayers::at(const Use& use, Case drawn, std::int64_t most, Draw& draw) const {
  const int groups = matmul_of(std::as_const(drawn).variant).groups;
  const bool grouped = groups != MXCHECK_DENSE;
  if ((groups == MXCHECK_DEPTH) != use.gradient || (use.whole == Whole::experts && !grouped)) return std::nullopt;
  const std::int64_t elements = most / kLayersElementWork / 2;
  const std::int64_t index = index_kind(drawn);
  drawn.gather = 0;
  if (use.gradient) matmul_case(drawn).depth = kBlock * draw.between(1, 2);
  bool sliced = false;
  for (std::int64_t experts : {use.experts, std::min(use.experts, kFewExperts), std::int64_t{1}}) {
    // A slice that keeps another extent whole has few experts: they leave more of that extent's partner.
    if (sliced || (use.whole != Whole::experts && experts > kFewExperts)) continue;
    sliced =
        use.gradient ? slice_gradient(use, elements, experts, drawn) : slice_product(use, elements, experts, drawn);
    if (sliced && grouped) drawn.experts.assign(static_cast<std::size_t>(experts) + 1, 0);
    if (use.whole == Whole::experts) break;
  }
  if (!sliced) return std::nullopt;
  const auto experts = static_cast<std::int64_t>(drawn.experts.size()) - 1;
  const bool masked = groups == MXCHECK_MASKED;
  if (masked) drawn.experts.clear();
  const std::int64_t depth = matmul_case(drawn).depth;
  if (use.gradient) drawn.experts = sparse_offsets(experts, depth, kBlock, draw);
  if (!shows_sums(drawn)) matmul_case(drawn).alpha = 1;
  if (!shows_sums(drawn)) drawn.data = Data::normal;
  if (use.gradient) return drawn;
  const std::int64_t high =
      std::min({kLayersMostRows, elements / 4 / depth, elements / 4 / drawn.cols, most / depth / drawn.cols,
                limits_.max_rows > 0 ? limits_.max_rows : kLayersMostRows});
  const std::int64_t multiple = masked ? std::lcm(limits_.rows_multiple, experts) : limits_.rows_multiple;
  // A group has room for a row, even where 512 of them take more rows than others have.
  const auto rows = draw_extent(1, masked ? std::max(high, multiple) : high, multiple, 64, draw);
  if (!rows) return std::nullopt;
  drawn.rows = *rows;
  if (masked) {
    const std::int64_t capacity = drawn.rows / experts;
    matmul_case(drawn).counts.assign(static_cast<std::size_t>(experts), 0);
    for (std::int64_t& n : matmul_case(drawn).counts) n = draw.chance(70) ? 0 : draw.between(0, capacity);
    matmul_case(drawn).counts[draw.below(static_cast<std::uint64_t>(experts))] = capacity;
    return drawn;
  }
  if (grouped) drawn.experts = sparse_offsets(experts, drawn.rows, 1, draw);
  drawn.gather = source_rows(index, drawn.rows, draw);
  return drawn;
}

// The variants of a matmul under a contract.

std::vector<Variant> askable_matmuls(const std::string& operation) {
  const MatmulContract contract = parse_matmul_contract(contract_text(operation));
  const Contract& sum = *contract.sum;
  constexpr std::array kNarrow{Format::e4m3, Format::e5m2};
  const std::span<const Format> formats = contract.decodes ? std::span<const Format>(kNarrow) : sum.operands;
  std::vector<std::pair<BlockShape, BlockShape>> blocks;
  std::vector<int> scales{MXCHECK_NO_SCALES};
  if (sum.scale_terms != 0) {
    blocks = {{{1, sum.scale_terms}, {1, sum.scale_terms}}};
    scales = {sum.scales.front() == Format::e8m0 ? int{MXCHECK_E8M0} : int{MXCHECK_E4M3}};
  } else if (contract.promotion != 0 || contract.decodes || contract.any_order) {
    for (std::int64_t width : {32, 128}) {
      if (contract.promotion != 0 && width % contract.promotion != 0) continue;
      blocks.push_back({{1, width}, {1, width}});
      if (width == 128) blocks.push_back({{1, 128}, {128, 128}});
    }
    scales = {MXCHECK_E8M0, MXCHECK_FP32};
    if (!contract.decodes) scales.insert(scales.begin(), MXCHECK_NO_SCALES);
  }
  std::vector<Variant> all;
  const auto add = [&](Format a, Format b, int scale, BlockShape block_a, BlockShape block_b) {
    for (int groups : {MXCHECK_DENSE, MXCHECK_ROWS, MXCHECK_DEPTH, MXCHECK_MASKED}) {
      for (Format dtype : {Format::bf16, Format::fp32}) {
        if (contract.from_c && dtype != Format::fp32) continue;
        Variant v{operation, dtype};
        matmul_of(v) = {a, b, block_a, block_b, scale, groups};
        all.push_back(std::move(v));
      }
    }
  };
  for (Format a : formats) {
    for (Format b : formats) {
      if (a != b && !contract.decodes && !sum.mixes) continue;
      for (int scale : scales) {
        if (scale == MXCHECK_NO_SCALES)
          add(a, b, scale, {0, 0}, {0, 0});
        else
          for (const auto& [block_a, block_b] : blocks) add(a, b, scale, block_a, block_b);
      }
    }
  }
  if (contract.decodes) add(Format::e2m1, Format::e2m1, MXCHECK_E4M3, {1, 16}, {1, 16});
  return all;
}

Case matmul_corner(const Variant& v, std::int64_t rows, std::int64_t cols, std::int64_t depth, Data data,
                   std::uint64_t seed) {
  Case c;
  c.variant = v;
  c.rows = rows, c.cols = cols, matmul_case(c).depth = depth, c.data = data, c.seed = seed;
  const int groups = matmul_of(v).groups;
  if (groups == MXCHECK_ROWS) c.experts = {0, rows / 3, rows / 3, rows};
  if (groups == MXCHECK_DEPTH) c.experts = {0, depth / 256 * 128, depth / 256 * 128, depth};
  if (groups == MXCHECK_MASKED) {  // so many rows in each of four groups
    c.rows = 4 * rows, matmul_case(c).counts = usual_counts(4, rows);
  }
  return c;
}

std::vector<Case> simpler_matmuls(const Case& c, const Finding&) {
  SimplerCases simpler(c, [](Case& n) {
    fit_experts(n);
    fit_counts(n);
  });
  const std::int64_t depth = matmul_case(c).depth;
  const std::int64_t whole = matmul_of(c.variant).groups == MXCHECK_DEPTH ? depth : c.rows;
  const auto with_depth = [&](std::int64_t less) { simpler.with([&](Case& n) { matmul_case(n).depth = less; }); };
  if (c.experts.size() > 2) simpler.with([&](Case& n) { n.experts = {0, whole}; });
  simpler_groups(c, simpler);
  for (const std::int64_t less : {depth / 256 * 128, depth / 2, std::int64_t{128}, std::int64_t{32}}) {
    if (less > 0 && less < depth) with_depth(less);
  }
  for (const std::int64_t less : smaller_extents(depth)) with_depth(less);
  simpler.with([](Case& n) { matmul_case(n).adds = false; });
  simpler.with([](Case& n) { matmul_case(n).alpha = 1; });
  simpler.with([](Case& n) { matmul_case(n).cancels = 0; });
  simpler.fewer_experts({0, 1, whole / 2, whole / 256 * 128});
  simpler.plainer_call();
  simpler.fewer_rows();
  simpler.fewer_cols();
  simpler.plainer_data();
  simpler.first_seed();
  return simpler.take();
}

}  // namespace mxcheck
