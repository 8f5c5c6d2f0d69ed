#include "properties/core/causes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "numerics/format/codec.h"
#include "numerics/text.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kEnoughShown = 6;  // elements of a general or a confined row
constexpr std::size_t kMostlyShown = 3;   // of elements that a row gives, to one that it would change, where no rule is
constexpr int kEnoughExact = 3;           // cases that bear out a row which no rule confines in another one ...
constexpr int kLeastShareExact = 3;       // ... which are one in so many of all cases
constexpr int kEnoughAlike = 4;           // cases in which one rule confines a row, however few elements show

struct Extent {
  std::int64_t low = 0, high = 0;
};

template <class Of>
Extent extent_of(std::span<const std::int64_t> elements, Of of) {
  Extent e{of(elements.front()), of(elements.front())};
  for (const std::int64_t i : elements) e.low = std::min(e.low, of(i)), e.high = std::max(e.high, of(i));
  return e;
}

// "from UNIT 5 on", "up to UNIT 5", "in UNIT 5"; empty: the two overlap.
template <class Of>
std::string range_text(std::span<const std::int64_t> shown, std::span<const std::int64_t> hidden, const char* unit,
                       Of of) {
  const Extent s = extent_of(shown, of), h = extent_of(hidden, of);
  if (s.low > h.high) return std::string("from ") + unit + " " + std::to_string(s.low) + " on";
  if (s.high < h.low) return std::string("up to ") + unit + " " + std::to_string(s.high);
  const auto is_inside = [&](std::int64_t i) { return of(i) >= s.low && of(i) <= s.high; };
  if (std::ranges::any_of(hidden, is_inside)) return {};
  if (s.low == s.high) return std::string("in ") + unit + " " + std::to_string(s.low);
  return std::string("from ") + unit + " " + std::to_string(s.low) + " to " + std::to_string(s.high);
}

// "in 3 of the 7 blocks that it would change", where no unit has both.
template <class Of>
std::string units_text(std::span<const std::int64_t> shown, std::span<const std::int64_t> hidden, const char* unit,
                       Of of) {
  std::map<std::int64_t, bool> shows;
  for (const std::int64_t i : shown) shows[of(i)] = true;
  const std::size_t count = shows.size();
  for (const std::int64_t i : hidden) {
    const auto [at, is_new] = shows.try_emplace(of(i), false);
    if (!is_new && at->second) return {};
  }
  return "in " + std::to_string(count) + " of the " + std::to_string(shows.size()) + " " + unit +
         " that it would change";
}

struct ValueClass {
  const char* text;
  bool (*is)(double value, double smallest_normal);
};
constexpr std::array<ValueClass, 8> kClasses{
    {{"where the right result is negative", [](double v, double) { return std::signbit(v) && !std::isnan(v); }},
     {"where the right result is positive", [](double v, double) { return !std::signbit(v) && !std::isnan(v); }},
     {"where the right result is NaN", [](double v, double) { return std::isnan(v); }},
     {"where the right result is a number", [](double v, double) { return !std::isnan(v); }},
     {"where the right result is finite", [](double v, double) { return std::isfinite(v); }},
     {"where the right result is zero", [](double v, double) { return v == 0; }},
     {"where the right result is not zero", [](double v, double) { return v != 0; }},
     {"where the right result is a normal number",
      [](double v, double normal) { return std::isfinite(v) && std::fabs(v) >= normal; }}}};

std::vector<std::string> class_texts(const AnswerTensor& t, std::span<const std::int64_t> shown,
                                     std::span<const std::int64_t> hidden) {
  if (t.info.integer_bits != 0) return {};
  const double normal = std::ldexp(1.0, 1 - spec(t.info.format).bias);
  const auto value = [&](std::int64_t i) { return decode(t.info.format, word_of(t.info, t.expected, i)); };
  std::vector<std::string> texts;
  for (const ValueClass& one : kClasses) {
    const auto is = [&](std::int64_t i) { return one.is(value(i), normal); };
    if (std::ranges::all_of(shown, is) && std::ranges::none_of(hidden, is)) texts.emplace_back(one.text);
  }
  return texts;
}

