#include "properties/merge/merge.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/gate/gate.h"
#include "properties/records/replay.h"

namespace mxcheck {
namespace {

void require_same(const ShardReport& a, const ShardReport& b, const char* what, const std::string& of_a,
                  const std::string& of_b) {
  if (of_a == of_b) return;
  refuse_input(fmt::format("{} and {} are not of one run: {} '{}' and '{}'", a.name, b.name, what, of_a, of_b));
}

std::string limits_and_operations(const CandidateInfo& c) {
  return join(c.operations, "; ", [](const OperationInfo& o) {
    return fmt::format("{} {} {} {} {} {}", o.name, o.contract, o.max_rows, o.max_cols, o.rows_multiple,
                       o.cols_multiple);
  });
}

void require_same_run(const ShardReport& a, const ShardReport& b) {
  const GateReport& x = a.report;
  const GateReport& y = b.report;
  require_same(a, b, "mxcheck", x.machine.front().second, y.machine.front().second);
  require_same(a, b, "candidate", x.candidate.name + " " + x.candidate.version,
               y.candidate.name + " " + y.candidate.version);
  require_same(a, b, "candidate digest", x.candidate.digest, y.candidate.digest);
  require_same(a, b, "operations", limits_and_operations(x.candidate), limits_and_operations(y.candidate));
  require_same(a, b, "suite", x.suite, y.suite);
  require_same(a, b, "seed", std::to_string(x.seed), std::to_string(y.seed));
  require_same(a, b, "arguments", x.arguments, y.arguments);
  require_same(a, b, "number of shards", std::to_string(x.shard.count), std::to_string(y.shard.count));
  if (!b.has_variants_of_first && x.variants != y.variants)
    refuse_input(fmt::format("{} and {} are not of one run: other variants are offered", a.name, b.name));
}

Suite suite_of(const std::string& word, const std::string& name) {
  for (const Suite suite : {Suite::quick, Suite::full, Suite::exhaustive}) {
    if (word == to_text(suite)) return suite;
  }
  refuse_input(name + ": no suite '" + word + "'");
}

// One statement, from the results of all shards that came to it.
class Merging {
 public:
  Merging(const Statement& statement, const GateReport& run, Suite suite)
      : run_(run), runner_(run.candidate), shard_count_(run.shard.count) {
    result_.statement = &statement;
    std::vector<Variant> variants;
    for (std::size_t i = 0; i < run.variants.size(); ++i) {
      if (!statement.applies(run.variants[i], run.variants)) continue;
      variants.push_back(run.variants[i]);
      result_.by_variant.push_back({i});
    }
    result_.variants = static_cast<std::int64_t>(variants.size());
    parts_ = parts_of(statement, variants, suite, statement.covers_pairs && run.random_cases == 0, runner_);
  }

  void add(const StatementResult& r, int shard) {
    result_.cases += r.cases, result_.not_applicable += r.not_applicable;
    result_.options_not_offered += r.options_not_offered, result_.seconds += r.seconds;
    keep_common(result_.refused_options, r.refused_options);
    ++reports_;
    for (const VariantCount& v : r.by_variant) add(v);
    add_parts(r);
    if (r.verdict == Verdict::inconclusive && open_.empty()) open_ = r.reason;
    const bool has_no_case =
        r.cases == 0 && (r.options_not_offered + r.not_applicable > 0 || r.reason == kNoCaseOfShard);
    if (r.verdict == Verdict::not_offered && !has_no_case && never_.empty()) never_ = r.reason;
    if (!r.counterexample) return;
    failed_in_.push_back(shard);
    const bool is_smaller =
        !result_.counterexample || r.counterexample->minimal.elements() < result_.counterexample->minimal.elements();
    if (is_smaller) result_.counterexample = r.counterexample;
  }

  StatementResult take() {
    for (const Part& part : parts_) result_.coverage.push_back(part.report());
    if (result_.counterexample) {
      result_.verdict = Verdict::failed;
      result_.reason = fmt::format("in shard{} {}", failed_in_.size() == 1 ? "" : "s",
                                   join(failed_in_, ", ", [](int shard) { return std::to_string(shard + 1); }));
    } else if (!open_.empty()) {
      result_.verdict = Verdict::inconclusive, result_.reason = open_;
    } else if (!never_.empty()) {
      result_.verdict = Verdict::not_offered, result_.reason = never_;
    } else if (reports_ < shard_count_) {  // nothing is known of the bins that the others met
      result_.verdict = Verdict::inconclusive;
      result_.reason = fmt::format("of {} shards {} reported on it", shard_count_, reports_);
    } else {
      judge(result_, "", "", Shard{});
    }
    return std::move(result_);
  }

 private:
  void add(const VariantCount& v) {
    const auto mine = std::find_if(result_.by_variant.begin(), result_.by_variant.end(),
                                   [&](const VariantCount& own) { return own.variant == v.variant; });
    if (mine == result_.by_variant.end())
      refuse_input(std::string(result_.statement->name) + " is not about " + to_text(run_.variants.at(v.variant)));
    mine->checked += v.checked, mine->refused += v.refused, mine->not_applicable += v.not_applicable;
  }

