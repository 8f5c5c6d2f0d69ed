#include "properties/core/domain/domain.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "properties/core/domain/usual_domain.h"
#include "properties/core/statement.h"

namespace mxcheck {
namespace {

std::string label_of(std::int64_t low, std::int64_t high) {
  return low == high ? std::to_string(low) : fmt::format("{}-{}", low, high);
}

std::int64_t up(std::int64_t n, std::int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// About log-uniform: production's sizes spread over powers of two, and most cases are to be small.
std::int64_t draw_log_uniform(std::int64_t low, std::int64_t high, Draw& draw) {
  int bits = 0;
  while (bits < 62 && (std::max<std::int64_t>(low, 1) << (bits + 1)) <= high) ++bits;
  const std::int64_t from = std::max<std::int64_t>(low, 1) << draw.below(static_cast<std::uint64_t>(bits) + 1);
  return draw.between(std::max(low, from), std::max(low, std::min(high, 2 * from)));
}

}  // namespace

int Axis::bin_of(std::int64_t value) const {
  for (std::size_t i = 0; i < bins.size(); ++i) {
    if (value >= bins[i].low && value <= bins[i].high) return static_cast<int>(i);
  }
  return kAnyBin;
}

std::vector<Bin> extent_bins(std::span<const std::int64_t> starts, std::int64_t last, std::int64_t multiple,
                             std::int64_t limit) {
  std::vector<Bin> bins;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::int64_t low = up(starts[i], multiple);
    std::int64_t high = i + 1 < starts.size() ? starts[i + 1] - 1 : last;
    if (limit > 0) high = std::min(high, limit);
    high = high / multiple * multiple;
    if (low <= high) bins.push_back({low, high, label_of(low, high)});
  }
  return bins;
}

std::vector<Bin> word_bins(const std::vector<std::string>& words) {
  std::vector<Bin> bins;
  for (std::size_t i = 0; i < words.size(); ++i)
    bins.push_back({static_cast<std::int64_t>(i), static_cast<std::int64_t>(i), words[i]});
  return bins;
}

std::optional<std::int64_t> draw_extent(std::int64_t low, std::int64_t high, std::int64_t multiple, std::int64_t unit,
                                        Draw& draw) {
  low = up(low, multiple), high = high / multiple * multiple;
  if (low > high) return std::nullopt;
  if (low == high) return low;
  const std::uint64_t kind = draw.below(10);
  std::int64_t value = low;
  if (kind < 2) {
    value = low;
  } else if (kind < 4) {
    value = high;
  } else if (kind < 7 && unit > 1 && high / unit > low / unit) {  // a multiple of the unit, or beside it
    value = unit * draw.between(low / unit + 1, std::min(high / unit, low / unit + 8)) + draw.between(-1, 1);
  } else {
    value = draw_log_uniform(low, high, draw);
  }
  return std::clamp(value / multiple * multiple, low, high);
}

std::optional<ExtentPair> draw_extents(const ExtentRange& rows, const ExtentRange& cols, const Bin& product,
                                       int attempt, Draw& draw) {
  // The one that is bounded more tightly first, or the rows.
  const bool cols_first = cols.range.high - cols.range.low < rows.range.high - rows.range.low;
  const ExtentRange& first = cols_first ? cols : rows;
  const ExtentRange& second = cols_first ? rows : cols;
  Bin a = first.range;
  if (second.range.low > 0) a.high = std::min(a.high, product.high / second.range.low);
  if (second.range.high > 0) a.low = std::max(a.low, (product.low + second.range.high - 1) / second.range.high);
  if (product.low > 0) a.low = std::max<std::int64_t>(a.low, 1);
  if (attempt == 8) a.high = a.low;
  if (attempt == 9) a.low = a.high;
  const auto one = draw_extent(a.low, a.high, first.multiple, first.unit, draw);
  if (!one) return std::nullopt;
  Bin b = second.range;
  if (*one > 0) {
    b.low = std::max(b.low, (product.low + *one - 1) / *one);
    b.high = std::min(b.high, product.high / *one);
  }
  const auto other = draw_extent(b.low, b.high, second.multiple, second.unit, draw);
  if (!other) return std::nullopt;
  return cols_first ? ExtentPair{*other, *one} : ExtentPair{*one, *other};
}

Bins Domain::bins_of(const Case& c) const {
  Bins bins;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const std::int64_t value = values_[i](c);
    bins.push_back(value == kNotOnAxis ? kAnyBin : axes_[i].bin_of(value));
  }
  return bins;
}