// Rules by the shape: they hold in cases of other sizes too.
std::vector<std::string> edge_texts(const AnswerTensor& t, std::span<const std::int64_t> shown,
                                    std::span<const std::int64_t> hidden) {
  const std::int64_t cols = std::max<std::int64_t>(1, t.info.cols);
  const auto count = static_cast<std::int64_t>(t.observed.size() / bytes_of_element(t.info));
  const std::int64_t last = count - 1, rows = count / cols;
  std::vector<std::string> texts;
  const auto add = [&](std::string text, auto is) {
    if (std::ranges::all_of(shown, is) && std::ranges::none_of(hidden, is)) texts.push_back(std::move(text));
  };
  add("in the last element", [=](std::int64_t i) { return i == last; });
  add("in the last element of each row", [=](std::int64_t i) { return i % cols == cols - 1; });
  add("in the last row", [=](std::int64_t i) { return i / cols == last / cols; });
  add("in the last block of each row", [=, &t](std::int64_t i) {
    const std::int64_t block = std::max<std::int64_t>(1, t.info.block_cols);
    return i % cols / block == (cols - 1) / block;
  });
  const auto cut = [](std::int64_t extent, std::int64_t by) { return by > 1 ? extent - extent % by : extent; };
  const std::int64_t whole_cols = cut(cols, t.info.block_cols), whole_rows = cut(rows, t.info.block_rows);
  if (whole_cols < cols)
    add("in the blocks that the right edge cuts", [=](std::int64_t i) { return i % cols >= whole_cols; });
  if (whole_rows < rows)
    add("in the blocks that the last row cuts", [=](std::int64_t i) { return i / cols >= whole_rows; });
  if (t.info.block_rows > 1 && !t.groups.empty() && t.groups.back() == rows)
    add("in the blocks that an expert's last row cuts", [=, &t](std::int64_t i) {
      const auto end = std::ranges::upper_bound(t.groups, i / cols);
      const std::int64_t begin = *std::prev(end);
      return i / cols >= begin + cut(*end - begin, t.info.block_rows);
    });
  // Loops over vectors that leave out what is no whole vector.
  for (const std::int64_t lanes : {2, 4, 8, 16, 32, 64}) {
    if (cut(cols, lanes) < cols)
      add("in the columns after the last multiple of " + std::to_string(lanes),
          [=](std::int64_t i) { return i % cols >= cut(cols, lanes); });
  }
  for (const std::int64_t lanes : {2, 4, 8, 16, 32, 64}) {
    if (rows > 1 && cut(count, lanes) < count)
      add("in the elements after the last multiple of " + std::to_string(lanes),
          [=](std::int64_t i) { return i >= cut(count, lanes); });
  }
  return texts;
}

// "in rows 127 modulo 128": all that show have one remainder, and none of the others has it.
template <class Of>
std::vector<std::string> remainder_texts(std::span<const std::int64_t> shown, std::span<const std::int64_t> hidden,
                                         const char* units, Of of) {
  std::vector<std::string> texts;
  for (std::int64_t by = 4; by <= 1024; by *= 2) {
    const std::int64_t remainder = of(shown.front()) % by;
    const auto is = [&](std::int64_t i) { return of(i) % by == remainder; };
    if (!std::ranges::all_of(shown, is)) break;  // nor have they one by a multiple of it
    if (std::ranges::none_of(hidden, is))
      texts.push_back(std::string("in ") + units + " " + std::to_string(remainder) + " modulo " + std::to_string(by));
  }
  return texts;
}

// Rules that cases of other sizes and values may share.
struct SharedRules {
  std::vector<std::string> edges, remainders, classes;

