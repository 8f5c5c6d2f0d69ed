#include "properties/report/report.h"

#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "goldens/io/tensor_file.h"
#include "kernels/candidate.h"
#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/core/check.h"
#include "properties/gate/gate.h"

namespace mxcheck {
namespace {

const char* verdict_word(Verdict verdict) {
  switch (verdict) {
    case Verdict::held: return "held";
    case Verdict::failed: return "FAILED";
    case Verdict::not_offered: return "not offered";
    case Verdict::inconclusive: return "INCONCLUSIVE";
  }
  return "";
}

std::string size_text(const Case& c) { return fmt::format("{} x {}", c.rows, c.cols); }

std::string extent_text(const Difference& d) {
  std::string text = fmt::format("{} of {} elements of {} ({} x {}) differ; first at ({}, {})", d.count, d.total,
                                 d.tensor.name, d.tensor.rows, d.tensor.cols, d.first.row, d.first.col);
  if (d.count > 1 && !d.first_alone) {
    text += fmt::format(", last at ({}, {}), worst at ({}, {})", d.last.row, d.last.col, d.worst.row, d.worst.col);
  }
  return text;
}

namespace {

// The left side of the claim: the contract of a product, the name of another operation.
std::string claimed_for(const OperationInfo& o) {
  const Operation& operation = operation_named(o.name);
  return operation.has_contracts() ? o.listed : std::string(operation.name());
}

}  // namespace

std::string candidate_argument(const GateReport& report) {
  std::string path = report.candidate.path;  // quoted where a shell would not take it as one word
  if (path.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:@") != path.npos) {
    for (std::size_t at = 0; (at = path.find('\'', at)) != path.npos; at += 4) path.replace(at, 1, "'\\''");
    path = "'" + path + "'";
  }
  for (const OperationInfo& o : report.candidate.operations) {
    if (!o.listed.empty()) path += " --claim " + claimed_for(o) + "=" + o.contract;
  }
  return path;
}

// A tensor for a file; codes and scale bytes as U8.
Tensor file_tensor(std::string name, const TensorInfo& info, const std::vector<std::byte>& bytes, bool is_vector) {
  Tensor t{std::move(name), Format::uint8, {info.rows, info.cols}, bytes};
  if (is_vector) t.shape = {info.cols};
  if (spec(info.format).is_value || info.format == Format::fp64) t.format = info.format;
  if (info.integer_bits != 0) t.format = info.integer_bits == 32 ? Format::int32 : Format::int64;
  for (char& c : t.name) c = c == ' ' ? '_' : c;
  return t;
}

}  // namespace

std::string not_reproduced(const Counterexample& e) {
  if (!e.reproduction || e.reproduction->reproduced) return "";
  return fmt::format("not reproduced in a fresh process: depends on calls before it or on chance (seen {} of {} times)",
                     e.reproduction->seen, e.reproduction->of);
}

bool is_of_all_cases(const StatementResult& r) {
  return r.statement->tally && r.counterexample->finding.kind == FindingKind::mismatch;
}

std::string reproduce_command(const GateReport& report, const StatementResult& r, const Case& c) {
  return fmt::format("mxcheck gate --candidate {} --reproduce '{}: {}'", candidate_argument(report), r.statement->name,
                     to_text(c));
}

std::string again_command(const GateReport& report, const StatementResult& r) {
  const Counterexample& e = *r.counterexample;
  if (is_of_all_cases(r) || !not_reproduced(e).empty()) return run_command(report);
  std::string command = e.gpu.empty() ? "" : "CUDA_VISIBLE_DEVICES=" + e.gpu + " ";
  command += reproduce_command(report, r, e.minimal);
  if (!e.reproduction) return command;
  for (const Preceding& p : e.reproduction->after) command += fmt::format(" --after '{}'", to_text(p, *r.statement));
  return command;
}

std::string run_command(const GateReport& report) {
  const std::string shard = report.shard.is_whole() ? "" : " --shard " + to_text(report.shard);
  return "mxcheck gate --candidate " + candidate_argument(report) + " " + report.arguments + shard;
}

std::string device_of(const GateReport& report) {
  const char* wanted = report.candidate.cuda ? "gpu" : "cpu";
  for (const auto& [key, value] : report.machine) {
    if (key == wanted) return value;
  }
  return "unknown";
}

std::string exit_meaning(const GateReport& report) {
  switch (exit_code(report)) {
    case 0:
      return report.shard.is_whole() ? "every statement that ran held"
                                     : "no case of this shard contradicts a statement; mxcheck merge makes the verdict";
    case 1: return "there is a counterexample";
    case spec(ErrorKind::environment).exit_code: return "a file could not be written: " + report.unwritten;
    case 6: return "the candidate crashed or hung";
    default: break;
  }
  if (report.missing_shards.empty()) return "inconclusive";
  return "inconclusive: of the shards " +
         join(report.missing_shards, ", ", [](int shard) { return std::to_string(shard + 1); }) + " there is no report";
}

std::string interrupted_text(const GateReport& report) {
  std::string text = "statements that had not finished have no verdict";
  if (report.not_begun.empty()) return text;
  return text + fmt::format("; {} had not begun: {}", report.not_begun.size(),
                            join(report.not_begun, ", ", [](const Statement* s) { return s->name; }));
}

std::string report_header(const GateReport& report) {
  const std::string operations =
      join(report.candidate.operations, ", ", [](const OperationInfo& o) { return std::string_view(o.name); });
  std::string limits;
  for (const OperationInfo& o : report.candidate.operations) {
    if (const std::string text = limits_text(o); !text.empty())
      limits += fmt::format("limits of {}: {}\n", o.name, text);
    if (!o.listed.empty())
      limits += fmt::format("{}held to {} instead of {}, which it declares\n",
                            claimed_for(o) == o.listed ? "" : claimed_for(o) + " is ", o.contract, o.listed);
  }
  return fmt::format(
      "seed {}  suite {}{}\ncandidate {} {} ({}, digest {})\noffers {} in {} variants\n{}{}\n", report.seed,
      report.suite, report.shard.is_whole() ? "" : "  shard " + to_text(report.shard), report.candidate.name,
      report.candidate.version, report.candidate.path, report.candidate.digest,
      operations.empty() ? "nothing" : operations, report.variants.size(),
      limits.find("limits of") == limits.npos ? limits + "limits: it declares none\n" : limits,
      report.candidate.unconfined.empty()
          ? ""
          : "missing here, to keep the candidate's process from the gate: " + report.candidate.unconfined + "\n");
}

std::string statement_line(const StatementResult& r) {
  const std::string head = fmt::format("{:<13} {:<64}", verdict_word(r.verdict), r.statement->name);
  std::string line = fmt::format("{} {:>6} cases {:>4} variants {:>7.2f} s\n", head, r.cases, r.variants, r.seconds);
  if (!r.reason.empty()) line += fmt::format("{:<14}{}\n", "", r.reason);
  return line;
}

namespace {

// The bins of an axis of an operation, over several reports.
struct AxisSum {
  std::string operation, name;
  std::vector<BinCount> bins;

