// A report as JUnit XML.

#include "properties/report/github.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include <fmt/format.h>

#include "goldens/json/json.h"
#include "numerics/text.h"
#include "properties/gate/soak.h"
#include "properties/report/coverage_text.h"
#include "properties/report/markup.h"
#include "properties/report/report.h"
#include "properties/report/scope_text.h"

namespace mxcheck {
namespace {

constexpr std::size_t kMostFailure = 60'000;  // bytes
constexpr std::size_t kMostMessage = 4'000;

// Properties: how far the verdict reaches.
std::vector<std::pair<std::string, std::string>> scope_of(const GateReport& report) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const OperationInfo& o : report.candidate.operations) {
    if (const std::string limits = limits_text(o); !limits.empty()) all.emplace_back("limits." + o.name, limits);
  }
  for (const StatementResult& r : report.statements) {
    const std::vector<std::string> refused = not_offered(r);
    if (!refused.empty()) all.emplace_back(fmt::format("not_offered.{}", r.statement->name), join(refused, "; "));
  }
  if (const std::vector<std::string> unseen = not_seen(report); !unseen.empty())
    all.emplace_back("not_seen", join(unseen, "; "));
  if (!report.soak) return all;
  all.emplace_back("soak_calls", std::to_string(report.soak->calls));
  all.emplace_back("soak_failures", std::to_string(report.soak->failures));
  if (report.soak->failures == 0)
    all.emplace_back("soak_failures_a_call_below", fmt::format("{:.2g}", rule_of_three(report.soak->calls)));
  return all;
}

// Markup of at most so many bytes: readers give up on failures of more than 64 KiB.
std::string short_markup(const std::string& text, std::size_t most) {
  std::string out = escaped_markup(text);
  for (std::size_t room = most; out.size() > most; room = room * 3 / 4) out = escaped_markup(shortened(text, room));
  return out;
}

std::string source_of(const GateReport& report) {
  if (report.source.file.empty()) return "";
  const std::string line = report.source.line > 0 ? fmt::format(" line=\"{}\"", report.source.line) : "";
  return fmt::format(" file=\"{}\"{}", escaped_markup(report.source.file), line);
}

std::string junit_case(const GateReport& report, const StatementResult& r) {
  std::string out = fmt::format("    <testcase classname=\"gate.{}\" name=\"{}\" time=\"{:.3f}\"{}",
                                escaped_markup(report.suite), r.statement->name, r.seconds, source_of(report));
  if (r.verdict == Verdict::held) return out + "/>\n";
  out += ">\n";
  if (r.verdict == Verdict::not_offered) {
    out += fmt::format("      <skipped message=\"{}\"/>\n", short_markup(r.reason, kMostMessage));
  } else if (r.counterexample) {
    const char* type = r.counterexample->finding.kind == FindingKind::fault ? "device-fault" : "mismatch";
    out += fmt::format("      <failure type=\"{}\" message=\"{}\">{}</failure>\n", type,
                       short_markup(r.counterexample->finding.summary, kMostMessage),
                       short_markup(counterexample_text(report, r, ""), kMostFailure));
  } else {
    out += fmt::format("      <error type=\"inconclusive\" message=\"{}\"/>\n", short_markup(r.reason, kMostMessage));
  }
  return out + "    </testcase>\n";
}

}  // namespace

std::string report_junit(const GateReport& report) {
  std::int64_t failures = 0, errors = 0, skipped = 0, cases = 0;
  std::string body;
  for (const StatementResult& r : report.statements) {
    cases += r.cases;
    failures += r.verdict == Verdict::failed ? 1 : 0;
    errors += r.verdict == Verdict::inconclusive ? 1 : 0;
    skipped += r.verdict == Verdict::not_offered ? 1 : 0;
    body += junit_case(report, r);
  }
  for (const std::string& end : report.ends) {
    ++failures;
    body += fmt::format(
        "    <testcase classname=\"gate\" name=\"the_candidate_ends_in_order\">\n      <failure type=\"device-fault\" "
        "message=\"{}\"/>\n    </testcase>\n",
        escaped_markup(end));
  }
  if (!report.missing_shards.empty()) {
    ++errors;
    body += fmt::format(
        "    <testcase classname=\"gate\" name=\"every_shard_is_there\">\n      <error type=\"inconclusive\" "
        "message=\"{}\"/>\n"
        "    </testcase>\n",
        escaped_markup(exit_meaning(report)));
  }
  if (report.interrupted) {
    ++errors;
    body +=
        "    <testcase classname=\"gate\" name=\"the_run_was_not_interrupted\">\n      <error type=\"inconclusive\" "
        "message=\"interrupted by a signal\"/>\n    </testcase>\n";
  }
  std::string properties;
  const auto property = [&](const std::string& key, const std::string& value) {
    properties +=
        fmt::format("      <property name=\"{}\" value=\"{}\"/>\n", escaped_markup(key), escaped_markup(value));
  };
  property("seed", std::to_string(report.seed));
  property("cases", std::to_string(cases));
  property("candidate", report.candidate.name + " " + report.candidate.version + " digest " + report.candidate.digest);
  property("digest", report.candidate.digest);
  property("suite", report.suite);
  property("device", device_of(report));
  property("exit_code", std::to_string(exit_code(report)));
  if (!report.shard.is_whole()) property("shard", to_text(report.shard));
  for (const auto& [key, value] : report.machine) property(key, value);
  for (const auto& [key, value] : scope_of(report)) property(key, value);
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"mxcheck gate {}\" tests=\"{}\" "
      "failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3f}\">\n    <properties>\n{}    </properties>\n{}  "
      "</testsuite>\n</testsuites>\n",
      escaped_markup(report.suite),
      report.statements.size() + report.ends.size() + (report.interrupted ? 1 : 0) +
          (report.missing_shards.empty() ? 0 : 1),
      failures, errors, skipped, report.seconds, properties, body);
}

