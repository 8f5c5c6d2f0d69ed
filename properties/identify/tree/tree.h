#pragma once
// A tree of summation: which terms meet where. A node of two children is one addition; of more, one fused sum, or an
// order among them that no value shows.
//
//   const SumTree t = tree_of_sizes(4, sizes);       // sizes[i * 4 + j]: terms below the node at which i and j meet
//   t.text() == "((0 1) (2 3))"
//   shape_of(t) == "pairwise"
//
// Children are ordered by their smallest term: additions commute.
//
// Sources: the mask technique and the tree's construction are those of FPRev (Xie et al., FPRev: revealing the order of
// floating-point summation, USENIX ATC 2025).

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mxcheck {

struct SumTree {
  int term = -1;  // of a leaf
  std::vector<SumTree> children;

  [[nodiscard]] bool leaf() const { return children.empty(); }
  [[nodiscard]] int terms() const;         // leaves below
  [[nodiscard]] int first() const;         // the smallest of them
  [[nodiscard]] std::string text() const;  // four leaves of a node and more are a run: i..j, or i..j by STEP
  [[nodiscard]] std::string dot() const;   // a Graphviz digraph
  [[nodiscard]] std::string svg(const std::string& title) const;  // drawn; chains and runs are one box each
  friend bool operator==(const SumTree&, const SumTree&) = default;
};

SumTree leaf(int term);
SumTree node(std::vector<SumTree> children);  // sorted by their smallest term

// The tree that text() wrote. Error{usage} says what is wrong with a text, and where.
SumTree parse_tree(std::string_view text);

// None where the sizes are no tree's: what two terms leave over then depends on more than where they meet.
std::optional<SumTree> tree_of_sizes(int n, std::span<const int> sizes);

// The orders that have a name.
SumTree ascending(int n);
SumTree descending(int n);
SumTree pairwise(int n);                            // halves, the first the larger where n is odd
SumTree strided(int n, int lanes, bool by_halves);  // sums of every lanes-th term, then these, ascending or pairwise
SumTree folded(int n, int lanes);  // strided; then the upper half of the lanes is added to the lower, until one is left
SumTree exchanged_pairs(int n);    // 1, 0, 3, 2, ...: x86's VDPBF16PS
SumTree unrolled_lanes(int n, int lanes, int unrolled);  // strided by both; a lane's sums, then the lanes, ascending
SumTree blocked_pairwise(int n);  // numpy's sum: halves of multiples of 8 down to 128, these strided by 8
SumTree split(int n, int parts);  // contiguous parts of ceil(n / parts), each ascending, then these
SumTree fused_steps(int n, int step, bool descending);  // the sum before and `step` terms are one node
SumTree promoted(int n, int interval, int step);        // fused steps within an interval, intervals added ascending

// The name of the order, of those above; none otherwise.
std::optional<std::string> shape_of(const SumTree& tree);

}  // namespace mxcheck