  // Bins of which at least this share of the calls was refused.
  [[nodiscard]] std::vector<BinCount> refused(double share) const {
    std::vector<BinCount> all;
    std::ranges::copy_if(bins, std::back_inserter(all), [&](const BinCount& b) {
      return b.refused > 0 && static_cast<double>(b.refused) >= share * static_cast<double>(b.refused + b.checked);
    });
    return all;
  }
};

std::int64_t refused_calls(const std::vector<BinCount>& bins) {
  std::int64_t calls = 0;
  for (const BinCount& bin : bins) calls += bin.refused;
  return calls;
}

std::vector<AxisSum> summed(const std::vector<const CoverageReport*>& reports) {
  std::vector<AxisSum> axes;
  for (const CoverageReport* r : reports) {
    for (const AxisCount& axis : r->axes) {
      const auto is_same = [&](const AxisSum& a) { return a.operation == r->operation && a.name == axis.name; };
      auto at = std::ranges::find_if(axes, is_same);
      if (at == axes.end()) at = axes.insert(at, {r->operation, axis.name, {}});
      for (const BinCount& bin : axis.bins) {
        auto sum = std::ranges::find(at->bins, bin.label, &BinCount::label);
        if (sum == at->bins.end()) sum = at->bins.insert(sum, {bin.label});
        sum->checked += bin.checked, sum->refused += bin.refused;
      }
    }
  }
  return axes;
}

// A line for each axis with bins of which every call was refused; where these do not account for all refusals, those of
// which most were (a row stride may be accepted where there is one row). A call with one refused option has values on
// every other axis too: of each operation the axes with most such calls are listed, until they account for the rest.
std::vector<std::string> refused_bins(const std::vector<const CoverageReport*>& reports) {
  std::vector<AxisSum> axes = summed(reports);
  std::map<std::string, std::int64_t> left;  // refused calls that no line accounts for; every call is on the first axis
  for (const AxisSum& a : axes) left.try_emplace(a.operation, refused_calls(a.bins));
  std::vector<std::string> lines;
  for (const double share : {1.0, 0.5}) {
    std::ranges::stable_sort(axes, std::greater(), [&](const AxisSum& a) { return refused_calls(a.refused(share)); });
    for (const AxisSum& axis : axes) {
      const std::vector<BinCount> refused = axis.refused(share);
      if (refused.empty() || left[axis.operation] <= 0) continue;
      const std::int64_t calls = refused_calls(refused);
      left[axis.operation] -= calls;
      std::int64_t accepted = 0;
      std::vector<std::string> bins;
      for (const BinCount& bin : refused) bins.push_back(bin.label), accepted += bin.checked;
      const std::string count =
          accepted == 0 ? fmt::format("all {}", calls) : fmt::format("{} of {}", calls, calls + accepted);
      if (bins.size() > 4) bins = {bins.front(), "...", fmt::format("{} ({} bins)", bins.back(), bins.size())};
      lines.push_back(fmt::format("{}: {} {}; {} calls with {} were refused", axis.operation, axis.name, join(bins),
                                  count, bins.size() == 1 ? "it" : "these"));
    }
  }
  return lines;
}

}  // namespace

std::string not_offered_text(const GateReport& report) {
  std::vector<std::pair<const StatementResult*, int>> reasons;  // the first statement of each, and how many follow it
  for (const StatementResult& r : report.statements) {
    if (r.verdict != Verdict::not_offered) continue;
    const auto same = std::ranges::find_if(reasons, [&](const auto& one) { return one.first->reason == r.reason; });
    same == reasons.end() ? (void)reasons.emplace_back(&r, 0) : (void)++same->second;
  }
  const std::string statements = join(reasons, "", [](const auto& one) {
    const std::string more = one.second == 0 ? "" : fmt::format(" and {} more", one.second);
    return fmt::format("{:<13} {:<64} {}\n", verdict_word(Verdict::not_offered),
                       std::string(one.first->statement->name) + more, one.first->reason);
  });
  std::vector<const CoverageReport*> coverage;
  for (const StatementResult& r : report.statements) {
    // One that ended early says little about what it refused, one about wrong calls nothing about what is offered.
    if (r.counterexample || r.statement->of_the_interface) continue;
    for (const CoverageReport& c : r.coverage) coverage.push_back(&c);
  }
  const auto line = [](const std::string& bins) { return fmt::format("{:<13} {}\n", "refused", bins); };
  return statements + join(refused_bins(coverage), "", line);
}

std::string cause_text(const Finding& finding) {
  constexpr std::size_t kMostNamed = 4;  // JSON has all
  std::vector<std::string> names = finding.matches;
  if (names.size() > kMostNamed) {
    const std::size_t more = names.size() - (kMostNamed - 1);
    names.resize(kMostNamed - 1), names.push_back(fmt::format("and {} more", more));
  }
  if (finding.kind != FindingKind::mismatch) return finding.summary;  // how a call ended is its cause
  if (names.empty()) return finding.matched == 0 ? "" : "none of the known ones gives every bit";
  const int cases = finding.matched_others + 1;
  return fmt::format("{}{}: {} every bit of {}, {} elements{}",
                     names.size() > 1 ? "one of these (no failing case distinguishes them): " : "", join(names, "; "),
                     names.size() > 1 ? "each gives" : "gives",
                     cases == 1 ? "this case" : fmt::format("{} failing cases", cases), finding.matched,
                     finding.matches_case_as_found ? "" : " (the case as found is too large to be compared)");
}

namespace {

std::string other_text(const GateReport& report, const StatementResult& r, const OtherFault& other) {
  const std::string cause = cause_text(other.finding);
  std::string out =
      fmt::format("  also      {}: {}\n", to_text(other.kind), cause.empty() ? other.finding.summary : cause);
  for (const std::string& line : other.finding.element) out += "            " + line + "\n";
  return out + "            " + reproduce_command(report, r, other.minimal) + "\n";
}

}  // namespace

namespace {

// Nothing of a case that is the smallest as it was found.
std::string shrunk_text(const Counterexample& e) {
  const std::string from = size_text(e.original), to = size_text(e.minimal);
  const char* const budget = e.shrink_budget_spent ? " (the budget ran out: a smaller case may exist)" : "";
  if (e.original == e.minimal && !e.shrink_budget_spent) return "";
  if (from == to) return fmt::format("  shrunk    {} as found, simpler in {} tries{}\n", to, e.shrink_tries, budget);
  return fmt::format("  shrunk    from {} to {} in {} tries{}\n", from, to, e.shrink_tries, budget);
}

// The end of a call that did not return is its own cause, told once: for the first statement that met it.
std::string cause_line(const GateReport& report, const StatementResult& r) {
  const Finding& finding = r.counterexample->finding;
  const std::string cause = cause_text(finding);
  if (finding.kind != FindingKind::mismatch) {
    for (const StatementResult& before : report.statements) {
      if (before.statement == r.statement) break;
      if (before.counterexample && before.counterexample->finding.summary == cause)
        return fmt::format("  cause     as of {}\n", before.statement->name);
    }
  }
  return cause.empty() ? "" : "  cause     " + cause + "\n";
}

}  // namespace

std::string counterexample_text(const GateReport& report, const StatementResult& r, const std::string& saved) {
  const Counterexample& e = *r.counterexample;
  const bool of_all = is_of_all_cases(r);
  const char* const verdict = of_all ? "of all cases together: chance alone has a stated level"
                              : r.statement->repeats_bits || r.statement->tally
                                  ? "exact: bytes are equal or they are not"
                                  : "interval: an output outside of what every right kernel "
                                    "can give is a proof";
  std::string out = fmt::format("\n{}\n{}  must hold {}\n  source    {}\n  verdict   {}\n", r.statement->name,
                                cause_line(report, r), r.statement->sentence, r.statement->source, verdict);
  if (cause_text(e.finding) != e.finding.summary) out += fmt::format("  found     {}\n", e.finding.summary);
  for (const std::string& line : e.finding.element) out += "  " + line + "\n";
  if (e.finding.difference) {
    const Difference& d = *e.finding.difference;
    out += "  extent    " + extent_text(d) + "\n";
    std::string bins;
    for (const auto& [bin, count] : d.histogram) bins += fmt::format("{}{}: {}", bins.empty() ? "" : ", ", bin, count);
    if (!bins.empty()) out += "  off by    " + bins + "\n";
    if (!d.neighbours.empty()) out += "  beside    " + d.neighbours + "\n";
    if (!d.pattern.empty()) out += "  pattern   " + d.pattern + "\n";
  }
  for (const std::string& line : e.finding.likely) out += "  likely    " + line + "\n";
  out += fmt::format("  case      {}{}\n", to_text(e.minimal), of_all ? ", of all the one that shows it most" : "");
  if (!of_all) out += shrunk_text(e);
  if (to_text(e.original) != to_text(e.minimal)) out += fmt::format("  original  {}\n", to_text(e.original));
  if (e.reproduction) {
    for (const Preceding& p : e.reproduction->after) out += "  after     " + to_text(p, *r.statement) + "\n";
  }
  if (const std::string why = not_reproduced(e); !why.empty()) out += "  again     " + why + "; the run once more:\n";
  out += "  again     " + again_command(report, r) + "\n";
  if (!saved.empty()) out += "  saved     " + saved + "\n";
  if (not_reproduced(e).empty()) {
    for (const OtherFault& other : e.others) out += other_text(report, r, other);
  }
  out += fmt::format("  seed      {}\n  candidate {} {}, digest {}\n", report.seed, report.candidate.name,
                     report.candidate.version, report.candidate.digest);
  return out;
}

std::string machine_text(const GateReport& report) {
  const bool failed =
      std::ranges::any_of(report.statements, [](const auto& r) { return r.counterexample.has_value(); });
  if (!failed) return "";
  return "\non this machine\n" +
         join(report.machine, "", [](const auto& row) { return fmt::format("  {:<9} {}\n", row.first, row.second); });
}

std::string report_summary(const GateReport& report) {
  std::int64_t cases = 0, held = 0, failed = 0, other = 0;
  for (const StatementResult& r : report.statements) {
    cases += r.cases;
    held += r.verdict == Verdict::held ? 1 : 0;
    failed += r.verdict == Verdict::failed ? 1 : 0;
    other += r.verdict == Verdict::inconclusive ? 1 : 0;
  }
  const std::int64_t unoffered = static_cast<std::int64_t>(report.statements.size()) - held - failed - other;
  std::string out = fmt::format(
      "\n{} statements: {} held, {} failed, {} inconclusive, {} not offered; {} cases, worst difference {}; {:.1f} s\n",
      report.statements.size(), held, failed, other, unoffered, cases, failed == 0 ? "0 bits" : "see above",
      report.seconds);
  if (const FirstCallCount& f = report.first_calls; f.calls != 0) {
    out +=
        fmt::format("first calls of a kind, compiling included: {} took {:.2f} s together, the longest {:.2f} s ({})\n",
                    f.calls, f.seconds, f.longest, f.longest_kind);
  }
  if (report.one_case) {  // no line of a statement says it
    for (const StatementResult& r : report.statements) out += r.reason.empty() ? "" : r.reason + "\n";
  }
  for (const std::string& end : report.ends) out += "after all statements: " + end + "\n";
  out += soak_text(report);
  if (report.interrupted) out += "interrupted: statements that had not finished have no verdict\n";
  for (const Statement* s : report.not_begun) out += fmt::format("{:<13} {}\n", "not begun", s->name);
  out += fmt::format("exit code {}: {}\n", exit_code(report), exit_meaning(report));
  const std::vector<std::string> unseen = not_seen(report);
  if (!unseen.empty()) out += fmt::format("not seen by {}: {}\n", report.suite, join(unseen, "; "));
  return out;
}

std::string save_counterexample(const GateReport& report, const StatementResult& r, const std::string& directory,
                                const std::optional<ExampleTensors>& tensors) {
  if (!tensors) return "";
  const Counterexample& e = *r.counterexample;
  const std::string text = to_text(e.minimal);
  const std::string name =
      fmt::format("{}_{:016x}.safetensors", r.statement->name, XXH3_64bits(text.data(), text.size()));
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error)
    throw Error(ErrorKind::environment, directory + ": is no folder for counterexamples: " + error.message() +
                                            "; --save DIR names another, --save '' saves none");
  SafetensorsFile file;
  file.metadata = {{"case", text},
                   {"statement", std::string(r.statement->name)},
                   {"candidate", report.candidate.digest},
                   {"finding", e.finding.summary},
                   {"seed", std::to_string(report.seed)}};
  for (const SavedTensor& t : tensors->inputs)
    file.tensors.push_back(file_tensor(t.name, t.info, t.bytes, t.info.is_vector));
  for (const ExpectedTensor& t : tensors->expected)
    file.tensors.push_back(file_tensor("expected_" + t.info.name, t.info, t.bytes, false));
  for (const ExampleTensors::Observed& t : tensors->observed)
    file.tensors.push_back(file_tensor("observed_" + t.info.name, t.info, t.bytes, false));
  const std::string path = (std::filesystem::path(directory) / name).string();
  write_safetensors(path, file);
  return path;
}

