// A tree of summation as a picture: terms on the left, sums to the right of what they add, the result last. A chain of
// terms that are added one after another, and a run of terms of one sum, are one box each.

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "properties/identify/tree/tree.h"

namespace mxcheck {
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

class Page {
 public:
  explicit Page(int left) : left_(left) {}
  [[nodiscard]] int x_of(const Drawn& d) const { return d.box ? left_ : left_ + d.column * kColumn; }
  void add(const Drawn& d) {
    for (const Drawn& part : d.parts) {
      lines_ += fmt::format("<path d=\"M{} {:.1f}H{}V{:.1f}\"/>\n", x_of(part), part.y, x_of(d), d.y);
      add(part);
    }
    if (d.box) {
      const int width = static_cast<int>(d.label.size()) * kLetter + 12;
      marks_ += fmt::format(
          "<g data-terms=\"{}\"><rect x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"20\" rx=\"3\"/>"
          "<text x=\"{}\" y=\"{:.1f}\">{}</text></g>\n",
          fmt::join(d.terms, " "), left_ - width, d.y - 10, width, left_ - width / 2, d.y + 4, d.label);
      return;
    }
    const bool at_once = d.label != "+";
    marks_ += fmt::format("<g><circle cx=\"{}\" cy=\"{:.1f}\" r=\"9\"/><text x=\"{}\" y=\"{:.1f}\">{}</text>", x_of(d),
                          d.y, x_of(d), d.y + 4, at_once ? "&#8721;" : "+");
    if (at_once) marks_ += fmt::format("<title>{}, rounded once</title>", d.label);
    marks_ += "</g>\n";
  }
  [[nodiscard]] std::string text() const { return "<g class=\"l\">\n" + lines_ + "</g>\n" + marks_; }

 private:
  int left_;
  std::string lines_;
  std::string marks_;
};

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return out;
}

}  // namespace

std::string SumTree::svg(const std::string& title) const {
  Drawn root = drawn(*this);
  int rows = 0;
  place(root, rows);
  Page page(static_cast<int>(widest(root)) * kLetter + 32);
  page.add(root);
  const int right = page.x_of(root) + 24;
  const int width = std::max(right + 24, static_cast<int>(title.size()) * kLetter + 32);
  const int height = kTop + kLine * rows;
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n"
      "<title>{2}</title>\n"
      "<style>text{{font:12px monospace;text-anchor:middle;fill:#222}}rect{{fill:#eef3fa;stroke:#5b7ea8}}"
      "circle{{fill:#fff;stroke:#222}}.l path,.l line{{fill:none;stroke:#888}}.t{{text-anchor:start}}</style>\n"
      "<rect width=\"{0}\" height=\"{1}\" style=\"fill:#fff;stroke:none\"/>\n"
      "<text x=\"16\" y=\"20\" class=\"t\">{2}</text>\n"
      "<g class=\"l\"><line x1=\"{3}\" y1=\"{4:.1f}\" x2=\"{5}\" y2=\"{4:.1f}\"/></g>\n{6}"
      "<text x=\"{7}\" y=\"{8:.1f}\">D</text>\n</svg>\n",
      width, height, escaped(title), page.x_of(root), root.y, right, page.text(), right + 10, root.y + 4);
}

}  // namespace mxcheck