  SharedRules(const AnswerTensor& t, std::span<const std::int64_t> shown, std::span<const std::int64_t> hidden)
      : edges(edge_texts(t, shown, hidden)), classes(class_texts(t, shown, hidden)) {
    const std::int64_t cols = std::max<std::int64_t>(1, t.info.cols);
    remainders = remainder_texts(shown, hidden, "rows", [cols](std::int64_t i) { return i / cols; });
    std::ranges::move(remainder_texts(shown, hidden, "columns", [cols](std::int64_t i) { return i % cols; }),
                      std::back_inserter(remainders));
  }
  [[nodiscard]] std::vector<std::string> all() const {
    std::vector<std::string> texts = edges;
    texts.insert(texts.end(), remainders.begin(), remainders.end());
    texts.insert(texts.end(), classes.begin(), classes.end());
    return texts;
  }
};

// The elements of one output that a row gives, and right ones that it would change.
struct Shown {
  std::vector<std::int64_t> shown, hidden;
};

// Nothing where a wrong element is not as the row has it.
std::optional<Shown> shown_of(const AnswerTensor& t, const Bytes& bytes) {
  if (bytes.size() != t.observed.size()) return std::nullopt;
  Shown s;
  const auto count = static_cast<std::int64_t>(bytes.size() / bytes_of_element(t.info));
  for (std::int64_t i = 0; i < count; ++i) {
    const bool is_right = same_element(t.info, t.expected, t.observed, i);
    const bool is_given = same_element(t.info, bytes, t.observed, i);
    if (!is_right && !is_given) return std::nullopt;
    if (!is_right) s.shown.push_back(i);
    if (!is_given) s.hidden.push_back(i);
  }
  return s;
}

// The row's bytes, or RowNotComputed.
Bytes computed_bytes(const Definition& row, std::size_t output) {
  try {
    return row.bytes(output);
  } catch (const RowNotComputed&) {
    throw;
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::usage) throw;
    return {};
  }
}

// The rules of one row, by output, and all that one case says of where it shows.
struct Places {
  std::vector<std::string> wrong_ones;  // names of outputs
  std::vector<std::vector<std::string>>
      rules;                        // of wrong outputs that it would change further: words for one rule each
  std::vector<std::string> shared;  // of a wrong output that it gives as it is
  bool changes_right_ones = false;

  // "only in codes, from column 512 on"; none: it shows wherever it changes an element.
  [[nodiscard]] std::vector<std::string> texts() const {
    std::vector<std::string> words = rules.empty() ? shared : rules.front();
    if (rules.size() > 1) {
      std::vector<std::string> each;
      for (const auto& one : rules) each.push_back(one.front());
      std::ranges::sort(each);
      each.erase(std::unique(each.begin(), each.end()), each.end());
      if (each.size() > 1) words = {join(each)};
    }
    const std::string in = changes_right_ones ? "in " + join(wrong_ones, " and ") : "";
    std::vector<std::string> all;
    if (rules.empty() && changes_right_ones) all.push_back("only " + in);
    if (rules.empty() && !changes_right_ones) return all;
    for (const std::string& word : words) all.push_back("only " + in + (in.empty() ? "" : ", ") + word);
    return all;
  }
};

