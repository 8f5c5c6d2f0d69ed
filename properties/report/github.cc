// A run for GitHub Actions.

#include <cctype>
#include <vector>

#include <fmt/format.h>

#include "numerics/text.h"
#include "pages/html.h"
#include "properties/report/report.h"

namespace mxcheck {
namespace {

constexpr std::size_t kMostText = 8'000;      // bytes of one annotation
constexpr std::size_t kMostSummary = 65'536;  // of a step's 1 MiB

// The form that the runner decodes.
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
                     encoded(html::shortened(a.text, kMostText), false));
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
    rows += fmt::format("| {} | {} | {} | {} | {} |\n", word, escaped_markdown(r.statement->name),
                        html::grouped(r.cases), html::grouped(r.variants), escaped_markdown(said));
  }
  std::string out;
  if (!rows.empty()) out = "| | statement | cases | variants | |\n|---|---|--:|--:|---|\n" + rows;
  if (unoffered > 0)
    out += fmt::format("\n{} statements are about operations or options that the library does not offer.\n", unoffered);
  return out;
}

// Puts the text in a fence that no line of it can close.
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
  for (const char c : html::plain_text(text)) {
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
          {"error", name, html::plain_text(r.counterexample->finding.summary + counterexample_text(report, r, ""))});
    } else if (r.verdict == Verdict::inconclusive) {
      warnings.push_back({"warning", name, html::plain_text(r.reason)});
    }
  }
  for (const std::string& end : report.ends)
    errors.push_back({"error", "the candidate ends in order", html::plain_text(end)});
  if (!report.missing_shards.empty()) errors.push_back({"error", "shards are missing", exit_meaning(report)});
  if (report.interrupted) warnings.push_back({"warning", "interrupted", html::plain_text(interrupted_text(report))});
  std::string out = first_lines(errors, report) + first_lines(warnings, report);
  const int code = exit_code(report);
  if (!out.empty()) return out;
  return line_of(report, {code == 0 ? "notice" : "warning", "mxcheck gate",
                          fmt::format("exit code {}: {}", code, html::plain_text(exit_meaning(report)))});
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
  out += "\n" + html::shortened(count_table(report), kMostSummary / 2);
  for (const StatementResult& r : report.statements) {
    if (!r.counterexample) continue;
    std::string text = html::plain_text(counterexample_text(report, r, ""));
    text.erase(0, text.find_first_not_of('\n'));
    const std::string section = fmt::format("\n### {}\n\n", escaped_markdown(r.statement->name)) + fenced(text) +
                                "\nRun it again:\n\n" + fenced(html::plain_text(again_command(report, r)));
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

}  // namespace mxcheck
