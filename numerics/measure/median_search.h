#pragma once
// The exact median of more values than memory holds, from several passes over them: radix selection.
//
// The bits of a double that is not negative are ordered as its value. A pass counts values by 16 more of their bits
// among those that share the median's bits so far; where few different values are left, it counts each of them instead.
// 63 bits: at most four passes. Values may come in any order, in parts of different threads, the same in every pass.
//
//   MedianSearch search;
//   do {
//     MedianSearch::Part part = search.part();
//     part.add(values);
//     search.add(part);
//   } while (!search.finish_pass());
//   search.median();   // the mean of the middle two for an even count; 0 for none
//
// A value near the median, known before the first pass (that of a sample), saves a pass; a wrong one costs nothing.
//
// Errors: Error{usage} when a pass brings other values than the one before.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace mxcheck {

// Counts each of a few different values, by their bits. A hash table with linear probing, since this is asked for every
// few elements of a tensor.
class ValueCounts {
 public:
  static constexpr std::size_t kMost = 16384;

  // False, and nothing is counted, where it would be more than kMost different values. bits: not all ones.
  bool add(std::uint64_t bits, std::uint64_t count) {
    if (slots_.empty()) slots_.assign(2 * kMost, {kEmpty, 0});
    // Fibonacci hashing (Knuth, The Art of Computer Programming 3, section 6.4): 2^64 / golden ratio; 15 bits index.
    std::size_t at = bits * 0x9E3779B97F4A7C15 >> 49;
    while (slots_[at].first != bits && slots_[at].first != kEmpty) at = (at + 1) % slots_.size();
    if (slots_[at].first == kEmpty) {
      if (size_ == kMost) return false;
      ++size_;
      slots_[at].first = bits;
    }
    slots_[at].second += count;
    return true;
  }
  [[nodiscard]] std::vector<std::pair<std::uint64_t, std::uint64_t>> pairs() const {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> pairs;
    for (const auto& slot : slots_) {
      if (slot.first != kEmpty) pairs.push_back(slot);
    }
    return pairs;
  }
  void clear() {
    slots_ = {};
    size_ = 0;
  }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  std::vector<std::pair<std::uint64_t, std::uint64_t>> slots_;  // value, count
  std::size_t size_ = 0;
};
static_assert(2 * ValueCounts::kMost == std::size_t{1} << 15);

class MedianSearch {
  // Values with one prefix.
  struct Tally {
    explicit Tally(std::uint64_t prefix_of_values, int digit_bits)
        : prefix(prefix_of_values), counts(std::size_t{1} << digit_bits) {}
    std::uint64_t prefix;
    std::vector<std::uint64_t> counts;  // by the next digit
    ValueCounts values;                 // by all bits, while there are few
    bool is_few = true;

    void add(std::uint64_t bits, int shift);
    void add(const Tally& other);
    [[nodiscard]] std::uint64_t count() const;
  };

 public:
  class Part {
   public:
    // None of them negative; NaN are passed over.
    void add(std::span<const double> values);

   private:
    friend class MedianSearch;
    Part(int known_bits, std::vector<Tally> tallies) : known_bits_(known_bits), tallies_(std::move(tallies)) {}
    void add_first(std::span<const double> values);

    int known_bits_;
    std::vector<Tally> tallies_;
  };

  MedianSearch();
  void expect(double near_median);  // before the first pass
  [[nodiscard]] Part part() const;  // of this pass
  void add(const Part& part);
  bool finish_pass();  // whether the median is known
  [[nodiscard]] double median() const;

 private:
  struct Rank {
    std::uint64_t within = 0;  // of the values with the prefix
    std::uint64_t prefix = 0;
    double value = 0;
    bool is_known = false;
  };
  void descend(Rank& rank) const;
  void descend_all();
  [[nodiscard]] const Tally& tally_of(const Rank& rank) const;
  [[nodiscard]] std::vector<Tally> empty_tallies() const;
  void check_counts() const;

  std::array<Rank, 2> ranks_;  // the middle two, or the middle one twice
  int known_bits_ = 0;
  std::optional<std::uint64_t> expected_prefix_;
  std::vector<Tally> tallies_;                // of this pass: one for each prefix of the ranks; then the expected one
  std::vector<std::uint64_t> counts_before_;  // how many values each has by the pass before
};

}  // namespace mxcheck
