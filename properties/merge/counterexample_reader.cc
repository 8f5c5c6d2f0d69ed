#include "properties/merge/counterexample_reader.h"

#include <array>
#include <limits>

namespace mxcheck {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kMostLines = 100'000;

FindingKind kind_from(JsonObject& o) {
  const std::string word = any_text(o, "kind");
  for (const FindingKind kind :
       {FindingKind::mismatch, FindingKind::out_of_bounds, FindingKind::refused, FindingKind::fault}) {
    if (word == to_text(kind)) return kind;
  }
  o.refuse("kind", "is no kind of finding");
}

Difference::Element place_from(JsonObject& o, const char* key) {
  const Json::Array& pair = o.list(key, 2);
  Difference::Element element;
  const auto number = [&](std::size_t i) {
    const auto value = i < pair.size() ? integer_in(pair[i], 0, kMost) : std::nullopt;
    if (!value) o.refuse(key, "is no [row, column]");
    return *value;
  };
  element.row = number(0), element.col = number(1);
  return element;
}

std::optional<Difference> difference_from(JsonObject& o) {
  if (!o.has("tensor")) return std::nullopt;
  Difference d;
  d.tensor.name = any_text(o, "tensor");
  d.tensor.rows = o.integer("tensor_rows", 0, kMost), d.tensor.cols = o.integer("tensor_cols", 0, kMost);
  d.count = o.integer("differing", 0, kMost), d.total = o.integer("total", 0, kMost);
  d.first = place_from(o, "first");
  d.first_alone = !o.has("worst");
  if (!d.first_alone) d.last = place_from(o, "last"), d.worst = place_from(o, "worst");
  d.neighbours = any_text(o, "neighbours"), d.pattern = any_text(o, "pattern");
  const Json& histogram = o.required("histogram");
  const auto* bins = histogram.get_if<Json::Object>();
  if (bins == nullptr && histogram.get_if<std::monostate>() == nullptr) o.refuse("histogram", "is no object");
  if (bins == nullptr) return d;
  for (const JsonMember& bin : *bins) {
    const auto count = integer_in(bin.value, 0, kMost);
    if (!count) o.refuse("histogram", "has a count that is none");
    d.histogram[bin.key] = *count;
  }
  return d;
}

Reproduction reproduction_from(const Json& json, const Statement& statement, const std::string& place) {
  JsonObject o(json, place);
  Reproduction r;
  r.reproduced = o.flag("reproduced");
  for (const std::string& text : texts(o, "after")) r.after.push_back(parse_preceding(text, statement));
  constexpr auto kMostTimes = std::numeric_limits<int>::max();
  if (o.has("of")) {
    r.seen = static_cast<int>(o.integer("seen", 0, kMostTimes));
    r.of = static_cast<int>(o.integer("of", 0, kMostTimes));
  }
  o.finish();
  return r;
}

}  // namespace

std::string any_text(JsonObject& o, const char* key) {
  const auto* text = o.required(key).get_if<std::string>();
  if (text == nullptr) o.refuse(key, "is no text");
  return *text;
}

std::vector<std::string> texts(JsonObject& o, const char* key) {
  std::vector<std::string> all;
  for (const Json& one : o.list(key, kMostLines)) {
    const auto* text = one.get_if<std::string>();
    if (text == nullptr) o.refuse(key, "has an element that is no text");
    all.push_back(*text);
  }
  return all;
}

Counterexample counterexample_from(const Json& json, const Statement& statement, const std::string& place) {
  JsonObject o(json, place);
  Counterexample e;
  e.finding.kind = kind_from(o);
  e.finding.summary = any_text(o, "summary");
  e.finding.element = texts(o, "element");
  e.finding.difference = difference_from(o);
  e.finding.matches = texts(o, "matches");
  e.minimal = parse_case(any_text(o, "case")), e.original = parse_case(any_text(o, "original"));
  if (o.integer("rows", 0, kMost) != e.minimal.rows || o.integer("cols", 0, kMost) != e.minimal.cols)
    o.refuse("rows", "are not those of the case");
  e.shrink_tries = static_cast<int>(o.integer("shrink_tries", 0, std::numeric_limits<int>::max()));
  e.shrink_budget_spent = o.flag("shrink_budget_spent");
  (void)any_text(o, "again");  // is made anew
  if (o.has("fresh_process"))
    e.reproduction = reproduction_from(o.required("fresh_process"), statement, place + ": fresh_process");
  o.finish();
  return e;
}

}  // namespace mxcheck
