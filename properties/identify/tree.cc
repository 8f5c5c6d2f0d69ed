#include "properties/identify/tree.h"

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

// An initializer list would copy whole trees.
SumTree node_of(SumTree a, SumTree b) {
  std::vector<SumTree> children;
  children.push_back(std::move(a));
  children.push_back(std::move(b));
  return node(std::move(children));
}

SumTree chain(std::vector<SumTree> parts) {
  SumTree sum = std::move(parts.front());
  for (std::size_t i = 1; i < parts.size(); ++i) sum = node_of(std::move(sum), std::move(parts[i]));
  return sum;
}

SumTree by_halves(std::vector<SumTree> parts) {
  if (parts.size() == 1) return parts.front();
  const auto half = static_cast<std::ptrdiff_t>((parts.size() + 1) / 2);
  return node({by_halves({parts.begin(), parts.begin() + half}), by_halves({parts.begin() + half, parts.end()})});
}

std::vector<SumTree> leaves(int first, int end, int stride = 1) {
  std::vector<SumTree> all;
  for (int i = first; i < end; i += stride) all.push_back(leaf(i));
  return all;
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

SumTree ascending(int n) { return chain(leaves(0, n)); }

SumTree descending(int n) {
  std::vector<SumTree> all = leaves(0, n);
  std::ranges::reverse(all);
  return chain(std::move(all));
}

SumTree pairwise(int n) { return by_halves(leaves(0, n)); }

SumTree strided(int n, int lanes, bool halves) {
  std::vector<SumTree> sums;
  for (int lane = 0; lane < std::min(lanes, n); ++lane) sums.push_back(chain(leaves(lane, n, lanes)));
  return halves ? by_halves(std::move(sums)) : chain(std::move(sums));
}

SumTree split(int n, int parts) {
  const int each = (n + parts - 1) / parts;
  std::vector<SumTree> sums;
  for (int first = 0; first < n; first += each) sums.push_back(chain(leaves(first, std::min(n, first + each))));
  return chain(std::move(sums));
}

SumTree fused_steps(int n, int step, bool down) {
  std::optional<SumTree> sum;
  const int steps = (n + step - 1) / step;
  for (int s = 0; s < steps; ++s) {
    const int first = (down ? steps - 1 - s : s) * step;
    std::vector<SumTree> terms = leaves(first, std::min(n, first + step));
    if (sum) terms.push_back(std::move(*sum));
    sum = terms.size() == 1 ? terms.front() : node(std::move(terms));
  }
  return *sum;
}

namespace {

SumTree shifted(const SumTree& t, int by) {
  SumTree moved{t.leaf() ? t.term + by : -1, {}};
  for (const SumTree& c : t.children) moved.children.push_back(shifted(c, by));
  return moved;
}

}  // namespace

SumTree promoted(int n, int interval, int step) {
  std::vector<SumTree> sums;
  for (int first = 0; first < n; first += interval) {
    sums.push_back(shifted(fused_steps(std::min(interval, n - first), step, false), first));
  }
  return chain(std::move(sums));
}

std::optional<std::string> shape_of(const SumTree& tree) {
  const int n = tree.terms();
  if (n == 1) return "one term";
  if (static_cast<int>(tree.children.size()) == n) return "one fused sum of " + std::to_string(n) + " terms";
  if (tree == ascending(n)) return "ascending";
  if (tree == descending(n)) return "descending";
  if (tree == pairwise(n)) return "pairwise";
  for (int i = 2; i <= n / 2; ++i) {
    const std::string number = std::to_string(i);
    if (tree == strided(n, i, false)) return "strided by " + number + ", the lanes added ascending";
    if (tree == strided(n, i, true)) return "strided by " + number + ", the lanes added pairwise";
    if (tree == split(n, i)) {
      return number + " parts of " + std::to_string((n + i - 1) / i) + ", each ascending, added ascending";
    }
    if (tree == fused_steps(n, i, false)) return "fused steps of " + number + ", ascending";
    if (tree == fused_steps(n, i, true)) return "fused steps of " + number + ", descending";
    for (int interval = 2 * i; interval < n; interval += i) {
      if (tree == promoted(n, interval, i)) {
        return "fused steps of " + number + ", promoted every " + std::to_string(interval);
      }
    }
  }
  return std::nullopt;
}

}  // namespace mxcheck