std::optional<Case> Domain::make(const Bins& wanted, std::int64_t most, Draw& draw) const {
  for (int n = 0; n < kAttempts; ++n) {
    std::optional<Case> c = attempt(wanted, most, n, draw);
    if (!c || work_of(*c) > most) continue;
    const Bins found = bins_of(*c);
    bool fits = true;
    for (std::size_t i = 0; i < wanted.size(); ++i) fits = fits && (wanted[i] == kAnyBin || wanted[i] == found[i]);
    if (fits) return c;
  }
  return std::nullopt;
}

Bins Domain::of_variant(std::size_t number) const {
  Bins bins(axes_.size(), kAnyBin);
  for (const int axis : variant_axes_) {
    const auto at = static_cast<std::size_t>(axis);
    bins[at] = bins_of_variants_[number][at];
  }
  return bins;
}

bool Domain::is_in(const Bins& variant, const Bins& wanted) const {
  return std::ranges::all_of(variant_axes_, [&](int axis) {
    const auto at = static_cast<std::size_t>(axis);
    return wanted[at] == kAnyBin || wanted[at] == variant[at];
  });
}

bool Domain::has_variant_in(const Bins& wanted) const {
  return variant_axes_.empty() ||
         std::ranges::any_of(bins_of_variants_, [&](const Bins& bins) { return is_in(bins, wanted); });
}

std::string Domain::family_of(const Variant&) const { return {}; }
bool Domain::is_of_layer(std::size_t, const Case&) const { return false; }
// NOLINTNEXTLINE(performance-unnecessary-value-param): those that override it move the case
std::optional<Case> Domain::at_layer(std::size_t, Case, std::int64_t, Draw&) const { return std::nullopt; }

std::optional<Case> Domain::make_layer(std::size_t use, std::size_t variant, bool plain, std::int64_t most,
                                       Draw& draw) const {
  Bins wanted = of_variant(variant);
  for (std::size_t i = 0; plain && i < wanted.size(); ++i) wanted[i] = wanted[i] == kAnyBin ? plain_[i] : wanted[i];
  for (int n = 0; n < kAttempts; ++n) {
    std::optional<Case> drawn = make(wanted, small_work(), draw);
    if (!drawn) continue;
    std::optional<Case> c = at_layer(use, *std::move(drawn), most, draw);
    if (!c) return std::nullopt;
    if (work_of(*c) <= most && is_of_layer(use, *c)) return c;
  }
  return std::nullopt;
}

void Domain::interact(std::initializer_list<int> axes) {
  interacting_.emplace_back();
  for (const int axis : axes) {
    if (axis >= 0) interacting_.back().push_back(static_cast<std::size_t>(axis));
  }
  std::sort(interacting_.back().begin(), interacting_.back().end());
}

int Domain::add(std::string name, std::vector<Bin> bins, Value value) {
  if (bins.empty()) return -1;
  axes_.push_back({std::move(name), std::move(bins)});
  values_.push_back(std::move(value));
  plain_.push_back(kAnyBin);
  return static_cast<int>(axes_.size()) - 1;
}

int Domain::add_option(std::string name, std::vector<Bin> bins, Value value, int plain) {
  const int axis = add(std::move(name), std::move(bins), std::move(value));
  if (axis >= 0) plain_.back() = plain;
  return axis;
}

int Domain::add_of_variant(std::string name, std::span<const Variant> variants, const Text& text) {
  std::vector<std::string> texts;
  for (const Variant& v : variants) {
    std::string one = text(v);
    if (std::ranges::find(texts, one) == texts.end()) texts.push_back(std::move(one));
  }
  const int axis = add(std::move(name), word_bins(texts), [text, texts](const Case& c) {
    const auto found = std::ranges::find(texts, text(c.variant));
    return found == texts.end() ? kNotOnAxis : found - texts.begin();
  });
  if (axis >= 0) variant_axes_.push_back(axis);
  return axis;
}

Bin Domain::range(const Bins& wanted, int axis) const {
  if (axis < 0) return {};
  const auto at = static_cast<std::size_t>(axis);
  if (wanted[at] != kAnyBin) return axes_[at].bins[static_cast<std::size_t>(wanted[at])];
  return {axes_[at].bins.front().low, axes_[at].bins.back().high, {}};
}

