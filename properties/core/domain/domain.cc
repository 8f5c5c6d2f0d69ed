#include "properties/core/domain/domain.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

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

bool draw_extents(Case& c, const ExtentRange& rows, const ExtentRange& cols, const Bin& product, int attempt,
                  Draw& draw) {
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
  if (!one) return false;
  Bin b = second.range;
  if (*one > 0) {
    b.low = std::max(b.low, (product.low + *one - 1) / *one);
    b.high = std::min(b.high, product.high / *one);
  }
  const auto other = draw_extent(b.low, b.high, second.multiple, second.unit, draw);
  if (!other) return false;
  c.rows = cols_first ? *other : *one, c.cols = cols_first ? *one : *other;
  return true;
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

}  // namespace mxcheck
