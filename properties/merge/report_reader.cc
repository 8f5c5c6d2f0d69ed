#include "properties/merge/merge.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "goldens/io/byte_source.h"
#include "goldens/json/json.h"
#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/core/operation.h"
#include "properties/gate/preceding.h"
#include "reference/common/parallel.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kMostLines = 100'000;

// Texts of any length; what strict_json's text() refuses too is a text with line breaks.
std::string any_text(JsonObject& o, const char* key) {
  const auto* text = o.required(key).get_if<std::string>();
  if (text == nullptr) o.refuse(key, "is not a string");
  return *text;
}

std::vector<std::string> texts(JsonObject& o, const char* key) {
  std::vector<std::string> all;
  for (const Json& one : o.list(key, kMostLines)) {
    const auto* text = one.get_if<std::string>();
    if (text == nullptr) o.refuse(key, "has an element that is not a string");
    all.push_back(*text);
  }
  return all;
}

FindingKind kind_from(JsonObject& o) {
  const std::string word = any_text(o, "kind");
  for (const FindingKind kind :
       {FindingKind::mismatch, FindingKind::out_of_bounds, FindingKind::refused, FindingKind::fault}) {
    if (word == to_text(kind)) return kind;
  }
  o.refuse("kind", "is not a kind of finding");
}

