// A tree of summation as text, read again, and for Graphviz.

#include <algorithm>
#include <charconv>
#include <string_view>

#include "numerics/error.h"
#include "properties/identify/tree/tree.h"

namespace mxcheck {
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