std::int64_t Domain::draw_value(const Bins& wanted, int axis, Draw& draw) const {
  const auto at = static_cast<std::size_t>(axis);
  const Bin bin =
      wanted[at] != kAnyBin ? axes_[at].bins[static_cast<std::size_t>(wanted[at])] : draw.pick(axes_[at].bins);
  return draw_extent(bin.low, bin.high, 1, 1, draw).value_or(bin.low);
}

Bin Domain::small_range(const Bins& wanted, int axis, Draw& draw) const {
  if (axis < 0) return {};
  const auto at = static_cast<std::size_t>(axis);
  const auto& bins = axes_[at].bins;
  if (wanted[at] != kAnyBin) return bins[static_cast<std::size_t>(wanted[at])];
  std::size_t i = std::min(draw.below(bins.size()), draw.below(bins.size()));
  if (bins[i].high == 0 && bins.size() > 1 && !draw.chance(20)) i = 1 + draw.below(bins.size() - 1);
  return bins[i];
}

std::int64_t Domain::draw_small_value(const Bins& wanted, int axis, Draw& draw) const {
  const Bin bin = small_range(wanted, axis, draw);
  return draw_extent(bin.low, bin.high, 1, 1, draw).value_or(bin.low);
}

std::uint8_t Domain::draw_misalignment(const Bins& wanted, int axis, std::int64_t element, int percent,
                                       Draw& draw) const {
  if (!is_wanted(wanted, axis) && !draw.chance(static_cast<std::uint64_t>(percent))) return 0;
  const std::int64_t value = draw_value(wanted, axis, draw);
  return static_cast<std::uint8_t>(is_wanted(wanted, axis) ? value : value / element * element);
}

const Variant* Domain::draw_variant_in(const Bins& wanted, Draw& draw) const {
  const std::size_t start = draw.below(variants_.size());
  for (std::size_t n = 0; n < variants_.size(); ++n) {
    const std::size_t i = (start + n) % variants_.size();
    const bool fits = is_in(bins_of_variants_[i], wanted) && is_allowed(variants_[i], wanted);
    if (fits) return &variants_[i];
  }
  return nullptr;
}

void Domain::set_variants(std::span<const Variant> variants) {
  variants_.assign(variants.begin(), variants.end());
  bins_of_variants_.clear();
  for (const Variant& v : variants_) {
    Case c;
    c.variant = v;
    bins_of_variants_.push_back(bins_of(c));
  }
}

namespace {

// `end` in `count` parts: each has `least`, the rest is cut at random places.
std::vector<std::int64_t> random_sizes(std::int64_t count, std::int64_t end, std::int64_t least, Draw& draw) {
  std::vector<std::int64_t> cuts{0, end - count * least};
  for (std::int64_t i = 1; i < count; ++i) cuts.push_back(draw.between(0, end - count * least));
  std::sort(cuts.begin(), cuts.end());
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 1; i < cuts.size(); ++i) sizes.push_back(cuts[i] - cuts[i - 1] + least);
  return sizes;
}

std::vector<std::int64_t> with_empty_at(std::vector<std::int64_t> sizes, std::size_t at) {
  sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(at), 0);
  return sizes;
}

std::optional<std::vector<std::int64_t>> draw_sizes(Groups kind, std::int64_t count, std::int64_t end,
                                                    std::int64_t unit, Draw& draw) {
  const auto n = static_cast<std::size_t>(count);
  std::vector<std::int64_t> sizes(n);
  switch (kind) {
    case Groups::none_has_rows: return end == 0 ? std::optional(sizes) : std::nullopt;
    case Groups::one_has_all: sizes[draw.below(n)] = end; return sizes;
    case Groups::one_row_each: {
      if (end > count) return std::nullopt;
      std::fill(sizes.begin(), sizes.begin() + end, 1);
      for (std::size_t i = n - 1; i > 0; --i) std::swap(sizes[i], sizes[draw.below(i + 1)]);
      return sizes;
    }
    case Groups::empty_in_a_row: {
      if (count < 4 || end < 3) return std::nullopt;
      const std::int64_t filled = std::min(draw.between(2, count - 2), end - 1);
      sizes = random_sizes(filled, end, 1, draw);
      const std::size_t at = draw.below(sizes.size() + 1);
      while (sizes.size() < n) sizes = with_empty_at(std::move(sizes), at);
      return sizes;
    }
    case Groups::first_empty:
    case Groups::last_empty:
      if (count < 3 || end < count) return std::nullopt;
      sizes = random_sizes(count - 1, end, 1, draw);
      return with_empty_at(std::move(sizes), kind == Groups::first_empty ? 0 : n - 1);
    case Groups::whole_units:
      if (end % unit != 0 || end / unit < count) return std::nullopt;
      sizes = random_sizes(count, end / unit, 1, draw);
      for (std::int64_t& size : sizes) size *= unit;
      return sizes;
    case Groups::any:
      if (end < count) return std::nullopt;
      sizes = random_sizes(count, end, 1, draw);
      // A group without rows between two that have some.
      if (count >= 5 && draw.chance(50)) {
        const std::size_t at = 1 + draw.below(n - 2);
        sizes[at + 1] += sizes[at], sizes[at] = 0;
      }
      return sizes;
  }
  return std::nullopt;
}

}  // namespace

