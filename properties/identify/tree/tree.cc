#include "properties/identify/tree/tree.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "numerics/error.h"
#include "pages/svg.h"

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

// The orders of summation that have a name.

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

// The sum of a vector register's lanes: the upper half of them is added to the lower one, until one is left.
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

// A tree of summation as a picture: terms on the left, sums to the right of what they add, the result last. A chain of
// terms that are added one after another, and a run of terms of one sum, are one box each.

namespace {

constexpr int kLine = 26;    // from box to box
constexpr int kColumn = 56;  // from sum to sum
constexpr int kLetter = 8;   // of the font below, and a little more
constexpr int kTop = 44;
constexpr std::size_t kLeast = 3;  // terms that are worth a box of their own

struct Drawn {
  std::string label;
  bool box = false;  // terms; else a sum
  std::vector<int> terms;
  std::vector<Drawn> parts;
  int column = 0;
  double y = 0;
};

// "0..28 by 4" of terms that follow one another by one step, up or down; none otherwise.
std::optional<std::string> run_text(const std::vector<int>& terms) {
  if (terms.size() < kLeast) return std::nullopt;
  const int step = terms[1] - terms[0];
  for (std::size_t i = 1; i < terms.size(); ++i) {
    if (terms[i] - terms[i - 1] != step) return std::nullopt;
  }
  std::string text = fmt::format("{}..{}", terms.front(), terms.back());
  if (step != 1 && step != -1) text += fmt::format(" by {}", std::abs(step));
  return text;
}

Drawn box_of(std::string label, std::vector<int> terms) { return {std::move(label), true, std::move(terms), {}, 0, 0}; }

bool adds_a_term(const SumTree& t) { return t.children.size() == 2 && (t.children[0].leaf() || t.children[1].leaf()); }

// Terms that are added to `from` one after another, in their order, as far as they are one run; `base` is what the
// first is added to, or null where it is the first two terms' sum.
std::vector<int> chain_below(const SumTree& from, const SumTree*& base) {
  std::vector<int> added;  // the last first
  base = &from;
  const auto fits = [&](int term) {
    return added.size() < 2 || added.back() - term == added[added.size() - 2] - added.back();
  };
  while (adds_a_term(*base)) {
    const bool both = base->children[0].leaf() && base->children[1].leaf();
    const SumTree& one = base->children[both || base->children[1].leaf() ? 1 : 0];
    if (both) {
      int last = one.term;
      int first = base->children[0].term;
      if (!fits(last) || (!added.empty() && added.back() - last != last - first)) std::swap(first, last);
      added.push_back(last);
      added.push_back(first);
      base = nullptr;
      break;
    }
    if (!fits(one.term)) break;
    added.push_back(one.term);
    base = &base->children[base->children[1].leaf() ? 0 : 1];
  }
  std::ranges::reverse(added);
  return added;
}

Drawn drawn(const SumTree& t) {
  if (t.leaf()) return box_of(std::to_string(t.term), {t.term});
  const SumTree* base = nullptr;
  const std::vector<int> chain = chain_below(t, base);
  if (const auto run = run_text(chain)) {
    Drawn terms = box_of(*run + ", one after another", chain);
    if (base == nullptr) return terms;
    return {"+", false, {}, {drawn(*base), std::move(terms)}, 0, 0};
  }
  Drawn sum{t.children.size() == 2 ? "+" : fmt::format("{} at once", t.children.size()), false, {}, {}, 0, 0};
  std::vector<int> together;
  const auto flush = [&] {
    if (const auto run = run_text(together)) {
      sum.parts.push_back(box_of(*run, together));
    } else {
      for (int term : together) sum.parts.push_back(box_of(std::to_string(term), {term}));
    }
    together.clear();
  };
  for (const SumTree& child : t.children) {
    if (child.leaf()) {
      together.push_back(child.term);
    } else {
      flush();
      sum.parts.push_back(drawn(child));
    }
  }
  flush();
  return sum;
}

// Rows of boxes from the top; of a sum the column is beyond those of its parts.
void place(Drawn& d, int& rows) {
  if (d.box) {
    d.y = kTop + kLine * rows++;
    return;
  }
  for (Drawn& part : d.parts) {
    place(part, rows);
    d.column = std::max(d.column, part.column + 1);
  }
  d.y = (d.parts.front().y + d.parts.back().y) / 2;
}

std::size_t widest(const Drawn& d) {
  std::size_t most = d.box ? d.label.size() : 0;
  for (const Drawn& part : d.parts) most = std::max(most, widest(part));
  return most;
}

constexpr std::string_view kTreeStyle =
    "text{font:12px monospace;text-anchor:middle;fill:#222}rect{fill:#eef3fa;stroke:#5b7ea8}"
    "circle{fill:#fff;stroke:#222}.l{fill:none;stroke:#888}.t{text-anchor:start}";

// Lines lie below boxes and circles.
struct TreeDrawing {
  int left;
  svg::Drawing lines, marks;