// A row that gives every wrong element, and whose other changes a rule parts from them.
std::optional<Explanation> confined(std::span<const AnswerTensor> outputs, const std::vector<bool>& is_wrong,
                                    const Definition& row) {
  Explanation e{.name = row.name, .is_told = row.is_told_anywhere};
  Places places;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].observed.empty()) continue;
    const Bytes bytes = computed_bytes(row, i);
    if (bytes.empty() && is_wrong[i]) return std::nullopt;
    if (bytes.empty()) continue;
    const std::optional<Shown> s = shown_of(outputs[i], bytes);
    if (!s && is_wrong[i]) return std::nullopt;
    if (!s) continue;
    e.shown += std::ssize(s->shown), e.hidden += std::ssize(s->hidden);
    if (is_wrong[i]) places.wrong_ones.push_back(outputs[i].info.name);
    if (!is_wrong[i]) places.changes_right_ones = places.changes_right_ones || !s->hidden.empty();
    if (is_wrong[i] && s->hidden.empty()) places.shared = SharedRules(outputs[i], s->shown, {}).all();
    if (!is_wrong[i] || s->hidden.empty()) continue;
    if (!row.may_be_confined) return std::nullopt;
    Where where = where_shown(outputs[i], s->shown, s->hidden);
    if (where.text.empty() && row.is_told_anywhere) where.text = "in " + std::to_string(s->shown.size()) + " elements";
    e.is_unruly = e.is_unruly || where.text.empty();
    if (where.text.empty()) where.text = "in some of the elements that it would change";
    e.is_scattered = e.is_scattered || (where.is_scattered && !row.is_told_anywhere);
    where.also.insert(where.also.begin(), where.text);
    places.rules.push_back(std::move(where.also));
  }
  if (e.shown == 0) return std::nullopt;
  e.places = places.texts();
  if (!e.places.empty()) e.where = e.places.front();
  return e;
}

}  // namespace

Where where_shown(const AnswerTensor& t, std::span<const std::int64_t> shown, std::span<const std::int64_t> hidden) {
  const std::int64_t cols = std::max<std::int64_t>(1, t.info.cols);
  const auto row = [cols](std::int64_t i) { return i / cols; };
  const auto col = [cols](std::int64_t i) { return i % cols; };
  const std::int64_t rows_of_block = std::max<std::int64_t>(1, t.info.block_rows);
  const std::int64_t cols_of_block = t.info.block_cols > 0 ? t.info.block_cols : cols;
  const auto block = [=](std::int64_t i) {
    return i / cols / rows_of_block * (cols / cols_of_block + 1) + i % cols / cols_of_block;
  };
  const SharedRules shared(t, shown, hidden);
  Where where{.text = range_text(shown, hidden, "column", col), .also = shared.all()};
  if (where.text.empty()) where.text = range_text(shown, hidden, "row", row);
  if (where.text.empty()) where.text = range_text(shown, hidden, "element", [](std::int64_t i) { return i; });
  if (where.text.empty() && !shared.edges.empty()) where.text = shared.edges.front();
  if (!where.text.empty()) return where;
  where.is_scattered = !shared.classes.empty() || shared.remainders.empty();
  if (!where.also.empty()) where.text = (shared.classes.empty() ? shared.remainders : shared.classes).front();
  const auto parity = [&](auto of, const char* units) {
    const auto odd = [&](std::int64_t i) { return of(i) % 2; };
    if (!where.text.empty() || range_text(shown, hidden, "", odd).empty()) return;
    where.text = std::string(odd(shown.front()) == 1 ? "in odd " : "in even ") + units;
  };
  parity(col, "columns"), parity(row, "rows");
  const bool has_blocks = t.info.block_cols > 0;
  if (where.text.empty()) where.text = units_text(shown, hidden, has_blocks ? "blocks" : "rows", block);
  if (where.text.empty() && shown.size() >= kMostlyShown * hidden.size())
    where.text = units_text(shown, hidden, "elements", [](std::int64_t i) { return i; });
  return where;
}