const std::vector<std::string>& group_kind_labels() {
  static const std::vector<std::string> labels{"of any size",   "ends at whole units", "one has all rows",
                                               "first empty",   "last empty",          "several empty",
                                               "none has rows", "at most one row"};
  return labels;
}

Groups kind_of_groups(const std::vector<std::int64_t>& offsets, std::int64_t unit) {
  const std::int64_t end = offsets.back();
  if (end == 0) return Groups::none_has_rows;
  std::int64_t largest = 0;
  bool in_a_row = false;
  bool whole = true;
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    const std::int64_t size = offsets[i] - offsets[i - 1];
    largest = std::max(largest, size);
    in_a_row = in_a_row || (size == 0 && i > 1 && offsets[i - 1] == offsets[i - 2]);
    whole = whole && offsets[i] % unit == 0;
  }
  if (largest == end) return Groups::one_has_all;
  if (largest == 1) return Groups::one_row_each;
  if (in_a_row) return Groups::empty_in_a_row;
  if (offsets[1] == 0) return Groups::first_empty;
  if (offsets[offsets.size() - 2] == end) return Groups::last_empty;
  return whole ? Groups::whole_units : Groups::any;
}

std::optional<std::vector<std::int64_t>> draw_groups(Groups kind, std::int64_t count, std::int64_t end,
                                                     std::int64_t unit, Draw& draw) {
  const auto sizes = draw_sizes(kind, count, end, unit, draw);
  if (!sizes) return std::nullopt;
  std::vector<std::int64_t> offsets{0};
  for (const std::int64_t size : *sizes) offsets.push_back(offsets.back() + size);
  return offsets;
}

namespace {

constexpr std::array<std::int64_t, 18> kExperts{1,  2,  3,   8,   9,   16,  17,  32,  33,
                                                64, 65, 128, 129, 256, 257, 384, 385, 512};
constexpr std::array<std::int64_t, 18> kOffsets{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 32};
constexpr std::array<std::int64_t, 6> kFewOffsets{0, 1, 2, 4, 8, 16};
constexpr std::int64_t kMostOfSixteenBits = 65'536;  // source rows, numbered by an index of 16 bits
constexpr std::array<std::int64_t, 9> kThreads{0, 1, 2, 3, 4, 5, 8, 9, 17};
// Elements between the end of a row and the next row.
constexpr std::array<std::int64_t, 7> kStrideGaps{0, 1, 2, 8, 9, 32, 33};
constexpr std::int64_t kMostStrideGap = 5000;
constexpr std::int64_t kMostColStride = 7;

std::vector<Bin> single_values(std::span<const std::int64_t> values) {
  std::vector<Bin> bins;
  for (const std::int64_t value : values) bins.push_back({value, value, std::to_string(value)});
  return bins;
}

}  // namespace

std::vector<Bin> expert_count_bins() { return extent_bins(kExperts, 512); }

std::int64_t index_kind(const Case& c) {
  if (c.gather == 0) return 0;
  if (c.gather == 1) return 1;
  if (c.gather > kMostOfSixteenBits && c.gather > c.rows) return 5;
  return c.gather < c.rows ? 2 : c.gather == c.rows ? 3 : 4;
}

std::int64_t source_rows(std::int64_t kind, std::int64_t rows, Draw& draw) {
  switch (kind) {
    case 0: return 0;
    case 1: return 1;
    case 2: return std::max<std::int64_t>(2, rows / 2);
    case 3: return std::max<std::int64_t>(1, rows);
    case 5: return std::max(kMostOfSixteenBits, rows) + draw.between(1, 200);
    default: return rows + draw.between(1, rows + 7);
  }
}

UsualDomain::UsualDomain(const DomainRequest& request, std::int64_t unit)
    : statement_(request.statement),
      limits_(*request.process.operation(request.variants.front().operation)),
      variants_(request.variants),
      cuda_(request.process.info().cuda),
      unit_(unit) {}