namespace {

constexpr std::size_t kMostText = 8'000;      // bytes of one annotation
constexpr std::size_t kMostSummary = 65'536;  // of a step's 1 MiB

// As the runner decodes it.
std::string encoded(std::string_view text, bool is_property) {
  std::string out;
  for (const char c : text) {
    const bool special = c == '%' || c == '\r' || c == '\n' || (is_property && (c == ':' || c == ','));
    out += special ? fmt::format("%{:02X}", static_cast<unsigned>(c)) : std::string(1, c);
  }
  return out;
}

struct Annotation {
  const char* level;
  std::string title;
  std::string text;
};

std::string line_of(const GateReport& report, const Annotation& a) {
  std::string where;
  if (!report.source.file.empty()) where += ",file=" + encoded(report.source.file, true);
  if (!report.source.file.empty() && report.source.line > 0) where += fmt::format(",line={}", report.source.line);
  return fmt::format("::{} title={}{}::{}\n", a.level, encoded(a.title, true), where,
                     encoded(shortened(a.text, kMostText), false));
}

std::string first_lines(const std::vector<Annotation>& all, const GateReport& report) {
  std::string out;
  const bool too_many = all.size() > kMostAnnotations;
  const std::size_t shown = too_many ? kMostAnnotations - 1 : all.size();
  for (std::size_t i = 0; i < shown; ++i) out += line_of(report, all[i]);
  if (!too_many) return out;
  const std::vector<Annotation> rest(all.begin() + static_cast<std::ptrdiff_t>(shown), all.end());
  return out + line_of(report, {all.front().level, fmt::format("and {} more", rest.size()),
                                join(rest, "\n", [](const Annotation& a) { return a.title; })});
}

std::string count_table(const GateReport& report) {
  std::string rows;
  std::int64_t unoffered = 0;
  for (const StatementResult& r : report.statements) {
    if (r.verdict == Verdict::not_offered) {
      ++unoffered;
      continue;
    }
    const char* word = r.verdict == Verdict::held     ? ":white_check_mark: held"
                       : r.verdict == Verdict::failed ? ":x: **failed**"
                                                      : ":warning: inconclusive";
    const std::string said = r.counterexample ? r.counterexample->finding.summary : r.reason;
    rows += fmt::format("| {} | {} | {} | {} | {} |\n", word, escaped_markdown(r.statement->name), grouped(r.cases),
                        grouped(r.variants), escaped_markdown(said));
  }
  std::string out;
  if (!rows.empty()) out = "| | statement | cases | variants | |\n|---|---|--:|--:|---|\n" + rows;
  if (unoffered > 0)
    out += fmt::format("\n{} statements are about operations or options that the library does not offer.\n", unoffered);
  return out;
}

// In a fence that no line of the text can close.
std::string fenced(const std::string& text) {
  std::size_t longest = 2, run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(longest + 1, '`');
  return fence + "text\n" + text + (text.ends_with('\n') ? "" : "\n") + fence + "\n";
}

}  // namespace

std::string escaped_markdown(std::string_view text) {
  std::string out;
  for (const char c : plain_text(text)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += ' ';
    } else if (byte < 0x80 && std::ispunct(byte) != 0) {
      out += fmt::format("&#{};", static_cast<int>(byte));
    } else {
      out += c;
    }
  }
  return out;
}