namespace {

// by_place: outputs may follow from a wrong one by rows that have the candidate's own bits there.
std::vector<Explanation> explanations(std::span<const AnswerTensor> outputs, const Table& own, const Table& general,
                                      bool by_place) {
  std::vector<Explanation> all;
  std::int64_t wrong = 0;
  std::vector<bool> is_wrong, follows(outputs.size());
  for (const AnswerTensor& t : outputs) {
    is_wrong.push_back(!same_elements(t.info, t.expected, t.observed));
    const auto count = static_cast<std::int64_t>(t.observed.size() / bytes_of_element(t.info));
    for (std::int64_t i = 0; is_wrong.back() && i < count; ++i)
      wrong += same_element(t.info, t.expected, t.observed, i) ? 0 : 1;
  }
  std::string remark;
  for (const Definition& row : own) {
    for (std::size_t i = 0; row.derived && i < outputs.size(); ++i) {
      if (!is_wrong[i] || follows[i] || (!row.remark.empty() && !by_place)) continue;
      const Bytes bytes = bytes_of_row(row, i);
      if (bytes.empty() || !same_elements(outputs[i].info, bytes, outputs[i].observed)) continue;
      follows[i] = true;
      if (!row.remark.empty()) remark = row.remark;
    }
  }
  // An output follows from another one that is wrong, not from itself.
  std::vector<bool> of_its_own = is_wrong;
  for (std::size_t i = 0; i < outputs.size(); ++i) of_its_own[i] = is_wrong[i] && !follows[i];
  if (std::ranges::find(of_its_own, true) != of_its_own.end()) is_wrong = std::move(of_its_own);
  for (const Table* table : {&own, &general}) {
    const bool is_general = table == &general;
    Table rows = *table;
    if (!by_place) std::erase_if(rows, [](const Definition& row) { return !row.remark.empty(); });
    for (std::string& name : names_that_explain(outputs, rows)) {
      const auto row = std::ranges::find(rows, name, &Definition::name);
      const bool is_told = row != rows.end() && row->is_told_anywhere;
      all.push_back(
          {.name = std::move(name), .remark = remark, .shown = wrong, .is_general = is_general, .is_told = is_told});
    }
    for (const Definition& row : rows) {
      if (row.derived) continue;
      std::optional<Explanation> e;
      try {
        e = confined(outputs, is_wrong, row);
      } catch (const RowNotComputed&) {
        e = Explanation{.name = row.name, .is_silent = true};
      }
      if (!e || std::ranges::find(all, e->name, &Explanation::name) != all.end()) continue;
      e->is_general = is_general, e->remark = remark;
      all.push_back(std::move(*e));
    }
  }
  return all;
}

}  // namespace

std::vector<Explanation> explanations_of(std::span<const AnswerTensor> outputs, const Table& own,
                                         const Table& general) {
  std::vector<Explanation> all = explanations(outputs, own, general, false);
  if (std::ranges::all_of(own, [](const Definition& row) { return row.remark.empty(); })) return all;
  for (Explanation& e : explanations(outputs, own, general, true)) {
    if (std::ranges::find(all, e.name, &Explanation::name) == all.end()) all.push_back(std::move(e));
  }
  return all;
}

void Causes::add(std::vector<Explanation> of_case, std::int64_t elements) {
  ++cases_;
  for (Explanation& e : of_case) {
    const auto at = std::ranges::find(seen_, e.name, [](const Seen& s) { return s.first.name; });
    Seen& seen = at != seen_.end() ? *at : seen_.emplace_back();
    if (++seen.cases == 1) seen.first.name = e.name;
    if (e.is_silent) continue;
    ++seen.extent.cases, seen.extent.elements += elements;
    seen.shown += e.shown, seen.hidden += e.is_unruly ? 0 : e.hidden;
    seen.most_in_a_case = std::max(seen.most_in_a_case, e.shown);
    seen.scattered = seen.scattered || e.is_scattered;
    if (!e.remark.empty()) seen.remark = e.remark;
    seen.unruly += e.is_unruly ? 1 : 0;
    if (!e.where.empty() && ++seen.confined == 1) seen.places = e.places;
    if (!e.where.empty())
      std::erase_if(seen.places, [&](const auto& p) { return std::ranges::find(e.places, p) == e.places.end(); });
    if (seen.extent.cases == 1 || (seen.first.where.empty() && !e.where.empty())) seen.first = std::move(e);
  }
}

void Causes::add_right(std::span<const std::string> changing) {
  for (Seen& s : seen_) s.spared += std::ranges::find(changing, s.first.name) != changing.end() ? 1 : 0;
}