  // A shard has the states of the operations that it has cases of.
  void add_parts(const StatementResult& r) {
    if (r.states.size() != r.coverage.size())
      refuse_input(std::string(result_.statement->name) + ": what was met is of other operations than its states");
    auto part = parts_.begin();
    for (std::size_t i = 0; i < r.states.size(); ++i, ++part) {  // in the order of the parts, some of them left out
      const std::string& operation = r.states[i].operation;
      part = std::find_if(part, parts_.end(), [&](const Part& p) { return p.operation() == operation; });
      if (part == parts_.end() || r.coverage[i].operation != operation)
        refuse_input(std::string(result_.statement->name) + ": what was met is of " + operation);
      add_states(*part, r.states[i], r.coverage[i]);
    }
    if (!parts_.empty()) require_states(r);
  }

  // No operation that a case was about may be left out.
  void require_states(const StatementResult& r) const {
    for (const VariantCount& v : r.by_variant) {
      const std::string& operation = run_.variants.at(v.variant).operation;
      if (v.checked + v.refused + v.not_applicable == 0 ||
          std::ranges::find(r.states, operation, &PartStates::operation) != r.states.end())
        continue;
      refuse_input(std::string(result_.statement->name) + ": what was met of " + operation + " is not there");
    }
  }

  const GateReport& run_;
  ReferenceRunner runner_;  // for the limits that the library declares
  std::vector<Part> parts_;
  StatementResult result_;
  std::string open_;   // why a shard had no verdict
  std::string never_;  // why no machine like these could have one
  std::vector<int> failed_in_;
  int shard_count_;
  int reports_ = 0;
};

// The values in which the shards' machines differ are listed, separated by semicolons.
void add_machine(GateReport& run, const GateReport& shard) {
  for (std::size_t i = 0; i < run.machine.size() && i < shard.machine.size(); ++i) {
    const std::vector<std::string_view> known = split(run.machine[i].second, ';');
    const bool is_known = std::any_of(known.begin(), known.end(), [&](std::string_view one) {
      return one == shard.machine[i].second || one == " " + shard.machine[i].second;
    });
    if (!is_known && run.machine[i].second != shard.machine[i].second)
      run.machine[i].second += "; " + shard.machine[i].second;
  }
}

}  // namespace

void require_same_shard(const ShardReport& a, const ShardReport& b) {
  require_same_run(a, b);
  require_same(a, b, "shard", to_text(a.report.shard), to_text(b.report.shard));
}

GateReport merged(std::vector<ShardReport> shards) {
  if (shards.empty()) refuse_input("no report to merge");
  for (const ShardReport& s : shards) {
    if (s.report.shard.is_whole()) refuse_input(s.name + " is the report of a whole run, not of a shard of one");
    require_same_run(shards.front(), s);
  }
  std::vector<Variant> variants = std::move(shards.front().report.variants);
  std::stable_sort(shards.begin(), shards.end(), [](const ShardReport& a, const ShardReport& b) {
    return a.report.shard.index < b.report.shard.index;
  });
  for (std::size_t i = 1; i < shards.size(); ++i) {
    if (shards[i].report.shard.index == shards[i - 1].report.shard.index)
      refuse_input(fmt::format("{} and {} are both shard {}", shards[i - 1].name, shards[i].name,
                               to_text(shards[i].report.shard)));
  }
  GateReport run = shards.front().report;  // what all have in common
  const Suite suite = suite_of(run.suite, shards.front().name);
  run.variants = std::move(variants), run.statements.clear(), run.ends.clear(), run.not_begun.clear();
  std::map<const Statement*, Merging> statements;
  std::set<const Statement*> not_begun;
  for (std::size_t i = 0, next = 0; i < static_cast<std::size_t>(run.shard.count); ++i) {
    if (next == shards.size() || shards[next].report.shard.index != static_cast<int>(i)) {
      run.missing_shards.push_back(static_cast<int>(i));
      continue;
    }
    const GateReport& shard = shards[next++].report;
    for (const StatementResult& r : shard.statements)
      statements.try_emplace(r.statement, *r.statement, run, suite).first->second.add(r, static_cast<int>(i));
    for (const std::string& end : shard.ends) run.ends.push_back("shard " + to_text(shard.shard) + ": " + end);
    run.interrupted = run.interrupted || shard.interrupted;
    not_begun.insert(shard.not_begun.begin(), shard.not_begun.end());
    run.seconds = std::max(run.seconds, shard.seconds);
    add_machine(run, shard);
  }
  for (const Statement& s : all_statements()) {
    if (const auto found = statements.find(&s); found != statements.end())
      run.statements.push_back(found->second.take());
    if (not_begun.contains(&s)) run.not_begun.push_back(&s);
  }
  run.shard = {};
  return run;
}

}  // namespace mxcheck
