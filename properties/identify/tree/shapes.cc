// The orders of summation that have a name.

#include <algorithm>

#include "properties/identify/tree/tree.h"

namespace mxcheck {
namespace {

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

// Of a vector register: the upper half of the lanes is added to the lower one, until one is left.
SumTree by_folding(std::vector<SumTree> parts) {
  while (parts.size() > 1) {
    const std::size_t half = (parts.size() + 1) / 2;
    for (std::size_t i = half; i < parts.size(); ++i) {
      parts[i - half] = node_of(std::move(parts[i - half]), std::move(parts[i]));
    }
    parts.resize(half);
  }
  return parts.front();
}

}  // namespace

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

SumTree folded(int n, int lanes) {
  std::vector<SumTree> sums;
  for (int lane = 0; lane < std::min(lanes, n); ++lane) sums.push_back(chain(leaves(lane, n, lanes)));
  return by_folding(std::move(sums));
}

SumTree exchanged_pairs(int n) {
  std::vector<SumTree> all;
  for (int i = 0; i < n; i += 2) {
    if (i + 1 < n) all.push_back(leaf(i + 1));
    all.push_back(leaf(i));
  }
  return chain(std::move(all));
}

SumTree unrolled_lanes(int n, int lanes, int unrolled) {
  std::vector<SumTree> sums;
  for (int lane = 0; lane < lanes; ++lane) {
    std::vector<SumTree> own;
    for (int i = lane; i < std::min(n, lanes * unrolled); i += lanes) {
      own.push_back(chain(leaves(i, n, lanes * unrolled)));
    }
    sums.push_back(chain(std::move(own)));
  }
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

SumTree blocked_pairwise(int n) {
  if (n <= 128) return strided(n, 8, true);
  const int half = n / 2 - n / 2 % 8;
  return node_of(blocked_pairwise(half), shifted(blocked_pairwise(n - half), half));
}

namespace {

// Shapes that come in sizes; `i` is the size.
std::optional<std::string> sized_shape(const SumTree& tree, int n, int i) {
  const std::string number = std::to_string(i);
  if (tree == strided(n, i, false)) return "strided by " + number + ", the lanes added ascending";
  if (tree == strided(n, i, true)) return "strided by " + number + ", the lanes added pairwise";
  if (tree == folded(n, i)) return "strided by " + number + ", the upper half of the lanes added to the lower";
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
  return std::nullopt;
}

std::optional<std::string> unrolled_shape(const SumTree& tree, int n, int i) {
  for (int unrolled = 2; unrolled <= 8 && i * unrolled <= n / 2; unrolled *= 2) {
    if (tree == unrolled_lanes(n, i, unrolled)) {
      return "strided by " + std::to_string(i * unrolled) + ", each " + std::to_string(unrolled) + " of " +
             std::to_string(i) + " lanes added ascending, then these";
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> shape_of(const SumTree& tree) {
  const int n = tree.terms();
  if (n == 1) return "one term";
  if (static_cast<int>(tree.children.size()) == n) return "one fused sum of " + std::to_string(n) + " terms";
  if (tree == ascending(n)) return "ascending";
  if (tree == descending(n)) return "descending";
  if (tree == pairwise(n)) return "pairwise";
  if (tree == folded(n, n)) return "the upper half added to the lower, again and again";
  if (tree == exchanged_pairs(n)) return "ascending by pairs, the second of each first";
  if (n > 128 && tree == blocked_pairwise(n)) {
    return "pairwise down to blocks of 128, each strided by 8, the lanes added pairwise";
  }
  for (int i = 2; i <= n / 2; ++i) {
    if (auto name = sized_shape(tree, n, i)) return name;
  }
  for (int i = 2; i <= n / 4; ++i) {
    if (auto name = unrolled_shape(tree, n, i)) return name;
  }
  return std::nullopt;
}

}  // namespace mxcheck