namespace {

std::string bin_text(const BinCount& bin) {
  std::string text = fmt::format("{}: {}", bin.label, bin.checked);
  if (bin.refused > 0) text += fmt::format(" (+{} refused)", bin.refused);
  if (bin.checked + bin.refused == 0) text += bin.not_applicable > 0 ? " (nothing claimed)" : " (not met)";
  return text;
}

std::string counts_text(const char* what, const TupleCounts& n) {
  if (n.possible + n.excluded == 0) return "";
  return fmt::format(
      "  {}: {} of {} checked, {} refused or not claimed; {} more exclude one another or are too large for the suite\n",
      what, n.checked, n.possible, n.refused, n.excluded);
}

std::string layers_text(const CoverageReport& r) {
  if (r.layer_uses.checked + r.layer_uses.refused == 0) return "";
  return fmt::format("  layers: {}\n", join(r.layers.bins, ", ", bin_text)) +
         counts_text("uses of layers", r.layer_uses);
}

}  // namespace

std::vector<std::string> not_offered(const StatementResult& result) {
  std::vector<const CoverageReport*> coverage;
  for (const CoverageReport& r : result.coverage) coverage.push_back(&r);
  std::vector<std::string> lines = refused_bins(coverage);
  for (std::string& line : lines) line = "not offered by " + line;
  return lines;
}

