#include "properties/core/domain/usual_domain.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "properties/core/statement.h"

namespace mxcheck {
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
  bins.push_back({2, kMostColStride, fmt::format("2-{}", kMostColStride)});
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
  return may_be_in(v, wanted) && std::ranges::all_of(places_, [&](const Place& place) {
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