int UsualDomain::add_rows(std::string name, std::span<const std::int64_t> starts, std::int64_t last) {
  return add(std::move(name), extent_bins(starts, last, limits_.rows_multiple, limits_.max_rows),
             [](const Case& c) { return c.rows; });
}
int UsualDomain::add_cols(std::string name, std::span<const std::int64_t> starts, std::int64_t last) {
  return add(std::move(name), extent_bins(starts, last, limits_.cols_multiple, limits_.max_cols),
             [](const Case& c) { return c.cols; });
}

void UsualDomain::add_experts(std::vector<Bin> counts, int plain) {
  const auto count = [](const Case& c) { return std::max<std::int64_t>(0, std::ssize(c.experts) - 1); };
  experts_ = add_option("experts", std::move(counts), count, plain);
  groups_ = add("experts' rows", word_bins(group_kind_labels()), [unit = unit_](const Case& c) {
    return c.experts.empty() ? kNotOnAxis : static_cast<std::int64_t>(kind_of_groups(c.experts, unit));
  });
}

void UsualDomain::add_optional_experts() {
  if (statement_.experts == 0) return;
  const bool is_option = statement_.experts < 100;
  std::vector<Bin> counts = expert_count_bins();
  if (is_option) counts.insert(counts.begin(), Bin{0, 0, "none"});
  add_experts(std::move(counts), is_option ? 0 : kAnyBin);
}

void UsualDomain::add_gap() {
  gap_ = add_option("row stride, beyond the columns", extent_bins(kStrideGaps, kMostStrideGap),
                    [](const Case& c) { return c.gap(); });
}

void UsualDomain::add_col_stride() {
  if (!limits_.takes_col_stride()) return;
  std::vector<Bin> bins{{0, 0, "1"}, {1, 1, "that of a transposed view"}};
  bins.push_back({2, kMostColStride, label_of(2, kMostColStride)});
  col_stride_ = add_option("column stride", std::move(bins),
                           [](const Case& c) { return c.is_turned() ? std::int64_t{1} : c.col_stride; });
}

int UsualDomain::add_place(std::string name, Tensors tensors, const std::function<std::int64_t(const Variant&)>& width,
                           bool few, int percent) {
  const auto value = [tensors, width](const Case& c) -> std::int64_t {
    const std::int64_t at = (tensors.are_outputs ? c.misaligned.outputs : c.misaligned.inputs)[tensors.first];
    return at % width(c.variant) == 0 ? at : kNotOnAxis;
  };
  const int axis = add_option(std::move(name), few ? single_values(kFewOffsets) : single_values(kOffsets), value);
  places_.push_back({axis, tensors, width, percent});
  return axis;
}

void UsualDomain::add_threads() {
  if (cuda_) return;
  threads_ = add_option("threads", extent_bins(kThreads, 64), [](const Case& c) { return c.threads; });
}

void UsualDomain::add_data() {
  std::vector<Bin> bins;
  for (const Data data : statement_.data) {
    const auto number = static_cast<std::int64_t>(data);
    if (std::ranges::find(bins, number, &Bin::low) == bins.end())
      bins.push_back({number, number, std::string(to_text(data))});
  }
  data_ = add("data", std::move(bins), [](const Case& c) { return static_cast<std::int64_t>(c.data); });
}

void UsualDomain::add_row_index(bool (*has_it)(const Variant&)) {
  const std::vector<std::string> kinds{
      "none", "of one row", "of fewer rows", "of as many rows", "of more rows", "of more than 65536 rows"};
  index_ = add_option("row index", word_bins(kinds),
                      [has_it](const Case& c) { return has_it(c.variant) ? index_kind(c) : kNotOnAxis; });
}

std::optional<Case> UsualDomain::attempt(const Bins& wanted, std::int64_t most, int attempt, Draw& draw) const {
  const Variant* v = draw_variant_in(wanted, draw);
  if (v == nullptr) return std::nullopt;
  Case c;
  c.variant = *v;
  if (!fill(c, wanted, most, attempt, draw)) return std::nullopt;
  return c;
}

// A tensor begins at a multiple of the width of its elements.
bool UsualDomain::is_allowed(const Variant& v, const Bins& wanted) const {
  return std::ranges::all_of(places_, [&](const Place& place) {
    return !is_wanted(wanted, place.axis) || range(wanted, place.axis).low % place.width(v) == 0;
  });
}

