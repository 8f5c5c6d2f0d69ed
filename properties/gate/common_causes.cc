#include "properties/gate/common_causes.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace mxcheck {
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
