#include "properties/identify/tree/tree.h"

#include <algorithm>
#include <numeric>

namespace mxcheck {
namespace {

// The node over `members`, or none. Two members belong to one child where they meet below this node.
std::optional<SumTree> node_over(int n, std::span<const int> sizes, const std::vector<int>& members) {
  if (members.size() == 1) return leaf(members.front());
  const auto whole = static_cast<int>(members.size());
  const auto size = [&](int i, int j) { return sizes[static_cast<std::size_t>(i * n + j)]; };
  std::vector<std::vector<int>> classes;
  for (int m : members) {
    const auto own = std::ranges::find_if(classes, [&](const auto& c) { return size(c.front(), m) < whole; });
    if (own == classes.end()) {
      classes.push_back({m});
    } else {
      own->push_back(m);
    }
  }
  if (classes.size() == 1) return std::nullopt;
  for (std::size_t a = 0; a < classes.size(); ++a) {
    for (std::size_t b = a + 1; b < classes.size(); ++b) {
      for (int i : classes[a]) {
        for (int j : classes[b]) {
          if (size(i, j) != whole) return std::nullopt;
        }
      }
    }
  }
  SumTree tree;
  for (const auto& c : classes) {
    std::optional<SumTree> child = node_over(n, sizes, c);
    if (!child) return std::nullopt;
    tree.children.push_back(std::move(*child));
  }
  return tree;
}

}  // namespace

int SumTree::terms() const {
  if (leaf()) return 1;
  return std::accumulate(children.begin(), children.end(), 0, [](int n, const SumTree& c) { return n + c.terms(); });
}

int SumTree::first() const { return leaf() ? term : children.front().first(); }

SumTree leaf(int term) { return {term, {}}; }

SumTree node(std::vector<SumTree> children) {
  std::ranges::sort(children, {}, &SumTree::first);
  return {-1, std::move(children)};
}

std::optional<SumTree> tree_of_sizes(int n, std::span<const int> sizes) {
  if (n <= 0) return std::nullopt;
  std::vector<int> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return node_over(n, sizes, all);
}

}  // namespace mxcheck