// By chance a row gives an element or two, and some rule parts those from others. A row that gives some cases exactly
// is believed of the others too; else, in scattered places, it must show in half of those that it would change.
bool Causes::Seen::is_believed() const {
  if (confined == 0 && !first.is_general) return true;
  const int exact = extent.cases - confined;
  if (exact >= kEnoughExact && kLeastShareExact * exact >= extent.cases) return shown >= kEnoughShown;
  if (unruly > 0) return false;
  if (confined >= kEnoughAlike && !places.empty()) return true;
  if (shown < kEnoughShown) return false;
  if (confined == 0) return true;
  return most_in_a_case >= kEnoughShown / 2 && (!scattered || shown >= hidden);
}

// The best ones are lowest: those that need no excuse, then no rule, then this operation's own.
std::array<int, 6> Causes::Seen::rank() const {
  return {remark.empty() ? 0 : 1,   first.is_told ? 0 : 1,
          unruly > 0 ? 1 : 0,       confined != 0 || spared != 0 ? 1 : 0,
          first.is_general ? 1 : 0, confined + 2 * unruly + spared};
}

std::vector<const Causes::Seen*> Causes::best() const {
  std::vector<const Seen*> best;
  for (const Seen& s : seen_) {
    const bool is_of_one = s.extent.cases < std::min(cases_, 2);  // the others were too large for it
    if (!is_of_every_case(s) || !s.is_believed() || (is_of_one && s.shown < kEnoughShown)) continue;
    if (!best.empty() && s.rank() < best.front()->rank()) best.clear();
    if (best.empty() || s.rank() == best.front()->rank()) best.push_back(&s);
  }
  return best;
}

std::vector<std::string> Causes::of_every_case(bool is_computed) const {
  std::vector<std::string> names;
  for (const Seen& s : seen_) {
    if (s.cases == cases_ && (!is_computed || s.extent.cases != 0)) names.push_back(s.first.name);
  }
  return names;
}

// A rule that one case has and another has not is none.
std::string Causes::Seen::text() const {
  const std::string where = confined == 0    ? ""
                            : places.empty() ? ", only in some of the elements that it would change"
                                             : ", " + places.front();
  const std::string cases_of_rule =
      spared == 0 || confined != 0 ? "" : ", only in some of the cases that it would change";
  return first.name + where + cases_of_rule + (remark.empty() ? "" : "; " + remark);
}

std::vector<std::string> Causes::named() const {
  std::vector<std::string> names;
  for (const Seen* s : best()) names.push_back(s->text());
  return names;
}

bool NamedCause::takes(const Explanation& e) {
  if (e.name != row || e.is_silent) return false;
  if (e.where.empty()) return true;
  std::vector<std::string> shared;
  for (const std::string& place : places) {
    if (std::ranges::find(e.places, place) != e.places.end()) shared.push_back(place);
  }
  if (shared.empty()) return false;
  const std::string before = row + ", " + places.front();
  if (text.starts_with(before)) text = row + ", " + shared.front() + text.substr(before.size());
  places = std::move(shared);
  return true;
}

std::vector<NamedCause> Causes::explaining() const {
  std::vector<NamedCause> all;
  for (const Seen& s : seen_) {
    if (!is_of_every_case(s) || s.extent.cases == 0 || s.unruly > 0) continue;
    all.push_back(
        {s.first.name, s.text(), s.extent.cases, s.extent.elements, s.confined != 0 || s.spared != 0, s.places});
  }
  return all;
}

Causes::Extent Causes::extent() const {
  const std::vector<const Seen*> names = best();
  return names.empty() ? Extent{cases_, 0} : names.front()->extent;
}

bool Causes::is_settled() const {
  const std::vector<const Seen*> names = best();
  return names.size() == 1 && names.front()->confined == 0 && names.front()->spared == 0 &&
         !names.front()->first.is_general && cases_ > 1;
}

}  // namespace mxcheck
