#include "properties/core/domain/usual_axes.h"

#include <algorithm>
#include <utility>

#include "properties/core/statement.h"

namespace mxcheck {
namespace {

constexpr std::array<std::int64_t, 18> kExperts{1,  2,  3,   8,   9,   16,  17,  32,  33,
                                                64, 65, 128, 129, 256, 257, 384, 385, 512};
constexpr std::array<std::int64_t, 18> kOffsets{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 32};
constexpr std::array<std::int64_t, 6> kFewOffsets{0, 1, 2, 4, 8, 16};
constexpr std::int64_t kMostOfSixteenBits = 65'536;  // source rows, numbered by an index of 16 bits
constexpr std::array<std::int64_t, 9> kThreads{0, 1, 2, 3, 4, 5, 8, 9, 17};

std::vector<Bin> single_values(std::span<const std::int64_t> values) {
  std::vector<Bin> bins;
  for (const std::int64_t value : values) bins.push_back({value, value, std::to_string(value)});
  return bins;
}

}  // namespace

void VariantAxis::of(std::span<const Variant> variants, Text text) {
  text_ = std::move(text);
  for (const Variant& v : variants) {
    std::string one = text_(v);
    if (std::find(texts_.begin(), texts_.end(), one) == texts_.end()) texts_.push_back(std::move(one));
  }
}

std::int64_t VariantAxis::index_of(const Variant& v) const {
  const auto found = std::find(texts_.begin(), texts_.end(), text_(v));
  return found == texts_.end() ? kNotOnAxis : found - texts_.begin();
}

std::vector<Bin> expert_count_bins() { return extent_bins(kExperts, 512); }

UsualAxes::UsualAxes(const Statement& s, bool cuda) : cuda_(cuda) {
  for (const Data data : s.data) {
    if (std::find(data_.begin(), data_.end(), data) == data_.end()) data_.push_back(data);
  }
}

std::vector<Bin> UsualAxes::data_bins() const {
  std::vector<Bin> bins;
  for (const Data data : data_)
    bins.push_back({static_cast<std::int64_t>(data), static_cast<std::int64_t>(data), std::string(to_text(data))});
  return bins;
}

std::vector<Bin> UsualAxes::offset_bins() { return single_values(kOffsets); }
std::vector<Bin> UsualAxes::few_offset_bins() { return single_values(kFewOffsets); }
std::vector<Bin> UsualAxes::thread_bins() { return extent_bins(kThreads, 64); }

std::vector<Bin> UsualAxes::index_bins() {
  return word_bins(
      {"none", "of one row", "of fewer rows", "of as many rows", "of more rows", "of more than 65536 rows"});
}

std::int64_t UsualAxes::index_kind(const Case& c) {
  if (c.gather == 0) return 0;
  if (c.gather == 1) return 1;
  if (c.gather > kMostOfSixteenBits && c.gather > c.rows) return 5;
  return c.gather < c.rows ? 2 : c.gather == c.rows ? 3 : 4;
}

std::int64_t UsualAxes::source_rows(int kind, std::int64_t rows, Draw& draw) {
  switch (kind) {
    case 0: return 0;
    case 1: return 1;
    case 2: return std::max<std::int64_t>(2, rows / 2);
    case 3: return std::max<std::int64_t>(1, rows);
    case 5: return std::max(kMostOfSixteenBits, rows) + draw.between(1, 200);
    default: return rows + draw.between(1, rows + 7);
  }
}

}  // namespace mxcheck
