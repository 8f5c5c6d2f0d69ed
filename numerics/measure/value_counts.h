#pragma once
// How often each of a few different values occurs, by their bits. A hash table with linear probing, since this is
// asked for every few elements of a tensor.

#include <cstdint>
#include <utility>
#include <vector>

namespace mxcheck {

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

}  // namespace mxcheck