Difference::Element place_from(JsonObject& o, const char* key) {
  const Json::Array& pair = o.list(key, 2);
  Difference::Element element;
  const auto number = [&](std::size_t i) {
    const auto value = i < pair.size() ? integer_in(pair[i], 0, kMost) : std::nullopt;
    if (!value) o.refuse(key, "is not [row, column]");
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
  if (bins == nullptr && histogram.get_if<std::monostate>() == nullptr) o.refuse("histogram", "is not an object");
  if (bins == nullptr) return d;
  for (const JsonMember& bin : *bins) {
    const auto count = integer_in(bin.value, 0, kMost);
    if (!count) o.refuse("histogram", "has an invalid count");
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

OtherFault other_from(const Json& json, const std::string& place) {
  JsonObject o(json, place);
  OtherFault other;
  const std::string kind = any_text(o, "kind");
  const auto found =
      std::ranges::find(kDifferenceKinds, kind, [](DifferenceKind k) { return std::string(to_text(k)); });
  if (found == std::end(kDifferenceKinds)) o.refuse("kind", "is not a kind of difference");
  other.kind = *found;
  other.finding.summary = any_text(o, "summary"), other.finding.element = texts(o, "element");
  other.finding.matches = texts(o, "matches"), other.finding.matched = o.integer("matched_elements", 0, kMost);
  other.finding.matched_others = static_cast<int>(o.integer("matched_others", 0, 1000));
  other.finding.matches_case_as_found = true;
  other.minimal = parse_case(any_text(o, "case"));
  (void)any_text(o, "again");  // is made anew
  o.finish();
  return other;
}

Counterexample counterexample_from(const Json& json, const Statement& statement, const std::string& place) {
  JsonObject o(json, place);
  Counterexample e;
  e.finding.kind = kind_from(o);
  e.finding.summary = any_text(o, "summary");
  e.finding.element = texts(o, "element");
  e.finding.difference = difference_from(o);
  e.finding.matches = texts(o, "matches");
  if (o.has("matched_elements")) e.finding.matched = o.integer("matched_elements", 0, kMost);
  e.finding.matches_case_as_found = o.flag("matches_case_as_found");
  if (o.has("likely")) e.finding.likely = texts(o, "likely");
  if (o.has("matched_others")) e.finding.matched_others = static_cast<int>(o.integer("matched_others", 0, 1000));
  e.minimal = parse_case(any_text(o, "case")), e.original = parse_case(any_text(o, "original"));
  if (o.integer("rows", 0, kMost) != e.minimal.rows || o.integer("cols", 0, kMost) != e.minimal.cols)
    o.refuse("rows", "are not those of the case");
  e.shrink_tries = static_cast<int>(o.integer("shrink_tries", 0, std::numeric_limits<int>::max()));
  e.shrink_budget_spent = o.flag("shrink_budget_spent");
  if (o.has("gpu")) e.gpu = any_text(o, "gpu");
  (void)any_text(o, "again");  // is made anew
  if (o.has("fresh_process"))
    e.reproduction = reproduction_from(o.required("fresh_process"), statement, place + ": fresh_process");
  if (o.has("others")) {
    for (const Json& other : o.list("others", std::size(kDifferenceKinds)))
      e.others.push_back(other_from(other, place + ": others"));
  }
  o.finish();
  return e;
}

constexpr int kMaxDepth = 12;
constexpr std::size_t kMostEntries = 1'000'000;
// The order in which reports have them: JSON was read with its keys sorted.
constexpr std::array<const char*, 5> kMachine{"mxcheck", "compiler", "cpu", "system", "gpu"};

double number(JsonObject& o, const char* key) {
  const Json& value = o.required(key);
  if (const auto* x = value.get_if<double>()) return *x;
  if (const auto x = integer_in(value, 0, kMost)) return static_cast<double>(*x);
  o.refuse(key, "is not a number");
}

std::uint64_t counter(JsonObject& o, const char* key) {
  const Json& value = o.required(key);
  if (const auto* x = value.get_if<std::uint64_t>()) return *x;
  if (const auto* x = value.get_if<std::int64_t>(); x != nullptr && *x >= 0) return static_cast<std::uint64_t>(*x);
  o.refuse(key, "is not an integer from 0 to 2^64 - 1");
}

Verdict verdict_from(JsonObject& o) {
  const std::string word = any_text(o, "verdict");
  if (word == "held") return Verdict::held;
  if (word == "failed") return Verdict::failed;
  if (word == "not_offered") return Verdict::not_offered;
  if (word == "inconclusive") return Verdict::inconclusive;
  o.refuse("verdict", "is not a verdict");
}

TupleCounts counts_from(const Json& json, const std::string& place) {
  JsonObject o(json, place);
  TupleCounts n{o.integer("possible", 0, kMost), o.integer("checked", 0, kMost), o.integer("set_aside", 0, kMost),
                o.integer("excluded", 0, kMost)};
  o.finish();
  return n;
}

std::vector<BinCount> bins_from(JsonObject& o, const char* key) {
  std::vector<BinCount> bins;
  for (const Json& json : o.list(key, kMostEntries)) {
    JsonObject bin(json, o.place() + ": " + key);
    bins.push_back({any_text(bin, "bin"), bin.integer("checked", 0, kMost), bin.integer("refused", 0, kMost),
                    bin.integer("not_applicable", 0, kMost)});
    bin.finish();
  }
  return bins;
}

CoverageReport coverage_from(const Json& json, const std::string& place) {
  JsonObject o(json, place);
  CoverageReport c;
  c.operation = any_text(o, "operation");
  for (const Json& axis_json : o.list("axes", kMostEntries)) {
    JsonObject axis(axis_json, place + ": axes");
    c.axes.push_back({any_text(axis, "axis"), bins_from(axis, "bins")});
    axis.finish();
  }
  c.pairs = counts_from(o.required("pairs"), place), c.triples = counts_from(o.required("triples"), place);
  c.layers = {"layers", bins_from(o, "layers")};
  c.layer_uses = counts_from(o.required("layer_uses"), place);
  c.missed = texts(o, "missed"), c.without_case = texts(o, "without_case");
  o.finish();
  return c;
}

// "12:3/0/1": variant, checked, refused, nothing claimed.
VariantCount variant_count_from(JsonObject& o, std::string_view text, std::size_t variants) {
  std::array<std::int64_t, 4> numbers{};
  std::size_t at = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::size_t end = i == 3 ? text.size() : std::min(text.find(i == 0 ? ':' : '/', at), text.size());
    const auto value = at <= end ? parse_number<std::int64_t>(text.substr(at, end - at)) : std::nullopt;
    if (!value || *value < 0) o.refuse("cases_by_variant", "is not a list of VARIANT:CHECKED/REFUSED/NOTHING");
    numbers[i] = *value;
    at = end + 1;
  }
  if (numbers[0] >= static_cast<std::int64_t>(variants)) o.refuse("cases_by_variant", "names an unknown variant");
  return {static_cast<std::size_t>(numbers[0]), numbers[1], numbers[2], numbers[3]};
}

void read_to_merge(const Json& json, StatementResult& r, std::size_t variants, const std::string& place) {
  JsonObject o(json, place);
  for (const Json& states : o.list("states", kMostEntries)) {
    JsonObject part(states, place + ": states");
    r.states.push_back(
        {any_text(part, "operation"), any_text(part, "covering"), any_text(part, "triples"), any_text(part, "layers")});
    part.finish();
  }
  const std::string counts = any_text(o, "cases_by_variant");
  for (const std::string_view one : split(counts, ',')) r.by_variant.push_back(variant_count_from(o, one, variants));
  if (o.has("refused_options")) {
    const std::vector<std::string> options = texts(o, "refused_options");
    r.refused_options.emplace(options.begin(), options.end());
  }
  o.finish();
}

StatementResult statement_from(const Json& json, std::size_t variants, const std::string& where) {
  JsonObject o(json, where + ": statements");
  StatementResult r;
  const std::string name = any_text(o, "name");
  r.statement = find_statement(name);
  if (r.statement == nullptr) o.refuse("name", "is not a statement of this mxcheck: " + name);
  r.verdict = verdict_from(o), r.reason = any_text(o, "reason");
  r.cases = o.integer("cases", 0, kMost), r.not_applicable = o.integer("not_applicable", 0, kMost);
  r.options_not_offered = o.integer("options_not_offered", 0, kMost), r.variants = o.integer("variants", 0, kMost);
  r.seconds = number(o, "seconds");
  (void)o.required("not_offered");  // follows from the coverage
  for (const Json& coverage : o.list("coverage", kMostEntries))
    r.coverage.push_back(coverage_from(coverage, where + ": " + name));
  if (o.has("to_merge")) read_to_merge(o.required("to_merge"), r, variants, where + ": " + name);
  if (o.has("counterexample"))
    r.counterexample = counterexample_from(o.required("counterexample"), *r.statement, where + ": " + name);
  if (r.counterexample.has_value() != (r.verdict == Verdict::failed))
    o.refuse("verdict", "contradicts the counterexample");
  o.finish();
  return r;
}

CandidateInfo candidate_from(const Json& json, const std::string& where) {
  JsonObject o(json, where + ": candidate");
  CandidateInfo c;
  c.name = any_text(o, "name"), c.version = any_text(o, "version"), c.path = any_text(o, "path");
  c.digest = any_text(o, "digest"), c.cuda = o.flag("cuda");
  if (o.has("unconfined")) c.unconfined = any_text(o, "unconfined");
  for (const Json& operation : o.list("operations", kMostEntries)) {
    JsonObject each(operation, where + ": operations");
    OperationInfo info{any_text(each, "name"),
                       any_text(each, "contract"),
                       each.integer("max_rows", 0, kMost),
                       each.integer("max_cols", 0, kMost),
                       each.integer("rows_multiple", 1, kMost),
                       each.integer("cols_multiple", 1, kMost)};
    if (each.has("claimed_for")) info.listed = any_text(each, "claimed_for");
    if (find_operation(info.name) == nullptr) each.refuse("name", "is not an operation of this mxcheck");
    each.finish();
    c.operations.push_back(std::move(info));
  }
  o.finish();
  return c;
}

Shard shard_from(const Json& json, const std::string& where) {
  JsonObject o(json, where + ": shard");
  Shard shard;
  shard.count = static_cast<int>(o.integer("count", 2, kMostShards));
  shard.index = static_cast<int>(o.integer("index", 1, shard.count)) - 1;
  shard.may_be_empty = o.flag("may_be_empty");
  o.finish();
  return shard;
}

void read_run(JsonObject& o, GateReport& r, const std::string& where) {
  (void)o.integer("exit_code", 0, 255);
  r.seed = counter(o, "seed"), r.suite = any_text(o, "suite"), r.arguments = any_text(o, "arguments");
  r.random_cases = static_cast<int>(o.integer("random_cases", 0, std::numeric_limits<int>::max()));
  r.selective = o.flag("selective"), r.one_case = o.flag("one_case"), r.interrupted = o.flag("interrupted");
  if (o.has("not_begun")) {
    for (const std::string& name : texts(o, "not_begun")) r.not_begun.push_back(&statement_named(name, where + ": "));
  }
  if (o.has("shard")) r.shard = shard_from(o.required("shard"), where);
  if (o.has("missing_shards")) {
    for (const Json& shard : o.list("missing_shards", kMostShards)) {
      const auto index = integer_in(shard, 1, kMostShards);
      if (!index) o.refuse("missing_shards", "has an element that is not a shard");
      r.missing_shards.push_back(static_cast<int>(*index) - 1);
    }
  }
  r.seconds = number(o, "seconds");
  if (o.has("ends")) r.ends = texts(o, "ends");
  if (!r.one_case) (void)o.required("not_seen");  // follows from the suite
  JsonObject machine(o.required("machine"), where + ": machine");
  for (const char* key : kMachine) r.machine.emplace_back(key, any_text(machine, key));
  machine.finish();
}

// The variants of a report as its writer lays them out: a string of JSON has no line breaks, so that this can be the
// member alone. They are most of a small shard's text.
struct VariantsText {
  std::string text;  // from its key to its bracket; empty: laid out otherwise
  std::size_t count = 0;
};
constexpr std::string_view kVariantsBegin = "\n  \"variants\": [", kVariantsEnd = "\n  ]";

std::string_view variants_in(std::string_view text) {
  const std::size_t begin = text.find(kVariantsBegin);
  const std::size_t end = begin == std::string_view::npos ? begin : text.find(kVariantsEnd, begin);
  return end == std::string_view::npos ? std::string_view{} : text.substr(begin, end + kVariantsEnd.size() - begin);
}

// known: the variants of a text that had them taken out, or null.
ShardReport report_from(std::string_view text, const std::string& where, const VariantsText* known) {
  const Json json = parse_json(text, where, kMaxDepth, ErrorKind::input);
  try {
    JsonObject o(json, where);
    if (any_text(o, "schema") != "mxcheck.gate/1")
      o.refuse("schema", "is not mxcheck.gate/1: no report of mxcheck gate --json");
    if (o.has("soak")) o.refuse("soak", "belongs to a run without shards");
    ShardReport shard{where, {}, false};
    GateReport& r = shard.report;
    read_run(o, r, where);
    r.candidate = candidate_from(o.required("candidate"), where);
    for (const std::string& variant : texts(o, "variants")) r.variants.push_back(parse_variant(variant));
    shard.has_variants_of_first = known != nullptr;
    const std::size_t variants = known != nullptr ? known->count : r.variants.size();
    for (const Json& statement : o.list("statements", kMostEntries))
      r.statements.push_back(statement_from(statement, variants, where));
    o.finish();
    return shard;
  } catch (const Error& e) {
    const std::string what = e.what();
    throw Error(ErrorKind::input, what.starts_with(where) ? what : where + ": " + what);
  }
}

// first: to be set where it is empty, or to be left out of the text where that has the same.
ShardReport report_in(const std::string& file, VariantsText& first) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;
  const FileSource source(file);
  if (source.size() > kMostBytes) refuse_input(file + ": larger than any report, 1 GiB");
  std::string text = source.text();
  const std::string_view variants = variants_in(text);
  if (first.text.empty() || variants != first.text) {
    ShardReport report = report_from(text, file, nullptr);
    if (first.text.empty()) first = {std::string(variants), report.report.variants.size()};
    return report;
  }
  text.replace(static_cast<std::size_t>(variants.data() - text.data()), variants.size(),
               std::string(kVariantsBegin) + "]");
  return report_from(text, file, &first);
}

}  // namespace

GateReport report_from_json(std::string_view text, const std::string& where) {
  return report_from(text, where, nullptr).report;
}

ShardReport read_report(const std::string& file) {
  VariantsText none;
  return report_in(file, none);
}

std::vector<ShardReport> read_reports(const std::vector<std::string>& files) {
  std::vector<ShardReport> reports(files.size());
  if (files.empty()) return reports;
  VariantsText first;
  reports.front() = report_in(files.front(), first);
  constexpr std::int64_t kWorkOfReport = 1'000'000;
  const std::int64_t others = std::ssize(files) - 1;
  parallel_ranges(others, others * kWorkOfReport, 0, [&](std::int64_t begin, std::int64_t end) {
    VariantsText variants = first;
    for (auto i = static_cast<std::size_t>(begin) + 1; i <= static_cast<std::size_t>(end); ++i)
      reports[i] = report_in(files[i], variants);
  });
  return reports;
}

}  // namespace mxcheck
