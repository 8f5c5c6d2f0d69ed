#include "properties/report/scope_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "numerics/text.h"
#include "properties/gate/soak.h"

namespace mxcheck {

std::string limits_text(const OperationInfo& o) {
  std::vector<std::string> limits;
  if (o.max_rows > 0) limits.push_back(fmt::format("rows to {}", o.max_rows));
  if (o.max_cols > 0) limits.push_back(fmt::format("columns to {}", o.max_cols));
  if (o.rows_multiple > 1) limits.push_back(fmt::format("rows in multiples of {}", o.rows_multiple));
  if (o.cols_multiple > 1) limits.push_back(fmt::format("columns in multiples of {}", o.cols_multiple));
  return join(limits);
}

std::vector<std::string> not_seen(const GateReport& report) {
  if (report.one_case) return {};
  std::vector<std::string> all;
  if (report.suite == "soak") {
    all = {"a failure rarer than the bound, or one that depends on more than chance: a clock, another machine",
           "a fault of sizes and options that the cases drawn here do not meet (--suite full)"};
  } else {
    if (report.suite != "exhaustive") {
      all.emplace_back("one wrong FP32 word of 2^32 or one wrong logit in a million (--suite exhaustive)");
    }
    if (report.suite == "quick") all.emplace_back("sizes above 2^21 elements or 2^22 multiplications (--suite full)");
    all.emplace_back("a fault that needs three sizes or options at once, each usual by itself");
    all.emplace_back("one wrong call in 100,000 (--soak)");
  }
  if (report.selective) all.emplace_back("what the statements are about that --only left out");
  const bool limited =
      std::ranges::any_of(report.candidate.operations, [](const OperationInfo& o) { return !limits_text(o).empty(); });
  if (limited) all.emplace_back("sizes outside of the limits that the candidate declares");
  return all;
}

std::string soak_text(const GateReport& report) {
  if (!report.soak) return "";
  const SoakCount& s = *report.soak;
  std::string out = fmt::format("soak: {} calls compared in {:.1f} s ({:.0f} a second), {} failures\n", s.calls,
                                s.seconds, static_cast<double>(s.calls) / std::max(s.seconds, 1e-3), s.failures);
  if (s.failures > 0) {
    return out + fmt::format("failures: one in {:.0f} calls\n",
                             static_cast<double>(std::max(s.calls, s.failures)) / static_cast<double>(s.failures));
  }
  if (s.calls == 0) return out;
  return out + fmt::format("no failure in {} calls: below 3/n = {:.2g} a call at 95 %, if calls fail independently\n",
                           s.calls, rule_of_three(s.calls));
}

}  // namespace mxcheck