std::int64_t UsualDomain::draw_kind(const Bins& wanted, int axis, std::uint64_t kinds, Draw& draw) {
  return is_wanted(wanted, axis) ? bin(wanted, axis) : static_cast<std::int64_t>(draw.below(kinds));
}

std::optional<Groups> UsualDomain::wanted_groups(const Bins& wanted) const {
  if (!is_wanted(wanted, groups_)) return std::nullopt;
  return static_cast<Groups>(bin(wanted, groups_));
}

std::int64_t UsualDomain::draw_experts(const Bins& wanted, Draw& draw) const {
  std::int64_t experts = 0;
  if (experts_ >= 0 &&
      (is_wanted(wanted, experts_) || draw.below(100) < static_cast<std::uint64_t>(statement_.experts)))
    experts = draw_small_value(wanted, experts_, draw);
  return wanted_groups(wanted) && experts == 0 ? draw.between(4, 7) : experts;
}

void UsualDomain::fit_rows_to(Groups kind, std::int64_t experts, int axis, ExtentRange& rows, Draw& draw) const {
  const Bin all = range(Bins(axes().size(), kAnyBin), axis);
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return Bin{std::max(low, all.low), std::min(high, all.high), {}};
  };
  switch (kind) {
    case Groups::none_has_rows: rows.range = {all.low, all.low, {}}; break;
    case Groups::one_row_each: rows.range = between(2, experts); break;
    case Groups::one_has_all: rows.range = between(1, 300); break;
    case Groups::whole_units:
      rows.multiple = std::lcm(rows.multiple, unit_);
      rows.range = between(experts * unit_, (experts + draw.between(0, 8)) * unit_);
      break;
    default: rows.range = between(experts, experts * 2 + draw.between(3, 300));
  }
}

bool UsualDomain::draw_offsets(Case& c, std::int64_t experts, std::optional<Groups> kind, Draw& draw) const {
  for (int tries = 0; tries < 6; ++tries) {
    const Groups one = kind.value_or(static_cast<Groups>(draw.below(kGroupKinds)));
    auto offsets = draw_groups(one, experts, c.rows, unit_, draw);
    if (offsets) return c.experts = *std::move(offsets), true;
  }
  if (kind) return false;
  c.experts = *draw_groups(Groups::one_has_all, experts, c.rows, unit_, draw);
  return true;
}

void UsualDomain::draw_gap(Case& c, const Bins& wanted, Draw& draw) const {
  if (gap_ < 0 || (!is_wanted(wanted, gap_) && !draw.chance(20))) return;
  const std::int64_t gap = draw_small_value(wanted, gap_, draw);
  c.stride = gap == 0 ? 0 : c.cols + gap;
}

void UsualDomain::draw_col_stride(Case& c, const Bins& wanted, Draw& draw) const {
  if (col_stride_ < 0 || (!is_wanted(wanted, col_stride_) && !draw.chance(20))) return;
  const std::int64_t step = draw_value(wanted, col_stride_, draw);
  if (step != 0) c.set_col_stride(step == 1 ? 0 : step, c.gap());
}

void UsualDomain::draw_places(Case& c, const Bins& wanted, Draw& draw) const {
  for (const Place& p : places_) {
    const std::uint8_t at = draw_misalignment(wanted, p.axis, p.width(std::as_const(c).variant), p.percent, draw);
    auto& all = p.tensors.are_outputs ? c.misaligned.outputs : c.misaligned.inputs;
    std::fill(all.begin() + p.tensors.first, all.begin() + p.tensors.last + 1, at);
  }
}

void UsualDomain::draw_threads(Case& c, const Bins& wanted, Draw& draw) const {
  if (threads_ >= 0 && (is_wanted(wanted, threads_) || draw.chance(25)))
    c.threads = static_cast<int>(draw_value(wanted, threads_, draw));
}

void UsualDomain::draw_data(Case& c, const Bins& wanted, Draw& draw) const {
  c.data = is_wanted(wanted, data_) ? static_cast<Data>(draw_value(wanted, data_, draw)) : draw.pick(statement_.data);
}

void UsualDomain::draw_row_index(Case& c, const Bins& wanted, std::uint64_t percent, Draw& draw) const {
  if (index_ >= 0 && (is_wanted(wanted, index_) || draw.chance(percent)))
    c.gather = source_rows(draw_kind(wanted, index_, 5, draw), c.rows, draw);
}

}  // namespace mxcheck
