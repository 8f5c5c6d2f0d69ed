#include "properties/identify/library/library.h"

#include <algorithm>
#include <map>

#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/identify/report_json.h"

namespace mxcheck {
namespace {

constexpr int kMostEnds = 3;  // of an operation: a library that never returns takes the time limit each time

struct Offered {
  std::vector<Variant> variants;
  std::vector<std::string> not_asked;
};

// As the gate asks (properties/gate/variants.h); supports() of a library may crash too.
Offered offered_by(CandidateProcess& process, const std::vector<std::string>& wanted) {
  Offered offered;
  for (const OperationInfo& info : process.info().operations) {
    const Operation* operation = find_operation(info.name);
    const auto among = [&](const std::vector<std::string>& names) {
      return operation != nullptr && std::ranges::find(names, operation->name()) != names.end();
    };
    if (!among(operations_of(""))) offered.not_asked.push_back(info.name);
    if (!among(wanted)) continue;
    for (Variant& v : operation->askable(info.name)) {
      if (process.supports(v.operation, operation->question(v), v.dtype)) offered.variants.push_back(std::move(v));
    }
  }
  return offered;
}

std::string indented(const std::string& text) {
  std::string all;
  for (std::string_view line : split(text, '\n')) {
    if (!line.empty()) all += "  " + std::string(line) + "\n";
  }
  return all;
}

}  // namespace

std::size_t LibraryReport::holding() const {
  return static_cast<std::size_t>(std::ranges::count_if(policies, [](const auto& p) { return p.holds(); }));
}

std::size_t LibraryReport::ended() const {
  return static_cast<std::size_t>(std::ranges::count_if(policies, [](const auto& p) { return p.ended; }));
}

void check_operation(const LibraryQuestion& question) {
  if (!operations_of(question.op).empty()) return;
  throw Error(ErrorKind::usage, "'" + question.op + "' is no operation; matmul, quantize, cast, scale and route are");
}

LibraryReport identify_library(CandidateProcess& process, const LibraryQuestion& question,
                               const std::function<void(const PolicyReport&)>& each) {
  check_operation(question);
  const std::vector<std::string> wanted = operations_of(question.op);
  LibraryReport report;
  report.candidate = process.info();
  Offered offered = offered_by(process, wanted);
  report.offered = offered.variants.size();
  report.not_asked = std::move(offered.not_asked);
  std::map<std::string, int> ends;
  for (const Variant& v : asked_of(question, offered.variants)) {
    if (ends[v.operation] == kMostEnds) continue;
    report.policies.push_back(identify_policy(process, v, question));
    if (each) each(report.policies.back());
    if (!report.policies.back().ended) continue;
    process.restart();
    if (++ends[v.operation] == kMostEnds) {
      report.not_asked.push_back("the rest of " + v.operation + ", which ended its process " +
                                 std::to_string(kMostEnds) + " times");
    }
  }
  return report;
}

std::string header_text(const CandidateInfo& c) {
  return "candidate " + c.name + " " + c.version + " (" + c.path + ", digest " + c.digest + ")\n";
}

std::string to_text(const PolicyReport& p) {
  if (p.holds()) {
    std::string line = "as declared   " + p.policy;
    if (p.match->explaining.size() > 1) {
      line += "; the same here " + join(std::span(p.match->explaining).subspan(1));
    }
    return line + "\n" + (p.order ? indented(to_text(*p.order)) : "");
  }
  if (!p.match) return (p.ended ? "FAULT         " : "no answer     ") + p.policy + "\n  " + p.trouble + "\n";
  const char* verdict = p.match->explained() ? "OTHERWISE     " : "UNEXPLAINED   ";
  std::string text = verdict + p.policy + "\n" + indented(to_text(*p.match));
  if (p.order) text += indented(to_text(*p.order));
  if (p.scales) text += "  its scales alone:\n" + indented(to_text(*p.scales));
  if (p.elements) text += "  its elements under its own scales:\n" + indented(to_text(*p.elements));
  if (!p.trouble.empty()) text += "  " + p.trouble + "\n";
  return text;
}

std::string summary_text(const LibraryReport& report) {
  std::size_t other = 0;
  std::size_t unexplained = 0;
  for (const PolicyReport& p : report.policies) {
    if (!p.match || p.holds()) continue;
    ++(p.match->explained() ? other : unexplained);
  }
  const std::size_t silent = report.policies.size() - report.holding() - other - unexplained;
  std::string text = std::to_string(report.policies.size()) + " policies asked of " + std::to_string(report.offered) +
                     " offered: " + std::to_string(report.holding()) + " as declared, " + std::to_string(other) +
                     " otherwise, " + std::to_string(unexplained) + " unexplained, " + std::to_string(silent) +
                     " without an answer\n";
  if (!report.not_asked.empty()) text += "not asked     " + join(std::span(report.not_asked)) + "\n";
  return text;
}

Json to_json(const LibraryReport& report) {
  const CandidateInfo& c = report.candidate;
  Json policies = Json::array();
  for (const PolicyReport& p : report.policies) {
    policies.push_back({{"operation", p.operation},
                        {"policy", p.policy},
                        {"holds", p.holds()},
                        {"ended", p.ended},
                        {"trouble", p.trouble},
                        {"match", p.match ? to_json(*p.match, p.order) : Json()},
                        {"scales", p.scales ? to_json(*p.scales) : Json()},
                        {"elements", p.elements ? to_json(*p.elements) : Json()}});
  }
  return {{"candidate", Json{{"path", c.path}, {"name", c.name}, {"version", c.version}, {"digest", c.digest}}},
          {"policies", std::move(policies)},
          {"offered", report.offered},
          {"as_declared", report.holding()},
          {"not_asked", report.not_asked}};
}

}  // namespace mxcheck