std::string github_annotations(const GateReport& report) {
  std::vector<Annotation> errors, warnings;
  for (const StatementResult& r : report.statements) {
    const std::string name(r.statement->name);
    if (r.counterexample) {
      errors.push_back(
          {"error", name, plain_text(r.counterexample->finding.summary + counterexample_text(report, r, ""))});
    } else if (r.verdict == Verdict::inconclusive) {
      warnings.push_back({"warning", name, plain_text(r.reason)});
    }
  }
  for (const std::string& end : report.ends)
    errors.push_back({"error", "the candidate ends in order", plain_text(end)});
  if (!report.missing_shards.empty()) errors.push_back({"error", "shards are missing", exit_meaning(report)});
  if (report.interrupted) warnings.push_back({"warning", "interrupted", "what had not run says nothing"});
  std::string out = first_lines(errors, report) + first_lines(warnings, report);
  const int code = exit_code(report);
  if (!out.empty()) return out;
  return line_of(report, {code == 0 ? "notice" : "warning", "mxcheck gate",
                          fmt::format("exit code {}: {}", code, plain_text(exit_meaning(report)))});
}

std::string github_summary(const GateReport& report) {
  const int code = exit_code(report);
  std::string out = fmt::format("## {} mxcheck gate: {}\n\n**exit code {}: {}**\n\n",
                                code == 0   ? ":white_check_mark:"
                                : code == 4 ? ":warning:"
                                            : ":x:",
                                escaped_markdown(report.candidate.name + " " + report.candidate.version), code,
                                escaped_markdown(exit_meaning(report)));
  out += "| | |\n|---|---|\n";
  const auto row = [&](const std::string& key, const std::string& value) {
    out += fmt::format("| {} | {} |\n", escaped_markdown(key), escaped_markdown(value));
  };
  row("library", report.candidate.path);
  row("digest", report.candidate.digest);
  row("suite, seed", report.suite + ", " + std::to_string(report.seed) +
                         (report.shard.is_whole() ? "" : ", shard " + to_text(report.shard)));
  for (const auto& [key, value] : report.machine) row(key, value);
  out += "\n" + shortened(count_table(report), kMostSummary / 2);
  for (const StatementResult& r : report.statements) {
    if (!r.counterexample) continue;
    std::string text = plain_text(counterexample_text(report, r, ""));
    text.erase(0, text.find_first_not_of('\n'));
    const std::string section = fmt::format("\n### {}\n\n", escaped_markdown(r.statement->name)) + fenced(text) +
                                "\nRun it again:\n\n" + fenced(plain_text(again_command(report, r)));
    if (out.size() + section.size() > kMostSummary - 1'000) {
      out += "\nThere are more counterexamples than a summary holds; --html and --junit have all.\n";
      break;
    }
    out += section;
  }
  if (const std::vector<std::string> unseen = not_seen(report); !unseen.empty() && out.size() < kMostSummary - 1'000)
    out += fmt::format("\nNot seen by {}: {}\n", escaped_markdown(report.suite), escaped_markdown(join(unseen, "; ")));
  return out;
}

namespace {

// U+FFFE and U+FFFF are no characters of XML; U+202A to U+202E and U+2066 to U+2069 show a name as another one.
bool is_left_out(std::string_view three) {
  constexpr std::array<std::string_view, 11> kAll{"\xEF\xBF\xBE", "\xEF\xBF\xBF", "\xE2\x80\xAA", "\xE2\x80\xAB",
                                                  "\xE2\x80\xAC", "\xE2\x80\xAD", "\xE2\x80\xAE", "\xE2\x81\xA6",
                                                  "\xE2\x81\xA7", "\xE2\x81\xA8", "\xE2\x81\xA9"};
  for (const std::string_view one : kAll) {
    if (three == one) return true;
  }
  return false;
}

}  // namespace

std::string plain_text(std::string_view raw) {
  const std::string text = valid_utf8(std::string(raw));
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (is_left_out(std::string_view(text).substr(i, 3))) {
      out += '?', i += 2;
    } else {
      out += (byte < 0x20 && text[i] != '\n' && text[i] != '\t') || byte == 0x7F ? '?' : text[i];
    }
  }
  return out;
}

std::string escaped_markup(std::string_view raw) {
  std::string out;
  for (const char c : plain_text(raw)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string shortened(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  constexpr std::size_t kRoomForNote = 60;
  std::size_t end = most > kRoomForNote ? most - kRoomForNote : 0;
  if (const std::size_t line = text.rfind('\n', end); line != std::string::npos && line > end / 2) end = line;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // no character is cut in two
  return text.substr(0, end) + "\n... " + std::to_string(text.size() - end) + " bytes more\n";
}

std::string breakable(std::string_view name) {
  std::string out;
  for (const char c : escaped_markup(name)) out += c == '_' ? "_<wbr/>" : std::string(1, c);
  return out;
}

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  const std::size_t sign = number < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > sign + 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

}  // namespace mxcheck
