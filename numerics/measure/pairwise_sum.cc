#include "numerics/measure/pairwise_sum.h"

#include <algorithm>
#include <array>
#include <string>

#include "numerics/error.h"

namespace mxcheck {

void PairwiseSum::add_tree(int level, double sum) {
  const std::uint64_t values = std::uint64_t{1} << level;
  if (count_ % values != 0) {
    throw Error(ErrorKind::usage, "a pairwise sum of " + std::to_string(count_) + " values takes no tree of " +
                                      std::to_string(values) + ": values are missing before it");
  }
  auto at = static_cast<std::size_t>(level);
  for (; (count_ >> at & 1) != 0; ++at) sum += partial_[at];
  if (at >= partial_.size()) partial_.resize(at + 1);
  partial_[at] = sum;
  count_ += values;
}

double PairwiseSum::total() const {
  double sum = 0;
  for (std::size_t level = 0; level < partial_.size(); ++level) {
    if ((count_ >> level & 1) != 0) sum += partial_[level];
  }
  return sum;
}

void PairwisePart::add(std::span<const double> values) {
  while (!values.empty()) {
    if (open_.empty() && position_ % kTree == 0 && values.size() >= kTree) {
      // Neighbours first, then neighbouring sums: the tree that PairwiseSum makes of them one by one.
      std::array<double, kTree / 2> sums;
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = values[2 * i] + values[2 * i + 1];
      for (std::size_t n = sums.size() / 2; n != 0; n /= 2) {
        for (std::size_t i = 0; i < n; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
      }
      trees_.push_back(sums[0]);
      position_ += kTree;
      values = values.subspan(kTree);
      continue;
    }
    const std::size_t count = std::min<std::size_t>(kTree - position_ % kTree, values.size());
    open_.insert(open_.end(), values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count));
    position_ += count;
    values = values.subspan(count);
    if (position_ % kTree != 0) continue;
    if (open_.size() < kTree) {
      head_ = std::move(open_);
      open_.clear();
      continue;
    }
    const std::vector<double> full = std::move(open_);
    open_.clear();
    position_ -= kTree;
    add(full);
  }
}

void PairwisePart::append_to(PairwiseSum& sum) const {
  if (sum.count() != first_) {
    throw Error(ErrorKind::usage, "a part of a sum from value " + std::to_string(first_) + " on after " +
                                      std::to_string(sum.count()) + " values: parts are added in their order");
  }
  for (const double value : head_) sum.add(value);
  for (const double tree : trees_) sum.add_tree(kLevel, tree);
  for (const double value : open_) sum.add(value);
}

}  // namespace mxcheck
