// The definitions that explain a failure: those that give every bit of each case like it that fails.

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "numerics/error.h"
#include "properties/core/ahead.h"
#include "properties/core/check.h"
#include "properties/core/limits.h"
#include "properties/core/operation.h"
#include "properties/gate/statement_run.h"

namespace mxcheck {

std::optional<Finding> StatementRun::explained(const Case& c, const std::vector<std::string>* among) {
  context_.thorough = true, context_.causes = among;
  std::optional<Finding> finding = check_uncounted(c);
  context_.thorough = false, context_.causes = nullptr;
  if (!finding || finding->kind != FindingKind::mismatch || finding->matched == 0) return std::nullopt;
  return finding;
}

// Cases that may fail as this one did: its variant's enumerated cases, and itself and the smallest one with other
// values and seeds, as large and a little larger; of each in turn, since a few alike tell nothing apart.
std::vector<Case> StatementRun::cases_like(const Case& original, const Case& minimal) const {
  constexpr std::int64_t kMostElements = 4096, kMostOfCorners = std::int64_t{1} << 17, kMoreRows = 5, kMoreCols = 70;
  const Statement& s = *result_.statement;
  const Operation& operation = operation_named(original.variant.operation);
  const std::set<Data> data(s.data.begin(), s.data.end());  // each once
  std::array<std::vector<Case>, 5> lists;
  if (s.corners) lists[0] = s.corners(original.variant, Suite::full);
  std::erase_if(lists[0], [](const Case& c) { return c.elements() > kMostOfCorners; });
  const auto add = [&](Case small, std::vector<Case>& larger, std::vector<Case>& as_large) {
    small.plants.clear();
    while (small.elements() > kMostElements && small.rows > 1) operation.halve_rows(small);
    for (std::uint64_t seed = 1; seed <= 2 && small.elements() <= kMostElements; ++seed) {
      for (const Data one : data) {
        small.data = one, small.seed = seed;
        as_large.push_back(small);
        larger.push_back(small);
        larger.back().seed += 2;
        if (!small.experts.empty() || small.stride != 0) continue;
        larger.back().rows += kMoreRows, larger.back().cols += kMoreCols;  // places differ where there are several
        operation.fit(larger.back());
      }
    }
  };
  add(original, lists[1], lists[2]);
  if (minimal != original) add(minimal, lists[3], lists[4]);
  std::vector<Case> cases;
  for (std::size_t i = 0; std::ranges::any_of(lists, [&](const auto& list) { return i < list.size(); }); ++i) {
    for (const std::vector<Case>& list : lists) {
      if (i < list.size()) cases.push_back(within_limits(list[i], limits_of(original.variant)));
    }
  }
  std::erase(cases, original), std::erase(cases, minimal);
  return cases;
}

// One case, and a small one above all, matches many definitions by accident: a cause explains the case as found and
// every other one that fails.
void StatementRun::name_causes(const Case& original, const Case& minimal, Finding& finding,
                               const std::set<DifferenceKind>& only) {
  Causes causes;
  std::vector<std::string> names;
  const auto add = [&](const Case& c) {
    std::optional<Finding> f = explained(c, causes.cases() == 0 ? nullptr : &names);
    if (!f || (!only.empty() && (!f->difference || f->difference->kinds != only))) return false;
    if (causes.cases() < 2) finding.likely = std::move(f->likely);
    causes.add(std::move(f->explained_by), f->matched);
    names = causes.of_every_case();
    return true;
  };
  finding.matched = 0;
  if (!add(minimal)) return;
  finding.matches_case_as_found = original == minimal || add(original);  // it may be too large
  compare_cases_like(original, minimal, causes, names, add);
  finding.matched = causes.extent().elements;
  finding.matched_others = causes.extent().cases - 1;
  finding.matches = causes.named();
  finding.explaining = causes.explaining();
  if (!finding.matches.empty()) return finding.likely.clear();
  const std::optional<Finding> alone = stop() ? std::nullopt : explained(original, nullptr);
  if (alone) finding.likely = alone->likely;
  for (std::size_t i = 0; alone && i < std::min<std::size_t>(alone->matches.size(), 2); ++i)
    finding.likely.push_back(alone->matches[i] + ": every bit of the case as found, and not of each that fails");
}

// Further cases that fail; and of those that do not, while several names are left, whether a row would change them.
void StatementRun::compare_cases_like(const Case& original, const Case& minimal, Causes& causes,
                                      const std::vector<std::string>& names,
                                      const std::function<bool(const Case&)>& add) {
  constexpr int kEnoughFailing = 8, kEnoughOfSeveral = 48, kEnoughRight = 32, kMostTried = 160;
  constexpr std::int64_t kMostWorkOfRight = std::int64_t{1} << 20, kMostWork = std::int64_t{1} << 28;
  constexpr std::chrono::seconds kMostTime{15};  // the budget of work ends first, but on a machine that is busy
  const auto end = std::chrono::steady_clock::now() + kMostTime;
  int tried = 0, right = 0;
  std::int64_t work = 0;  // of the reference: an answer of its own for each row
  for (const Case& c : cases_like(original, minimal)) {
    const std::ptrdiff_t known = std::ssize(causes.of_every_case(true));  // of the others nothing is known yet
    const int enough = known == 1 ? kEnoughFailing : kEnoughOfSeveral;
    if (names.empty() || causes.cases() > enough || tried == kMostTried || stop()) return;
    if (causes.is_settled() && causes.cases() > 3) return;
    work += operation_named(c.variant.operation).work(c) * (2 + known);
    if (work > kMostWork || std::chrono::steady_clock::now() > end) return;
    try {
      const bool fails = add(c);
      const bool is_right =
          !fails && !context_.not_applicable && !context_.not_offered && result_.statement->repeats_bits;
      if (is_right && names.size() > 1 && right < kEnoughRight &&
          operation_named(c.variant.operation).work(c) <= kMostWorkOfRight) {
        causes.add_right(rows_that_change(*pose(c).problem, names));
        ++right;
      }
    } catch (const Error&) {  // no case of this operation
    }
    if (!context_.not_applicable) ++tried;
  }
}

bool StatementRun::is_explained_by(Finding& known, const Case& c) {
  std::vector<NamedCause*> causes;
  std::vector<std::string> rows;
  for (NamedCause& cause : known.explaining) {
    if (std::ranges::find(known.matches, cause.text) != known.matches.end())
      causes.push_back(&cause), rows.push_back(cause.row);
  }
  if (rows.empty() || operation_named(c.variant.operation).work(c) > kMostWorkToName) return false;
  const std::optional<Finding> found = explained(c, &rows);
  if (!found) return false;
  std::vector<std::string> texts;
  for (NamedCause* cause : causes) {
    if (std::ranges::any_of(found->explained_by, [&](const Explanation& e) { return cause->takes(e); }))
      texts.push_back(cause->text);
  }
  if (texts.empty()) return false;
  known.matches = std::move(texts);  // one that does not give this case is none of the fault
  return true;
}

// One fault makes several statements fail, and each names what explains its own cases: the same row, where it explains
// all of them.

namespace {

const NamedCause* cause_of_row(const Finding& finding, const std::string& row) {
  const auto at = std::ranges::find(finding.explaining, row, &NamedCause::row);
  return at == finding.explaining.end() ? nullptr : &*at;
}

bool is_named(const Finding& finding, const NamedCause& cause) {
  return std::ranges::find(finding.matches, cause.text) != finding.matches.end();
}

// The rows that the finding names, of which each explains as many of these as any other.
std::vector<std::string> commonest_rows(const Finding& first, const std::vector<Finding*>& findings) {
  std::vector<std::string> rows;
  std::ptrdiff_t most = 0;
  for (const NamedCause& cause : first.explaining) {
    if (!is_named(first, cause)) continue;
    const std::ptrdiff_t count =
        std::ranges::count_if(findings, [&](const Finding* f) { return cause_of_row(*f, cause.row) != nullptr; });
    if (count > most) most = count, rows.clear();
    if (count == most) rows.push_back(cause.row);
  }
  return rows;
}

// True if the finding has causes that need no rule, where this one needs it.
bool has_better(const Finding& finding, const NamedCause& than) {
  return than.is_confined && std::ranges::any_of(finding.explaining, [&](const NamedCause& cause) {
           return !cause.is_confined && is_named(finding, cause);
         });
}

void name(Finding& finding, const std::vector<std::string>& rows) {
  std::vector<const NamedCause*> causes;
  for (const std::string& row : rows) {
    const NamedCause* const cause = cause_of_row(finding, row);
    if (cause != nullptr && !has_better(finding, *cause)) causes.push_back(cause);
  }
  if (causes.empty()) return;
  finding.matches.clear(), finding.likely.clear();
  for (const NamedCause* cause : causes) finding.matches.push_back(cause->text);
  finding.matched = causes.front()->elements, finding.matched_others = causes.front()->cases - 1;
}

}  // namespace

void prefer_common_causes(std::vector<StatementResult>& results) {
  std::map<std::string, std::vector<Finding*>> by_operation;
  for (StatementResult& r : results) {
    if (!r.counterexample || r.counterexample->finding.explaining.empty()) continue;
    by_operation[r.counterexample->minimal.variant.operation].push_back(&r.counterexample->finding);
  }
  for (const auto& [operation, findings] : by_operation) {
    const auto first = std::ranges::find_if(findings, [](const Finding* f) { return !f->matches.empty(); });
    if (first == findings.end()) continue;
    const std::vector<std::string> rows = commonest_rows(**first, findings);
    for (Finding* finding : findings) name(*finding, rows);
  }
}

}  // namespace mxcheck