std::string coverage_text(const GateReport& report) {
  std::string out = "\ncoverage: cases that met each bin of each axis\n";
  for (const StatementResult& s : report.statements) {
    for (const CoverageReport& r : s.coverage) {
      out += fmt::format("\n{}, of {}\n", s.statement->name, r.operation);
      for (const AxisCount& axis : r.axes) out += fmt::format("  {}: {}\n", axis.name, join(axis.bins, ", ", bin_text));
      out += counts_text("pairs of bins", r.pairs) + counts_text("triples of bins", r.triples) + layers_text(r);
      for (const std::string& missed : r.missed) out += "  not met: " + missed + "\n";
      for (const std::string& pairs : r.without_case) out += "  no case of: " + pairs + "\n";
    }
  }
  return out;
}

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
           "a fault of sizes and options that these random cases do not cover (--suite full)"};
  } else {
    if (report.suite != "exhaustive") {
      all.emplace_back("one wrong FP32 word of 2^32 or one wrong logit in a million (--suite exhaustive)");
    }
    if (report.suite == "quick")
      all.emplace_back(
          "sizes above 2^21 elements, 2^19 logits or 2^22 multiplications, of a layer 2^27 (--suite full)");
    all.emplace_back("a fault that needs three sizes or options at once, each common alone");
    all.emplace_back("one wrong call in 100,000 (--soak)");
  }
  const bool has_pairs = std::ranges::any_of(report.statements, [](const StatementResult& s) {
    return std::ranges::any_of(s.coverage, [](const CoverageReport& c) { return !c.without_case.empty(); });
  });
  if (has_pairs) all.emplace_back("pairs of sizes and options that no case of the suite has (--coverage lists them)");
  if (report.selective) all.emplace_back("everything that the statements excluded by --only test");
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