  [[nodiscard]] int x_of(const Drawn& d) const { return d.box ? left : left + d.column * kColumn; }
  void add(const Drawn& d) {
    for (const Drawn& part : d.parts) {
      lines.path(fmt::format("M{} {}H{}V{}", x_of(part), svg::number(part.y), x_of(d), svg::number(d.y)), {.css = "l"});
      add(part);
    }
    if (d.box) {
      const int width = static_cast<int>(d.label.size()) * kLetter + 12;
      marks.begin_group({.attributes = fmt::format("data-terms=\"{}\"", fmt::join(d.terms, " "))});
      marks.rect(left - width, d.y - 10, width, 20, {.attributes = "rx=\"3\""});
      marks.text(left - width / 2, d.y + 4, d.label);
    } else {
      const bool at_once = d.label != "+";
      marks.begin_group({.title = at_once ? d.label + ", rounded once" : ""});
      marks.circle(x_of(d), d.y, 9);
      marks.text(x_of(d), d.y + 4, at_once ? "\xE2\x88\x91" : "+");  // the sign of a sum
    }
    marks.end_group();
  }
};

}  // namespace

std::string SumTree::svg(const std::string& title) const {
  Drawn root = drawn(*this);
  int rows = 0;
  place(root, rows);
  TreeDrawing d{static_cast<int>(widest(root)) * kLetter + 32, {}, {}};
  d.add(root);
  const int right = d.x_of(root) + 24;
  d.lines.line(d.x_of(root), root.y, right, root.y, {.css = "l"});
  d.lines.text(16, 20, title, {.css = "t"});
  d.marks.text(right + 10, root.y + 4, "D");
  d.lines.add(d.marks);
  return d.lines.file(std::max(right + 24, static_cast<int>(title.size()) * kLetter + 32), kTop + kLine * rows, title,
                      kTreeStyle);
}

// A tree of summation as text, read again, and for Graphviz.

namespace {

constexpr int kMostDepth = 4096;
constexpr int kMostTerms = 1 << 16;

void dot_lines(const SumTree& t, int& next, std::string& text) {
  const std::string own = "n" + std::to_string(next++);
  if (t.leaf()) {
    text += "  " + own + " [label=\"" + std::to_string(t.term) + "\", shape=box];\n";
    return;
  }
  text += "  " + own + " [label=\"" + (t.children.size() == 2 ? "+" : "sum of " + std::to_string(t.children.size())) +
          "\"];\n";
  for (const SumTree& child : t.children) {
    text += "  " + own + " -> n" + std::to_string(next) + ";\n";
    dot_lines(child, next, text);
  }
}

// Leaves from place i on that follow one another by one step.
std::size_t run_from(const std::vector<SumTree>& children, std::size_t i) {
  std::size_t end = i;
  while (end + 1 < children.size() && children[end].leaf() && children[end + 1].leaf() &&
         (end == i || children[end + 1].term - children[end].term == children[i + 1].term - children[i].term)) {
    ++end;
  }
  return end;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}
  SumTree whole() {
    SumTree tree = part(0);
    spaces();
    if (at_ != text_.size()) fail("ends with one sum");
    return tree;
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw Error(ErrorKind::usage, "the tree of summation is wrong at place " + std::to_string(at_) + ": it " + what +
                                      ", as ((0 1) 2..5)");
  }
  void spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool next(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  int number() {
    int value = -1;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc() || value < 0 || value >= kMostTerms) fail("has terms from 0 on");
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }
  void terms(std::vector<SumTree>& to) {
    const int first = number();
    if (!next("..")) return to.push_back(leaf(first));
    const int last = number();
    const int step = next(" by ") ? number() : 1;
    if (step < 1 || last < first) fail("has runs that ascend");
    for (int i = first; i <= last; i += step) to.push_back(leaf(i));
  }
  SumTree part(int depth) {
    if (depth > kMostDepth) fail("is at most 4096 sums deep");
    spaces();
    std::vector<SumTree> children;
    if (!next("(")) {
      terms(children);
      return children.front();
    }
    for (spaces(); !next(")"); spaces()) {
      if (at_ == text_.size()) fail("closes what it opens");
      if (text_[at_] == '(') {
        children.push_back(part(depth + 1));
      } else {
        terms(children);
      }
    }
    if (children.size() < 2) fail("has sums of two parts or more");
    return node(std::move(children));
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::string SumTree::text() const {
  if (leaf()) return std::to_string(term);
  std::string text;
  for (std::size_t i = 0; i < children.size(); ++i) {
    if (!text.empty()) text += ' ';
    text += children[i].text();
    const std::size_t end = run_from(children, i);
    if (end < i + 3) continue;
    const int step = children[i + 1].term - children[i].term;
    text += ".." + children[end].text() + (step == 1 ? "" : " by " + std::to_string(step));
    i = end;
  }
  return "(" + text + ")";
}

std::string SumTree::dot() const {
  std::string text = "digraph sum {\n  rankdir=BT;\n  edge [dir=back];\n";
  int next = 0;
  dot_lines(*this, next, text);
  return text + "}\n";
}

SumTree parse_tree(std::string_view text) { return Reader(text).whole(); }

}  // namespace mxcheck
