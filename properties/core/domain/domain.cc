#include "properties/core/domain/domain.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

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
  const std::vector<std::int64_t> values = values_of(c);
  Bins bins(axes_.size(), kAnyBin);
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (values[i] != kNotOnAxis) bins[i] = axes_[i].bin_of(values[i]);
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

int Domain::add(std::string name, std::vector<Bin> bins) {
  if (bins.empty()) return -1;
  axes_.push_back({std::move(name), std::move(bins)});
  plain_.push_back(kAnyBin);
  return static_cast<int>(axes_.size()) - 1;
}

int Domain::add_option(std::string name, std::vector<Bin> bins, int plain) {
  const int axis = add(std::move(name), std::move(bins));
  if (axis >= 0) plain_.back() = plain;
  return axis;
}

int Domain::add_of_variant(std::string name, std::vector<Bin> bins) {
  const int axis = add(std::move(name), std::move(bins));
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
    const bool fits = std::all_of(variant_axes_.begin(), variant_axes_.end(), [&](int axis) {
      const auto at = static_cast<std::size_t>(axis);
      return wanted[at] == kAnyBin || wanted[at] == bins_of_variants_[i][at];
    });
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

}  // namespace mxcheck
