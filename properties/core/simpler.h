#pragma once
// Simpler cases in place of a failing one, the boldest first: each is that case with one change and what follows from
// it. A change that leaves the case as it is adds none.

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "properties/core/case.h"
#include "properties/core/limits.h"

namespace mxcheck {

class SimplerCases {
 public:
  // fit: what follows from a change, but for strides, whose gap stays.
  SimplerCases(const Case& c, void (*fit)(Case&)) : c_(c), fit_(fit) {}

  template <class Change>
  void with(const Change& change) {
    Case n = c_;
    change(n);
    fit_(n);
    n.fit_strides(c_);
    if (n != c_) all_.push_back(std::move(n));
  }

  // Two experts with each of these ends between them, then without the first end and without the last one.
  void fewer_experts(std::initializer_list<std::int64_t> ends) {
    if (c_.experts.empty()) return;
    const std::int64_t whole = c_.experts.back();
    for (const std::int64_t end : ends) {
      if (end <= whole && c_.experts.size() > 3) with([&](Case& n) { n.experts = {0, end, whole}; });
    }
    if (c_.experts.size() <= 2) return;
    with([](Case& n) { n.experts.erase(n.experts.begin() + 1); });
    with([](Case& n) { n.experts.erase(n.experts.end() - 2); });
  }
  void plainer_call() {
    with([](Case& n) { n.set_contiguous(); });
    if (c_.col_stride != 0 && c_.gap() != 0)
      with([&](Case& n) { n.set_col_stride(n.is_turned() ? 0 : n.col_stride, 0); });
    with([](Case& n) { n.threads = 0; });
    with([](Case& n) { n.misaligned = {}; });
    if (c_.misaligned.any()) with([](Case& n) { n.misaligned.inputs = {}; });
    if (c_.misaligned.any()) with([](Case& n) { n.misaligned.outputs = {}; });
    with([](Case& n) { n.gather = 0; });
    if (c_.gather > c_.rows) with([](Case& n) { n.gather = std::max<std::int64_t>(1, n.rows); });
  }
  void fewer_rows() {
    for (const std::int64_t rows : smaller_extents(c_.rows)) with([&](Case& n) { n.rows = rows; });
  }
  void fewer_cols() {
    for (const std::int64_t cols : smaller_extents(c_.cols)) with([&](Case& n) { n.cols = cols; });
  }
  void plainer_data() {
    if (c_.data != Data::zeros) with([](Case& n) { n.data = Data::codes; });
    with([](Case& n) { n.data = Data::zeros; });
  }
  void first_seed() {
    if (c_.seed > 1) with([](Case& n) { n.seed = 1; });
  }

  std::vector<Case> take() { return std::move(all_); }

 private:
  const Case& c_;
  void (*fit_)(Case&);
  std::vector<Case> all_;
};

}  // namespace mxcheck