namespace {

constexpr std::int64_t kMostWork = std::int64_t{1} << 34;  // multiplications: expected outputs are the reference's
constexpr std::int64_t kMostWorkOfOriginal = std::int64_t{1} << 26;
constexpr std::int64_t kMostElementsOfOriginal = std::int64_t{1} << 20;

// The calls that the failure depends on.
void call_before(const Counterexample& e, CandidateProcess& process, const std::vector<Variant>& variants) {
  if (!e.reproduction || e.reproduction->after.empty()) return;
  process.restart();  // as the gate did when it found them
  CheckContext context{process, variants};
  for (const Preceding& p : e.reproduction->after) {
    for (int i = 0; i < p.times; ++i) (void)p.statement->check(context, p.c);
  }
}

void observe(const Problem& problem, CandidateProcess& process, ExampleTensors& into) {
  Outcome outcome = process.run(problem.call());
  for (std::size_t i = 0; i < outcome.outputs.size(); ++i)
    into.observed.push_back({problem.outputs[i], std::move(outcome.outputs[i])});
}

}  // namespace

std::optional<ExampleTensors> tensors_of_minimal(const GateReport& report, const Counterexample& e,
                                                 const GateOptions& options) {
  if (operation_named(e.minimal.variant.operation).work(e.minimal) > kMostWork) return std::nullopt;
  const std::unique_ptr<Problem> problem = make_problem(e.minimal);
  ExampleTensors tensors{problem->saved(), problem->answer(), {}};
  // Outputs of a process that does not fail would be taken for what was observed.
  if (e.finding.kind == FindingKind::fault || !not_reproduced(e).empty()) return tensors;
  CandidateProcess process(options.tool, options.library, options.time_limit);
  call_before(e, process, report.variants);
  observe(*problem, process, tensors);
  return tensors;
}

