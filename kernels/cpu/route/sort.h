#pragma once
// Slots sorted by expert, stable: a counting sort whose parts count and then place their own slots, so that the result
// does not depend on how many there are.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/cpu/partition.h"

namespace mxcheck_kernels::cpu {

class ExpertSort {
 public:
  // The expert of each slot, -1 for none. All memory that is needed is taken here.
  ExpertSort(const std::int32_t* slot_experts, std::int64_t slots, std::int64_t experts, std::int32_t threads)
      : slot_experts_(slot_experts),
        slots_(slots),
        experts_(experts),
        parts_(std::clamp<std::int64_t>(slots / (4 * experts), 1, part_count(slots, slots * 16, threads))),
        next_(static_cast<std::size_t>(parts_ * experts)),
        counts_(static_cast<std::size_t>(experts)) {
    each_part([&](std::int64_t part, std::int64_t begin, std::int64_t end) {
      std::int64_t* const count = next_.data() + part * experts_;
      for (std::int64_t slot = begin; slot < end; ++slot) {
        if (slot_experts_[slot] >= 0) ++count[slot_experts_[slot]];
      }
    });
    // Counts become the place of each part's first slot of an expert among the expert's.
    for (std::int64_t part = 0; part < parts_; ++part) {
      for (std::int64_t e = 0; e < experts_; ++e) {
        std::int64_t& count = next_[static_cast<std::size_t>(part * experts_ + e)];
        std::int64_t& total = counts_[static_cast<std::size_t>(e)];
        total += count;
        count = total - count;
      }
    }
  }

  [[nodiscard]] const std::vector<std::int64_t>& counts() const { return counts_; }

  // visit(slot, expert, row) for all slots with an expert, from several threads; row counts from first_row[expert].
  // Once.
  template <class Visit>
  void place(const std::int64_t* first_row, const Visit& visit) {
    each_part([&](std::int64_t part, std::int64_t begin, std::int64_t end) {
      std::int64_t* const next = next_.data() + part * experts_;
      for (std::int64_t slot = begin; slot < end; ++slot) {
        const std::int32_t e = slot_experts_[slot];
        if (e >= 0) visit(slot, e, first_row[e] + next[e]++);
      }
    });
  }

 private:
  template <class Work>
  void each_part(const Work& work) const {
    for_each_part(parts_, parts_, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t part = first; part < last; ++part) {
        work(part, slots_ * part / parts_, slots_ * (part + 1) / parts_);
      }
    });
  }

  const std::int32_t* slot_experts_;
  std::int64_t slots_;
  std::int64_t experts_;
  std::int64_t parts_;
  std::vector<std::int64_t> next_;  // [parts][experts]
  std::vector<std::int64_t> counts_;
};

}  // namespace mxcheck_kernels::cpu
