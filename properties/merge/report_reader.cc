#include "properties/merge/report_reader.h"

#include <array>
#include <limits>

#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/gate/judgement.h"
#include "properties/merge/counterexample_reader.h"

namespace mxcheck {
namespace {

constexpr int kMaxDepth = 12;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kMostEntries = 1'000'000;
// The order in which reports have them: JSON was read with its keys sorted.
constexpr std::array<const char*, 5> kMachine{"mxcheck", "compiler", "cpu", "system", "gpu"};

double number(JsonObject& o, const char* key) {
  const Json& value = o.required(key);
  if (const auto* x = value.get_if<double>()) return *x;
  if (const auto x = integer_in(value, 0, kMost)) return static_cast<double>(*x);
  o.refuse(key, "is no number");
}

std::uint64_t counter(JsonObject& o, const char* key) {
  const Json& value = o.required(key);
  if (const auto* x = value.get_if<std::uint64_t>()) return *x;
  if (const auto* x = value.get_if<std::int64_t>(); x != nullptr && *x >= 0) return static_cast<std::uint64_t>(*x);
  o.refuse(key, "is no integer of 0 to 2^64 - 1");
}

Verdict verdict_from(JsonObject& o) {
  const std::string word = any_text(o, "verdict");
  if (word == "held") return Verdict::held;
  if (word == "failed") return Verdict::failed;
  if (word == "not_offered") return Verdict::not_offered;
  if (word == "inconclusive") return Verdict::inconclusive;
  o.refuse("verdict", "is no verdict");
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
                    bin.integer("nothing_claimed", 0, kMost)});
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
  c.missed = texts(o, "missed");
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
    if (!value || *value < 0) o.refuse("cases_by_variant", "is no list of VARIANT:CHECKED/REFUSED/NOTHING");
    numbers[i] = *value;
    at = end + 1;
  }
  if (numbers[0] >= static_cast<std::int64_t>(variants))
    o.refuse("cases_by_variant", "names a variant that there is not");
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
  o.finish();
}

StatementResult statement_from(const Json& json, std::size_t variants, const std::string& where) {
  JsonObject o(json, where + ": statements");
  StatementResult r;
  const std::string name = any_text(o, "name");
  r.statement = find_statement(name);
  if (r.statement == nullptr) o.refuse("name", "is no statement of this mxcheck: " + name);
  r.verdict = verdict_from(o), r.reason = any_text(o, "reason");
  r.cases = o.integer("cases", 0, kMost), r.nothing_claimed = o.integer("nothing_claimed", 0, kMost);
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
    if (find_operation(info.name) == nullptr) each.refuse("name", "is no operation of this mxcheck");
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
  if (o.has("shard")) r.shard = shard_from(o.required("shard"), where);
  if (o.has("missing_shards")) {
    for (const Json& shard : o.list("missing_shards", kMostShards)) {
      const auto index = integer_in(shard, 1, kMostShards);
      if (!index) o.refuse("missing_shards", "has an element that is no shard");
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

}  // namespace

GateReport report_from_json(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where, kMaxDepth, ErrorKind::input);
  try {
    JsonObject o(json, where);
    if (any_text(o, "schema") != "mxcheck.gate/1")
      o.refuse("schema", "is not mxcheck.gate/1: no report of mxcheck gate --json");
    if (o.has("soak")) o.refuse("soak", "is of a run that is not dealt to shards");
    GateReport r;
    read_run(o, r, where);
    r.candidate = candidate_from(o.required("candidate"), where);
    for (const std::string& variant : texts(o, "variants")) r.variants.push_back(parse_variant(variant));
    for (const Json& statement : o.list("statements", kMostEntries))
      r.statements.push_back(statement_from(statement, r.variants.size(), where));
    o.finish();
    return r;
  } catch (const Error& e) {
    const std::string what = e.what();
    throw Error(ErrorKind::input, what.starts_with(where) ? what : where + ": " + what);
  }
}

}  // namespace mxcheck
