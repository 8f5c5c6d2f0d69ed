#include "properties/identify/library/library.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "numerics/error.h"
#include "numerics/names.h"
#include "numerics/text.h"
#include "properties/core/check.h"
#include "properties/core/limits.h"
#include "properties/core/statement.h"
#include "properties/gate/coverage/parts.h"
#include "properties/identify/reveal.h"
#include "properties/process/candidate_table.h"

namespace mxcheck {
namespace {

constexpr int kMostEnds = 3;  // of an operation: a library that never returns takes the time limit each time

struct Offered {
  std::vector<Variant> variants;
  std::vector<std::string> not_asked;
};

// Null where the question is about other operations.
const BoxKind* find_box_kind(const LibraryQuestion& question, const Operation& operation) {
  for (const BoxKind& kind : box_kinds()) {
    if (!question.op.empty() && kind.word != question.op) continue;
    if (std::ranges::find(kind.operations, operation.name()) != kind.operations.end()) return &kind;
  }
  return nullptr;
}

// The same questions as the gate's (properties/gate/statement_run.h); supports() of a library may crash too.
Offered offered_by(CandidateProcess& process, const LibraryQuestion& question) {
  Offered offered;
  for (const OperationInfo& info : process.info().operations) {
    const Operation* operation = find_operation(info.name);
    if (operation == nullptr || find_box_kind({}, *operation) == nullptr) offered.not_asked.push_back(info.name);
    if (operation == nullptr || find_box_kind(question, *operation) == nullptr) continue;
    std::vector<Variant> variants = operation->askable(info.name);
    std::erase_if(variants, [](const Variant& v) { return v.dtype == Format::fp64; });  // boxes have values of 32 bits
    for (Variant& v : supported_of(process, *operation, std::move(variants))) offered.variants.push_back(std::move(v));
  }
  return offered;
}

constexpr std::int64_t kMostWorkOfCorner = std::int64_t{1} << 20;  // elements or multiplications
constexpr int kRandomCases = 24;

// The cases of a statement that is about equality, or about words one after another.
std::vector<Case> cases_of(const Statement& s, CandidateRunner& runner, const Variant& v) {
  std::vector<Case> cases;
  const bool is_other_device = s.device == (runner.info().cuda ? Statement::Device::host : Statement::Device::cuda);
  if (is_other_device || s.of_the_interface || !s.applies(v, {&v, 1})) return cases;
  if (!s.covers_pairs && !s.data.empty()) return cases;
  if (s.corners) cases = s.corners(v, Suite::quick);
  if (!s.covers_pairs) return cases;
  Draw draw(derived_seed(0, s.name));
  for (const Part& part : parts_of(s, {v}, Suite::quick, false, runner)) {
    for (Case& c : part.covering->cases(false, draw)) cases.push_back(std::move(c));
    for (int i = 0; i < kRandomCases; ++i) {
      std::optional<Case> c = part.domain->make(part.domain->of_variant(0), part.domain->small_work(), draw);
      if (c) cases.push_back(*std::move(c));
    }
  }
  return cases;
}

// Ends with the first case that differs.
void hold_to_corners(CandidateRunner& runner, const Variant& v, CornerReport& report) {
  const Operation& operation = operation_named(v.operation);
  CheckContext context{runner, {&v, 1}};
  context.thorough = true;
  for (const Statement& s : all_statements()) {
    for (const Case& drawn : cases_of(s, runner, v)) {
      const Case c = within_limits(drawn, *runner.operation(v.operation));
      if (operation.work(c) > kMostWorkOfCorner) continue;
      context.not_offered = context.not_applicable = false;
      const std::unique_ptr<Problem> problem = make_problem(c);
      const std::vector<ExpectedTensor> answer = problem->answer();
      report.finding = equals_answer(context, *problem, answer, {});
      if (report.finding) return void(report.failing = to_text(c));
      if (context.not_offered || context.not_applicable) continue;
      ++report.cases;
      report.shapes.insert(fmt::format("{} x {}{}", c.rows, c.cols, operation.shape_text(c)));
      for (const ExpectedTensor& t : answer)
        report.words += static_cast<std::int64_t>(t.bytes.size() / bytes_of_element(t.info));
    }
  }
}

// One policy. CallFailed becomes its trouble.
PolicyReport identify_policy(CandidateRunner& runner, const Variant& v, const LibraryQuestion& question) {
  const Operation& operation = operation_named(v.operation);
  const BoxKind& kind = *find_box_kind(question, operation);
  PolicyReport report{std::string(operation.name()), to_text(v)};
  try {
    kind.identify(runner, v, question, report);
    if (!report.holds() || kind.scales_alone || !promises_bits(v)) return report;
    report.corners.emplace();
    hold_to_corners(runner, v, *report.corners);
    report.ended = report.corners->finding && report.corners->finding->kind == FindingKind::fault;
  } catch (const CallFailed& failed) {
    report.ended = failed.ended;
    report.trouble = failed.what;
  }
  return report;
}

// The variants of these that are asked: one of each name (Operation::identified_as).
std::vector<Variant> asked_of(const LibraryQuestion& question, const std::vector<Variant>& offered) {
  struct Chosen {
    std::size_t at;  // among those that are asked
    std::int64_t rank;
  };
  std::vector<Variant> asked;
  std::map<std::string, Chosen> chosen;
  for (const Variant& v : offered) {
    const Operation& operation = operation_named(v.operation);
    const std::optional<IdentifiedAs> as = operation.identified_as(v);
    if (find_box_kind(question, operation) == nullptr || !as) continue;
    if (to_text(v).find(question.only) == std::string::npos) continue;
    const auto [at, is_new] = chosen.try_emplace(as->name, Chosen{asked.size(), as->rank});
    if (is_new) {
      asked.push_back(v);
    } else if (as->rank < at->second.rank) {
      asked[at->second.at] = v, at->second.rank = as->rank;
    }
  }
  return asked;
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
  const auto word = [](const BoxKind& kind) { return kind.word; };
  if (question.op.empty() || std::ranges::find(box_kinds(), question.op, word) != box_kinds().end()) return;
  throw Error(ErrorKind::usage, "'" + question.op + "' is no operation" + known_names(question.op, box_kinds(), word));
}

namespace {

// Error{usage} where `only` alone leaves nothing to ask: with the fields that the policies have.
void check_only(const LibraryQuestion& question, const std::vector<Variant>& offered) {
  LibraryQuestion all = question;
  all.only.clear();
  std::set<std::string> fields;
  for (const Variant& v : asked_of(all, offered)) {
    const std::string text = to_text(v);
    for (const std::string_view field : split(text, ' ')) fields.emplace(field);
  }
  if (fields.empty()) return;
  throw Error(ErrorKind::usage, "--only '" + question.only + "' is in the text of no policy" +
                                    known_names(question.only, {fields.begin(), fields.end()}));
}

}  // namespace

LibraryReport identify_library(CandidateProcess& process, const LibraryQuestion& question,
                               const std::function<void(const PolicyReport&)>& each) {
  check_operation(question);
  LibraryReport report;
  report.candidate = process.info();
  Offered offered = offered_by(process, question);
  report.offered = offered.variants.size();
  report.not_asked = std::move(offered.not_asked);
  std::map<std::string, int> ends;
  const std::vector<Variant> asked = asked_of(question, offered.variants);
  if (asked.empty()) check_only(question, offered.variants);
  for (const Variant& v : asked) {
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

namespace {

std::string scope_text(const PolicyReport& p) {
  const std::string probes = fmt::format("{} words of {} probes", p.match->compared, p.match->probes);
  if (!p.corners) return probes;
  return fmt::format("{}, {} words of {} cases of the gate in {} shapes", probes, p.corners->words, p.corners->cases,
                     p.corners->shapes.size());
}

// Every probe is as declared, and a case of the gate is not.
std::string corner_text(const PolicyReport& p) {
  const Finding& finding = *p.corners->finding;
  std::string text = "UNEXPLAINED   " + p.policy + "\n  declared      " + p.match->declared +
                     ", which is WRONG in a case of the gate, though it explains " + std::to_string(p.match->compared) +
                     " words of " + std::to_string(p.match->probes) + " probes\n  case          " + p.corners->failing +
                     "\n  finding       " + finding.summary + "\n";
  for (const std::string& line : finding.element) text += "    " + line + "\n";
  for (const std::string& name : finding.matches) text += "  a slip        " + name + ": every bit of this case\n";
  for (const std::string& line : finding.likely) text += "  likely        " + line + "\n";
  return text + "  compared      " + scope_text(p) + "\n";
}

}  // namespace

std::string to_text(const PolicyReport& p) {
  if (p.holds()) {
    std::string line = "as declared   " + p.policy + ": " + scope_text(p);
    if (p.match->explaining.size() > 1) {
      line += "; identical here " + join(std::span(p.match->explaining).subspan(1));
    }
    return line + "\n" + (p.order ? indented(to_text(*p.order)) : "");
  }
  if (!p.match) return (p.ended ? "FAULT         " : "no answer     ") + p.policy + "\n  " + p.trouble + "\n";
  if (p.corners && p.corners->finding) return corner_text(p);
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
    ++(p.match->explained() && !(p.corners && p.corners->finding) ? other : unexplained);
  }
  const std::size_t silent = report.policies.size() - report.holding() - other - unexplained;
  std::string text = std::to_string(report.policies.size()) + " policies asked of " + std::to_string(report.offered) +
                     " offered: " + std::to_string(report.holding()) + " as declared, " + std::to_string(other) +
                     " otherwise, " + std::to_string(unexplained) + " unexplained, " + std::to_string(silent) +
                     " without an answer\n";
  if (!report.not_asked.empty()) text += "not probed    " + join(std::span(report.not_asked)) + "\n";
  return text;
}

namespace {

Json to_json(const CornerReport& corners) {
  Json finding;
  if (corners.finding)
    finding = Json{{"case", corners.failing},
                   {"summary", corners.finding->summary},
                   {"element", corners.finding->element},
                   {"matches", corners.finding->matches}};
  return {{"cases", corners.cases},
          {"words", corners.words},
          {"shapes", corners.shapes.size()},
          {"finding", std::move(finding)}};
}

}  // namespace

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
                        {"elements", p.elements ? to_json(*p.elements) : Json()},
                        {"corners", p.corners ? to_json(*p.corners) : Json()}});
  }
  return {{"candidate", Json{{"path", c.path}, {"name", c.name}, {"version", c.version}, {"digest", c.digest}}},
          {"policies", std::move(policies)},
          {"offered", report.offered},
          {"as_declared", report.holding()},
          {"not_asked", report.not_asked}};
}

}  // namespace mxcheck
