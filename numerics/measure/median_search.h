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
#include <vector>

#include "numerics/measure/value_counts.h"

namespace mxcheck {

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
