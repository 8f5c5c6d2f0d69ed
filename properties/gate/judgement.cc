#include "properties/gate/judgement.h"

#include <fmt/format.h>

#include "numerics/text.h"

namespace mxcheck {
namespace {

// A statement of which no case was checked has not held: in words, why.
std::string why_no_case(const StatementResult& r, const Shard& shard) {
  if (r.options_not_offered > 0) {
    return fmt::format(
        "the candidate refused the options (expert offsets, row strides, row indices, ...) that each of {} "
        "cases asks for",
        r.options_not_offered);
  }
  if (r.nothing_claimed > 0) return "it says nothing about any shape within the candidate's limits";
  if (!shard.is_whole()) return std::string(kNoCaseOfShard);
  return "this suite has no case of it for what the candidate offers";
}

}  // namespace

void judge(StatementResult& r, const std::string& not_checked, const std::string& never, const Shard& shard) {
  if (!not_checked.empty()) {  // what other cases showed does not stand for these
    r.verdict = never.empty() ? Verdict::inconclusive : Verdict::not_offered;
    r.reason = not_checked;
    return;
  }
  if (r.cases == 0) {
    r.verdict = Verdict::not_offered, r.reason = why_no_case(r, shard);
    return;
  }
  if (!shard.is_whole()) return;
  for (const CoverageReport& coverage : r.coverage) {
    if (coverage.missed.empty()) continue;
    r.verdict = Verdict::inconclusive;
    r.reason = "within the candidate's limits, and not met: " + join(coverage.missed, "; ");
  }
}

}  // namespace mxcheck