std::optional<ExampleTensors> tensors_of_original(const Counterexample& e, const GateOptions& options) {
  const Case& c = e.original;
  if (c == e.minimal || e.finding.kind != FindingKind::mismatch || c.elements() > kMostElementsOfOriginal)
    return std::nullopt;
  if (operation_named(c.variant.operation).work(c) > kMostWorkOfOriginal) return std::nullopt;
  const std::unique_ptr<Problem> problem = make_problem(c);
  ExampleTensors tensors{{}, problem->answer(), {}};
  CandidateProcess process(options.tool, options.library, options.time_limit);
  observe(*problem, process, tensors);
  return tensors;
}

namespace {

constexpr std::size_t kLongest = 10;

double percent_of(double part, double all) { return all > 0 ? 100 * part / all : 0; }

std::string time_row(std::string_view name, PhaseTimes::Seconds seconds, PhaseTimes::Seconds all) {
  return fmt::format("  {:<16} {:>9.2f} {:>5.1f} % {:>9.2f} {:>5.1f} %\n", name, seconds.wall,
                     percent_of(seconds.wall, all.wall), seconds.cpu, percent_of(seconds.cpu, all.cpu));
}

}  // namespace

std::string timings_text(const GateReport& report) {
  const GateTimings& t = *report.timings;
  const PhaseTimes::Seconds known = t.phases.sum();
  const PhaseTimes::Seconds all{std::max(known.wall, report.seconds * t.jobs), std::max(known.cpu, report.use.own_cpu)};
  std::string out = fmt::format("\nwhere the time went: {} {}{}, {:.2f} s\n  {:<16} {:>9} {:>17}\n", t.jobs,
                                t.jobs == 1 ? "job" : "jobs", t.gpus > 1 ? fmt::format(" on {} GPUs", t.gpus) : "",
                                report.seconds, "", "wall s", "CPU s");
  for (std::size_t i = 0; i < kPhaseNames.size(); ++i) {
    PhaseTimes::Seconds seconds = t.phases.of(static_cast<Phase>(i));
    // Jobs begin when the first process has answered, and end one after the other.
    if (static_cast<Phase>(i) == Phase::idle) seconds.wall += all.wall - known.wall;
    out += time_row(kPhaseNames[i], seconds, all);
  }
  // Threads that draw or compute for a job, and processes on their way out, use CPU that is no job's.
  out += time_row("other threads", {0, all.cpu - known.cpu}, all);
  out += time_row("together", all, all);
  std::vector<GateTimings::OfStatement> longest = t.statements;
  std::stable_sort(longest.begin(), longest.end(),
                   [](const auto& a, const auto& b) { return a.seconds.wall > b.seconds.wall; });
  if (longest.size() > kLongest) longest.resize(kLongest);
  out += fmt::format("statements that took longest {:>35}\n", "10^6 work");
  for (const GateTimings::OfStatement& s : longest) {
    std::string line = time_row("", s.seconds, all);
    line.insert(line.size() - 1, fmt::format(" {:>8.1f}  {}", 1e-6 * static_cast<double>(s.cost), s.statement->name));
    out += line;
  }
  return out;
}

std::string busy_text(const MachineUse& use) {
  const double had = use.wall * use.cores;
  const bool is_full = use.own_cpu + use.other_cpu >= 0.8 * had;
  if (use.wall < kLeastToJudge || !is_full || use.other_cpu < 0.1 * had) return "";
  return fmt::format(
      "the machine was busy: {:.0f} s of wall for {:.0f} s of CPU on {} cores; other processes took {:.0f} s\n",
      use.wall, use.own_cpu, use.cores, use.other_cpu);
}

}  // namespace mxcheck
