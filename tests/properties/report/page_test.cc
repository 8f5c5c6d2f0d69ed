#include "properties/report/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <sstream>

#include "pages/html.h"
#include "tests/pages/xml_checker.h"
#include "tests/properties/toy.h"

namespace mxcheck {
namespace {

using test::run_toy;
using test::times;
using test::Toy;
using test::XmlChecker;

std::map<std::string, ExamplePictures> pictures_of(const GateReport& r) {
  std::map<std::string, ExamplePictures> pictures;
  for (const StatementResult& s : r.statements) {
    if (!s.counterexample) continue;
    ExamplePictures& p = pictures[std::string(s.statement->name)];
    p.minimal = tensors_of_minimal(r, *s.counterexample, test::toy_options());
    p.original = tensors_of_original(*s.counterexample, test::toy_options());
  }
  return pictures;
}

struct Page {
  GateReport report;
  std::string text;
};
Page page_of(const char* mode, const std::string& only) {
  const Toy toy(mode);
  Page page;
  page.report = run_gate(test::toy_options(only, 20), [](const StatementResult&, bool) {});
  page.text = gate_page(page.report, pictures_of(page.report));
  return page;
}

TEST(GatePage, is_well_formed_and_has_every_failed_statement_whatever_the_candidate_does) {
  for (const char* mode : {"", "column_33_is_wrong", "floor", "crashes", "foreign_text", "supports_nothing"}) {
    const Page page = page_of(mode, "[pq]*");
    XmlChecker xml(page.text);
    EXPECT_EQ(xml.check(), "") << mode;
    std::size_t failed = 0;
    for (const StatementResult& s : page.report.statements) {
      EXPECT_NE(page.text.find(html::breakable(s.statement->name)), std::string::npos) << s.statement->name;
      if (!s.counterexample) continue;
      ++failed;
      const std::string id = "<section class=\"failure\" id=\"" + std::string(s.statement->name) + "\">";
      EXPECT_EQ(times(page.text, id), 1U) << mode << s.statement->name;
      // Line by line, but for what the page has elsewhere.
      std::istringstream lines(counterexample_text(page.report, s, ""));
      for (std::string line; std::getline(lines, line);) {
        const std::string label = line.substr(0, std::min<std::size_t>(line.size(), 12));
        const auto is = [&](const char* one) { return label == one; };
        if (is("  again     ") || is("  must hold ") || is("  cause     ") || is("  candidate ")) continue;
        EXPECT_NE(page.text.find(html::escaped(line.substr(std::min<std::size_t>(line.size(), 12)))), std::string::npos)
            << line;
      }
      EXPECT_EQ(times(page.text, html::escaped(again_command(page.report, s)) + "</pre>"), 1U);
    }
    EXPECT_EQ(times(page.text, "<section class=\"failure\""), failed) << mode;
    EXPECT_EQ(failed > 0, mode[0] != '\0' && mode[0] != 's') << mode;
    const std::string verdict = "exit code " + std::to_string(exit_code(page.report)) + ": ";
    EXPECT_NE(page.text.find(verdict), std::string::npos) << mode;
    EXPECT_LT(page.text.size(), 400'000U) << mode;
  }
}

TEST(GatePage, holds_seed_digest_device_tool_and_how_to_run_it_again) {
  const Page page = page_of("", "quantize_*");
  const auto row = [](const std::string& name, const std::string& value) {
    return "<dt>" + name + "</dt><dd>" + html::escaped(value) + "</dd>";
  };
  EXPECT_NE(page.text.find(row("seed", "7")), std::string::npos);
  EXPECT_NE(page.text.find(row("digest", page.report.candidate.digest)), std::string::npos);
  ASSERT_FALSE(page.report.machine.empty());
  for (const auto& [key, value] : page.report.machine)
    EXPECT_NE(page.text.find(row(key, value)), std::string::npos) << key;
  EXPECT_NE(page.text.find(html::escaped(run_command(page.report)) + "</pre>"), std::string::npos);
  for (const char* heading : {"Statements", "What was reached", "What was not tried", "Time", "Slowest cases"})
    EXPECT_NE(page.text.find(">" + std::string(heading) + "<"), std::string::npos) << heading;
}

// Everything that another wrote: of the library, of its messages, of paths and of the machine.
TEST(GatePage, nothing_that_others_wrote_becomes_markup) {
  const std::string hostile =
      "</pre></style></title><script>alert(1)</script><img src=x onerror=alert(2)>\" onload=\"x' ]]> & \x01";
  Page page = page_of("column_33_is_wrong", "[pq]*");
  GateReport& r = page.report;
  r.candidate.name = r.candidate.version = r.candidate.path = r.candidate.digest = r.candidate.unconfined = hostile;
  r.suite = r.arguments = r.unwritten = hostile;
  r.ends = {hostile};
  r.interrupted = true;
  for (auto& [key, value] : r.machine) key = value = hostile;
  for (OperationInfo& o : r.candidate.operations) o.name = hostile, o.max_rows = 5;
  for (StatementResult& s : r.statements) {
    s.reason = hostile;
    for (CoverageReport& c : s.coverage) {
      c.operation = hostile, c.missed = {hostile};
      for (AxisCount& axis : c.axes) {
        axis.name = hostile;
        for (BinCount& bin : axis.bins) bin.label = hostile, bin.refused += bin.checked, bin.checked = 0;
      }
    }
    if (!s.counterexample) continue;
    Finding& f = s.counterexample->finding;
    f.summary = hostile, f.element = f.matches = {hostile};
    f.difference->tensor.name = f.difference->pattern = hostile;
    f.difference->histogram = {{hostile, 3}};
  }
  std::map<std::string, ExamplePictures> pictures;
  pictures["quantize_equals_the_reference"].saved = hostile;
  const std::string text = gate_page(r, pictures);
  XmlChecker xml(text);
  EXPECT_EQ(xml.check(), "");
  EXPECT_GT(times(text, "&lt;script&gt;"), 20U);
  const std::set<std::string> elements(xml.elements.begin(), xml.elements.end());
  for (const char* active : {"script", "img", "iframe", "object", "embed", "link", "base", "form", "foreignObject"})
    EXPECT_EQ(elements.count(active), 0U) << active;
  for (const auto& [name, values] : xml.attributes) {
    const std::string key = name.substr(name.find('.') + 1);
    EXPECT_NE(key.rfind("on", 0), 0U) << name;
    EXPECT_NE(key, "src");
    for (const std::string& value : values) {
      if (key == "href") {
        EXPECT_EQ(value[0], '#') << value;
      }
    }
  }
}

TEST(GatePage, fetches_nothing) {
  const std::string text = page_of("column_33_is_wrong", "quantize_*").text;
  EXPECT_EQ(text.find("http"), std::string::npos);
  EXPECT_EQ(text.find("@import"), std::string::npos);
  for (std::size_t at = 0; (at = text.find("url(", at)) != std::string::npos; ++at) EXPECT_EQ(text[at + 4], '#');
}

TEST(GatePage, shows_the_case_as_it_was_found_and_its_bits) {
  const std::string text = page_of("column_33_is_wrong", "quantize_*").text;
  EXPECT_NE(text.find("As it was found: codes, "), std::string::npos);
  EXPECT_NE(text.find("The smallest case: codes, 1 x 34"), std::string::npos);
  EXPECT_NE(text.find("bits of codes: expected above observed"), std::string::npos);
  EXPECT_LT(text.find("expected  0x"), text.find("<section"));               // the element is in the verdict's box
  EXPECT_EQ(times(text, "class=\"x1\"") + times(text, "class=\"x0\""), 1U);  // one bit of column 33
}

// One element is drawn as bits alone; two causes have a line each in the verdict's box, and a cause that leaves a
// choice goes with the one that is among it.
TEST(GatePage, begins_with_the_causes_and_draws_no_map_of_one_element) {
  Page page = page_of("column_33_is_wrong", "[pq]*");
  const auto failed = [](const StatementResult& s) { return s.counterexample.has_value(); };
  page.report.statements.push_back(*std::ranges::find_if(page.report.statements, failed));
  std::vector<Finding*> findings;
  for (StatementResult& s : page.report.statements) {
    if (s.counterexample) findings.push_back(&s.counterexample->finding);
  }
  ASSERT_GE(findings.size(), 3U);
  for (Finding* f : findings) f->kind = FindingKind::mismatch, f->matches = {"cause a"};
  findings[0]->matches = {"cause b", "cause a"};
  findings[1]->matches = {"cause c"};
  const std::string text = gate_page(page.report, {});
  const std::string box = text.substr(0, text.find("<section"));
  EXPECT_LT(box.find("cause c: gives"), box.find("cause a: gives"));
  EXPECT_EQ(times(box, "gives every bit"), 2U);
  EXPECT_EQ(times(box, "href=\"#"), findings.size());
  const std::string maps = page_of("floor", "quantize_*").text;
  EXPECT_EQ(times(maps, "The smallest case: codes, 1 x 1<"), 0U);
}

TEST(GatePage, names_the_four_states_of_statements) {
  GateReport r = run_toy("", "[pq]*", 20);
  ASSERT_GE(r.statements.size(), 4U);
  std::size_t i = 0;
  for (const Verdict v : {Verdict::held, Verdict::failed, Verdict::inconclusive, Verdict::not_offered})
    r.statements[i++].verdict = v;
  r.statements.resize(4);
  const std::string text = gate_page(r, {});
  for (const char* badge : {"held\">held", "failed\">FAILED", "open\">inconclusive", "none\">not offered"})
    EXPECT_NE(text.find("<span class=\"badge " + std::string(badge) + "</span> 1</span>"), std::string::npos) << badge;
}

TEST(GatePage, is_the_same_for_the_same_seed_apart_from_seconds) {
  const auto text = [] {
    std::string page = page_of("column_33_is_wrong", "quantize_*").text;
    page.erase(page.find("<section><h2>Time"));
    return std::regex_replace(page, std::regex("[0-9.]+ s;"), "T s;");
  };
  EXPECT_EQ(text(), text());
}

}  // namespace
}  // namespace mxcheck
