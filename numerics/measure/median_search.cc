#include "numerics/measure/median_search.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "numerics/error.h"

namespace mxcheck {
namespace {

constexpr int kBits = 63;   // all but the sign
constexpr int kDigit = 16;  // counted by in a pass: 512 KiB
constexpr std::uint64_t kMedianSearchInfinity = 0x7FF0000000000000;

constexpr std::uint64_t kNoPrefix = ~std::uint64_t{0};

int digit_bits(int known) { return std::min(kDigit, kBits - known); }
int digit_shift(int known) { return kBits - known - digit_bits(known); }

}  // namespace

void MedianSearch::Tally::add(std::uint64_t bits, int shift) {
  ++counts[bits >> shift & (counts.size() - 1)];
  if (!is_few || values.add(bits, 1)) return;
  is_few = false;
  values.clear();
}

void MedianSearch::Tally::add(const Tally& other) {
  for (std::size_t digit = 0; digit < counts.size(); ++digit) counts[digit] += other.counts[digit];
  is_few = is_few && other.is_few;
  if (is_few) {
    for (const auto& [bits, count] : other.values.pairs()) is_few = is_few && values.add(bits, count);
  }
  if (!is_few) values.clear();
}

std::uint64_t MedianSearch::Tally::count() const {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

MedianSearch::MedianSearch() : tallies_(empty_tallies()) {}

void MedianSearch::expect(double near_median) {
  if (near_median >= 0) expected_prefix_ = std::bit_cast<std::uint64_t>(near_median) >> digit_shift(0);  // not NaN
  tallies_ = empty_tallies();
}

std::vector<MedianSearch::Tally> MedianSearch::empty_tallies() const {
  std::vector<Tally> tallies;
  for (const Rank& rank : ranks_) {
    if (rank.is_known || (!tallies.empty() && tallies[0].prefix == rank.prefix)) continue;
    tallies.emplace_back(rank.prefix, digit_bits(known_bits_));
  }
  if (known_bits_ == 0 && expected_prefix_) tallies.emplace_back(*expected_prefix_, digit_bits(kDigit));
  return tallies;
}

MedianSearch::Part MedianSearch::part() const { return {known_bits_, empty_tallies()}; }

// All values by their first digit, where different ones are never few; those that have the expected one by the second.
void MedianSearch::Part::add_first(std::span<const double> values) {
  Tally& all = tallies_[0];
  all.is_few = false;
  const std::uint64_t expected = tallies_.size() > 1 ? tallies_[1].prefix : kNoPrefix;
  const int shift = digit_shift(0);
  const int second = digit_shift(kDigit);
  for (const double value : values) {
    if (value != value) continue;
    const auto bits = std::bit_cast<std::uint64_t>(value);
    ++all.counts[bits >> shift];
    if (bits >> shift == expected) tallies_[1].add(bits, second);
  }
}

void MedianSearch::Part::add(std::span<const double> values) {
  if (tallies_.empty()) return;
  if (known_bits_ == 0) return add_first(values);
  const int shift = digit_shift(known_bits_);
  const int prefix_shift = kBits - known_bits_;
  for (const double value : values) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    for (Tally& tally : tallies_) {
      if (bits >> prefix_shift == tally.prefix && bits <= kMedianSearchInfinity)
        tally.add(bits, shift);  // NaN lies above
    }
  }
}

void MedianSearch::add(const Part& part) {
  for (std::size_t i = 0; i < tallies_.size(); ++i) tallies_[i].add(part.tallies_[i]);
}

void MedianSearch::check_counts() const {
  for (std::size_t i = 0; i < counts_before_.size(); ++i) {
    const std::uint64_t count = tallies_[i].count();
    if (count == counts_before_[i]) continue;
    throw Error(ErrorKind::usage, std::to_string(count) + " values in a range that held " +
                                      std::to_string(counts_before_[i]) +
                                      " in the pass before: each pass needs the same values");
  }
}

const MedianSearch::Tally& MedianSearch::tally_of(const Rank& rank) const {
  return *std::find_if(tallies_.begin(), tallies_.end(), [&](const Tally& t) { return t.prefix == rank.prefix; });
}

// To the next digit, or to the value.
void MedianSearch::descend(Rank& rank) const {
  const Tally& tally = tally_of(rank);
  if (tally.is_few) {
    auto sorted = tally.values.pairs();
    std::sort(sorted.begin(), sorted.end());
    std::size_t at = 0;
    while (rank.within >= sorted[at].second) rank.within -= sorted[at++].second;
    rank.value = std::bit_cast<double>(sorted[at].first);
    rank.is_known = true;
    return;
  }
  std::uint64_t digit = 0;
  while (rank.within >= tally.counts[digit]) rank.within -= tally.counts[digit++];
  rank.prefix = rank.prefix << digit_bits(known_bits_) | digit;
  rank.is_known = known_bits_ + digit_bits(known_bits_) == kBits;
  if (rank.is_known) rank.value = std::bit_cast<double>(rank.prefix);
}

void MedianSearch::descend_all() {
  check_counts();
  counts_before_.clear();
  for (Rank& rank : ranks_) {
    if (rank.is_known) continue;
    const Tally& tally = tally_of(rank);
    descend(rank);
    if (rank.is_known || (!counts_before_.empty() && ranks_[0].prefix == rank.prefix)) continue;
    counts_before_.push_back(tally.counts[rank.prefix & (tally.counts.size() - 1)]);
  }
  known_bits_ += digit_bits(known_bits_);
}

bool MedianSearch::finish_pass() {
  const bool is_first = known_bits_ == 0;
  if (is_first) {
    const std::uint64_t count = tallies_[0].count();
    ranks_[0].within = count == 0 ? 0 : (count - 1) / 2;
    ranks_[1].within = count / 2;
    for (Rank& rank : ranks_) rank.is_known = count == 0;
  }
  descend_all();
  // Both in the range that was expected: the pass has counted their second digit too.
  if (is_first && expected_prefix_ && ranks_[0].prefix == *expected_prefix_ && ranks_[1].prefix == *expected_prefix_ &&
      !ranks_[0].is_known) {
    tallies_.erase(tallies_.begin());
    descend_all();
  }
  tallies_ = empty_tallies();
  return tallies_.empty();
}

double MedianSearch::median() const {
  const double below = ranks_[0].value;
  const double above = ranks_[1].value;
  return std::isinf(above) ? above : below + (above - below) / 2;
}

}  // namespace mxcheck
