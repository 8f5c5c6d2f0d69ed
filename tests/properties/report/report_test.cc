#include "properties/report/report.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "goldens/io/tensor_file.h"
#include "tests/goldens/temporary_directory.h"
#include "tests/pages/xml_checker.h"
#include "tests/properties/toy.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using test::kQuantize;
using test::result_of;
using test::run_toy;
using test::XmlChecker;

constexpr const char* kFast = "[!el]*";  // without the statements that enumerate millions of elements

std::string save(const GateReport& r, const std::string& directory) {
  return save_counterexample(r, r.statements[0], directory,
                             tensors_of_minimal(r, *r.statements[0].counterexample, test::toy_options()));
}

std::string without_seconds(const std::string& text) {
  std::string out = std::regex_replace(text, std::regex("time=\"[0-9.]+\""), "time=\"T\"");
  out = std::regex_replace(out, std::regex("\"seconds\": [0-9.e+-]+"), "\"seconds\": T");
  return std::regex_replace(out, std::regex(" +[0-9.]+ s\\b"), " T s");
}

TEST(Report, a_counterexample_holds_all_that_a_reader_needs) {
  const GateReport r = run_toy("column_33_is_wrong", kQuantize);
  const std::string text = counterexample_text(r, result_of(r, kQuantize), "somewhere/x.safetensors");
  const char* items[] = {
      // 1. statement, sentence, clause, kind of verdict
      kQuantize, "must hold codes and scales are the reference's", "source    OCP MX 1.0", "verdict   exact",
      // 2. where
      "first at (0, 33)", "of codes (1 x 34)", "place     element (0, 1) of block (0, 1)", "columns 32 to 33",
      // 3. the input four ways, amax, scale
      "input     x(0, 33) = 0x", "amax      0x", "scale     0x", "by the reference", "scaled    x / 2^",
      // 4. expected and observed four ways, distance
      "expected  0x", "observed  0x", "; 1 step away",
      // 5. extent, histogram, neighbours
      "extent    1 of 34 elements", "off by    ", "beside    (0, 32) right",
      // 6. the minimal case and how it was found
      "case      op=quantize", "rows=1 cols=34", "shrunk    from ", " tries",
      // 7. once more, and where it was saved
      "again     mxcheck gate --candidate ", "--reproduce 'quantize_equals_the_reference: op=quantize",
      "saved     somewhere/x.safetensors",
      // 8. candidate, seed
      "seed      7", "candidate toy", "digest "};
  for (const char* item : items) {
    EXPECT_NE(text.find(item), std::string::npos) << item << "\n" << text;
  }
  EXPECT_TRUE(std::regex_search(
      text, std::regex("expected  0x[0-9a-f]{2} = [01]\\.[01]{4}\\.[01]{3} = -?0x[0-9a-f.p+-]+ = -?[0-9.e-]+")))
      << text;
  EXPECT_EQ(text.find("budget ran out"), std::string::npos);
  // Build and machine are the same for all counterexamples of a run.
  test::expect_contains(machine_text(r), "\non this machine\n  mxcheck   ");
  for (const char* row :
       {"commit ", "\n  compiler  ", "\n  cpu       ", "\n  system    ", "\n  gpu       none used\n"}) {
    test::expect_contains(machine_text(r), row);
    EXPECT_EQ(text.find(row), std::string::npos) << row;
  }
}

TEST(Report, a_pass_says_what_was_tried) {  // item 9
  const GateReport r = run_toy("", kFast, 250);
  const std::string text = coverage_text(r) + report_summary(r);
  EXPECT_NE(text.find("worst difference 0 bits"), std::string::npos);
  EXPECT_NE(text.find("exit code 0"), std::string::npos);
  for (const char* name :
       {"of quantize", "  cols: 0: ", "  experts: none: ", "8192-20480: ", "data: boundaries: ", "specials: "}) {
    EXPECT_NE(text.find(name), std::string::npos) << name;
  }
  EXPECT_EQ(machine_text(r), "");
  std::string lines = not_offered_text(r);
  for (const StatementResult& s : r.statements) lines += statement_line(s);
  EXPECT_NE(lines.find("held"), std::string::npos);
  EXPECT_NE(lines.find("not offered"), std::string::npos);
  EXPECT_NE(report_header(r).find("seed 7"), std::string::npos);
}

TEST(Report, statements_that_are_not_offered_for_the_same_reason_are_one_line) {
  GateReport r = run_toy("", kQuantize, 5);
  r.statements.resize(1);
  EXPECT_EQ(not_offered_text(r), "");
  const auto add = [&](std::size_t statement, const char* reason) {
    StatementResult& s = r.statements.emplace_back();
    s.statement = &all_statements()[statement], s.verdict = Verdict::not_offered, s.reason = reason;
  };
  const auto line = [](std::size_t statement, const std::string& more, const std::string& reason) {
    std::string name = std::string(all_statements()[statement].name) + more;
    name.resize(64, ' ');
    return "not offered   " + name + " " + reason + "\n";
  };
  add(1, "no variant");
  EXPECT_EQ(not_offered_text(r), line(1, "", "no variant"));
  add(2, "no case"), add(3, "no variant"), add(4, "no variant");
  EXPECT_EQ(not_offered_text(r), line(1, " and 2 more", "no variant") + line(2, "", "no case"));
}

TEST(Report, limits_and_refused_options_are_in_text_json_and_junit) {
  const GateReport right = run_toy("limits,no_experts", kQuantize, 250);
  EXPECT_NE(report_header(right).find("limits of quantize: rows to 40, columns to 100\n"), std::string::npos);
  EXPECT_NE(report_header(run_toy("", kQuantize, 5)).find("limits: it declares none\n"), std::string::npos);
  const auto j = nlohmann::json::parse(report_json(right));
  EXPECT_EQ(j["candidate"]["operations"][0]["max_rows"], 40);
  EXPECT_EQ(j["candidate"]["operations"][0]["cols_multiple"], 1);
  const std::vector<std::string> refused = not_offered(result_of(right, kQuantize));
  ASSERT_FALSE(refused.empty());
  EXPECT_EQ(j["statements"][0]["not_offered"], refused);
  XmlChecker xml(report_junit(right));
  EXPECT_EQ(xml.check(), "");
  const auto value_of = [&](const std::string& name) -> std::string {
    const std::vector<std::string>& names = xml.attributes["property.name"];
    const auto at = std::find(names.begin(), names.end(), name);
    return at == names.end() ? "" : xml.attributes["property.value"].at(static_cast<std::size_t>(at - names.begin()));
  };
  EXPECT_EQ(value_of("limits.quantize"), "rows to 40, columns to 100");
  EXPECT_NE(value_of("not_offered.quantize_equals_the_reference").find(refused[0]), std::string::npos);
  EXPECT_NE(value_of("not_seen").find("(--soak)"), std::string::npos);
}

TEST(Report, each_suite_ends_with_what_it_cannot_see) {
  GateReport r = run_toy("", kQuantize, 5);
  r.selective = false;
  const auto last_line = [&] {
    const std::string text = report_summary(r);
    return text.substr(text.rfind('\n', text.size() - 2) + 1);
  };
  for (const char* suite : {"quick", "full", "exhaustive"}) {
    r.suite = suite;
    EXPECT_EQ(last_line().rfind(std::string("not seen by ") + suite + ": ", 0), 0U) << last_line();
    EXPECT_NE(last_line().find("one wrong call in 100,000 (--soak)"), std::string::npos);
    EXPECT_EQ(last_line().find("--suite exhaustive") != std::string::npos, r.suite != "exhaustive");
    EXPECT_EQ(last_line().find("--suite full") != std::string::npos, r.suite == "quick");
    const auto j = nlohmann::json::parse(report_json(r));
    ASSERT_TRUE(j["not_seen"].is_array());
    for (const auto& one : j["not_seen"]) EXPECT_NE(last_line().find(one.get<std::string>()), std::string::npos);
  }
  r.selective = true;
  EXPECT_NE(last_line().find("--only"), std::string::npos);
  r.one_case = true;
  EXPECT_EQ(last_line().rfind("exit code", 0), 0U);
  EXPECT_FALSE(nlohmann::json::parse(report_json(r)).contains("not_seen"));
}

TEST(Report, a_soak_says_its_calls_and_the_bound_in_text_json_and_junit) {
  GateReport r = run_toy("", kQuantize, 5);
  r.suite = "soak", r.soak = SoakCount{0.5, 30'000, 0, 30};
  EXPECT_NE(report_summary(r).find("soak: 30000 calls compared in 30.0 s (1000 a second), 0 failures\n"
                                   "no failure in 30000 calls: below 3/n = 0.0001 a call at 95 %"),
            std::string::npos)
      << report_summary(r);
  auto j = nlohmann::json::parse(report_json(r));
  EXPECT_EQ(j["soak"]["calls"], 30'000);
  EXPECT_EQ(j["soak"]["failures_a_call_below"], 3.0 / 30'000);
  EXPECT_NE(report_junit(r).find("<property name=\"soak_failures_a_call_below\" value=\"0.0001\"/>"),
            std::string::npos);
  r.soak->failures = 3;
  EXPECT_NE(report_summary(r).find("3 failures\nfailures: one in 10000 calls\n"), std::string::npos);
  j = nlohmann::json::parse(report_json(r));
  EXPECT_FALSE(j["soak"].contains("failures_a_call_below"));
  EXPECT_EQ(report_junit(r).find("soak_failures_a_call_below"), std::string::npos);
}

TEST(Report, what_a_failure_follows_is_printed_and_is_in_its_command) {
  const GateReport r = run_toy("wrong_from_call_5", kQuantize);
  const Counterexample& e = *r.statements[0].counterexample;
  const std::string text = counterexample_text(r, r.statements[0], "");
  const std::string after = "2 x " + to_text(e.minimal);
  EXPECT_NE(text.find("  after     " + after + "\n"), std::string::npos) << text;
  EXPECT_NE(text.find(": " + to_text(e.minimal) + "' --after '" + after + "'\n"), std::string::npos) << text;
  const auto j = nlohmann::json::parse(report_json(r))["statements"][0]["counterexample"];
  EXPECT_EQ(j["fresh_process"]["reproduced"], true);
  EXPECT_EQ(j["fresh_process"]["after"], std::vector<std::string>{after});
  EXPECT_NE(text.find(j["again"].get<std::string>()), std::string::npos);
}

TEST(Report, a_failure_that_was_not_met_again_gives_the_run) {
  GateReport r = run_toy("column_33_is_wrong", kQuantize);
  r.statements[0].counterexample->reproduction = Reproduction{false, {}, {}, 2, 64};
  const std::string text = counterexample_text(r, r.statements[0], "");
  EXPECT_NE(
      text.find("  again     not reproduced in a fresh process: depends on calls before it or on chance (seen 2 of "
                "64 times); the run once more:\n  again     mxcheck gate --candidate "),
      std::string::npos)
      << text;
  EXPECT_NE(text.find(" --suite quick --seed 7 --only 'quantize_equals_the_reference' --cases 60\n"),
            std::string::npos);
  EXPECT_EQ(text.find("--reproduce"), std::string::npos);
}

TEST(Report, what_is_saved_was_observed_after_the_calls_that_the_failure_depends_on) {
  const test::TemporaryDirectory dir;
  const test::Toy toy("wrong_from_call_5");
  GateReport r = run_gate(test::toy_options(kQuantize), [](const StatementResult&, bool) {});
  const auto saved = [&] {
    std::map<std::string, std::vector<std::byte>> tensors;
    const std::string path = save(r, dir / "cases");
    for (const Tensor& t : read_safetensors(path).tensors) tensors[t.name] = t.data;
    return tensors;
  };
  EXPECT_NE(saved().at("observed_codes"), saved().at("expected_codes"));
  r.statements[0].counterexample->reproduction = Reproduction{false, {}, {}, 0, 64};
  EXPECT_EQ(saved().count("observed_codes"), 0U);
}

// How a call ended is its cause: said once, with the first statement that met it.
TEST(Report, what_several_statements_met_is_told_once) {
  GateReport r = run_toy("foreign_text", "quantize_*", 20);
  const StatementResult& first = result_of(r, kQuantize);
  ASSERT_TRUE(first.counterexample);
  const std::string text = counterexample_text(r, first, "");
  test::expect_contains(
      text, "  cause     the candidate refused a case that it claims to support: status MXCHECK_FAILED (5), ");
  EXPECT_EQ(text.find("  found "), std::string::npos) << text;
  StatementResult second = first;
  second.statement = &all_statements().back();
  r.statements = {first, second};
  const std::string again = counterexample_text(r, r.statements[1], "");
  test::expect_contains(again, std::string("  cause     as of ") + kQuantize + "\n");
  EXPECT_EQ(again.find("MXCHECK_FAILED"), std::string::npos) << again;
}

TEST(Report, a_case_that_is_the_smallest_as_found_was_not_shrunk) {
  GateReport r = run_toy("column_33_is_wrong", kQuantize);
  Counterexample& e = *r.statements[0].counterexample;
  e.original.rows = e.minimal.rows, e.original.cols = e.minimal.cols;
  ASSERT_NE(e.original, e.minimal);
  test::expect_contains(counterexample_text(r, r.statements[0], ""), "  shrunk    1 x 34 as found, simpler in ");
  e.original = e.minimal;
  EXPECT_EQ(counterexample_text(r, r.statements[0], "").find("shrunk"), std::string::npos);
}

TEST(Report, a_spent_budget_is_said) {
  GateReport r = run_toy("column_33_is_wrong", kQuantize);
  r.statements[0].counterexample->shrink_budget_spent = true;
  EXPECT_NE(counterexample_text(r, r.statements[0], "").find("a smaller case may exist"), std::string::npos);
}

TEST(Report, junit_is_well_formed_whatever_the_candidate_says) {
  for (const char* mode : {"", "column_33_is_wrong", "crashes", "foreign_text", "supports_nothing", "no_message"}) {
    GateReport r = run_toy(mode, mode[0] == '\0' ? kFast : "[pq]*", 20);
    r.interrupted = mode[0] == 's';
    if (r.interrupted) r.not_begun = {&all_statements().back()};
    const std::string text = report_junit(r);
    XmlChecker xml(text);
    EXPECT_EQ(xml.check(), "") << mode;
    const auto count = [&](const std::string& name) {
      return std::count(xml.elements.begin(), xml.elements.end(), name);
    };
    const auto attribute = [&](const std::string& name) {
      return std::stol(xml.attributes["testsuite." + name].at(0));
    };
    EXPECT_EQ(count("testcase"), attribute("tests"));
    EXPECT_EQ(count("failure"), attribute("failures"));
    EXPECT_EQ(count("error"), attribute("errors"));
    EXPECT_EQ(count("skipped"), attribute("skipped"));
    std::set<std::string> keys(xml.attributes["property.name"].begin(), xml.attributes["property.name"].end());
    for (const char* key : {"seed", "cases", "candidate", "mxcheck", "compiler", "cpu", "system"})
      EXPECT_TRUE(keys.count(key)) << key;
    if (std::string(mode) == "crashes") {
      EXPECT_EQ(xml.attributes["failure.type"].at(0), "device-fault");
    }
    if (std::string(mode) == "column_33_is_wrong") {
      EXPECT_EQ(xml.attributes["failure.type"].at(0), "mismatch");
    }
    if (r.interrupted) {
      EXPECT_EQ(xml.attributes["error.message"].back(),
                "interrupted by a signal: statements that had not finished have no verdict; 1 had not begun: " +
                    std::string(all_statements().back().name));
    }
  }
}

TEST(Report, junit_has_seed_digest_device_and_where_the_kernel_is) {
  GateReport r = run_toy("column_33_is_wrong", "[pq]*", 20);
  r.source = {"src/q<1>.cu", 41};
  XmlChecker xml(report_junit(r));
  EXPECT_EQ(xml.check(), "");
  std::map<std::string, std::string> properties;
  for (std::size_t i = 0; i < xml.attributes["property.name"].size(); ++i)
    properties[xml.attributes["property.name"][i]] = xml.attributes["property.value"][i];
  EXPECT_EQ(properties["seed"], "7");
  EXPECT_EQ(properties["digest"], r.candidate.digest);
  EXPECT_EQ(properties["device"], r.machine[2].second);
  EXPECT_EQ(properties["exit_code"], "1");
  EXPECT_EQ(properties.count("shard"), 0U);
  EXPECT_EQ(xml.attributes["testcase.file"], std::vector<std::string>(r.statements.size(), "src/q&lt;1&gt;.cu"));
  EXPECT_EQ(xml.attributes["testcase.line"], std::vector<std::string>(r.statements.size(), "41"));
  r.candidate.cuda = true, r.machine.back().second = "A GPU", r.shard = {1, 3}, r.source = {};
  const std::string text = report_junit(r);
  EXPECT_NE(text.find("<property name=\"device\" value=\"A GPU\"/>"), std::string::npos);
  EXPECT_NE(text.find("<property name=\"shard\" value=\"2/3\"/>"), std::string::npos);
  EXPECT_EQ(text.find("file="), std::string::npos);
}

TEST(Report, junit_cuts_long_failures) {
  GateReport r = run_toy("column_33_is_wrong", kQuantize);
  r.statements[0].counterexample->finding.element.assign(2000, "<&\"" + std::string(100, '<'));
  r.statements[0].counterexample->finding.summary.assign(100'000, '&');
  const std::string text = report_junit(r);
  EXPECT_EQ(XmlChecker(text).check(), "");
  EXPECT_LT(text.size(), 70'000U);
  EXPECT_NE(text.find(" bytes more\n</failure>"), std::string::npos);
}

TEST(Report, junit_says_that_shards_are_missing) {
  GateReport r = run_toy("", kQuantize, 5);
  r.missing_shards = {1, 4};
  XmlChecker xml(report_junit(r));
  EXPECT_EQ(xml.check(), "");
  EXPECT_EQ(xml.attributes["testsuite.tests"].at(0), "2");
  EXPECT_EQ(xml.attributes["testsuite.errors"].at(0), "1");
  EXPECT_EQ(xml.attributes["error.message"].at(0), "inconclusive: of the shards 2, 5 there is no report");
}

TEST(Report, json_parses_and_tells_the_same) {
  for (const char* mode : {"", "column_33_is_wrong", "foreign_text"}) {
    const GateReport r = run_toy(mode, "quantize_*", 60);
    const auto j = nlohmann::json::parse(report_json(r));
    EXPECT_EQ(j["schema"], "mxcheck.gate/1");
    EXPECT_EQ(j["exit_code"], exit_code(r));
    EXPECT_EQ(j["seed"], 7);
    ASSERT_EQ(j["statements"].size(), r.statements.size());
    const auto& first = j["statements"][0];
    EXPECT_EQ(first["name"], kQuantize);
    EXPECT_EQ(first.contains("counterexample"), mode[0] != '\0');
    if (std::string(mode) != "column_33_is_wrong") continue;
    EXPECT_EQ(first["counterexample"]["kind"], "mismatch");
    EXPECT_EQ(first["counterexample"]["rows"], 1);
    EXPECT_EQ(first["counterexample"]["cols"], 34);
    EXPECT_EQ(first["counterexample"]["first"], (std::vector<int>{0, 33}));
  }
}

TEST(Report, the_same_seed_gives_the_same_report_apart_from_seconds) {
  for (const char* mode : {"", "column_33_is_wrong"}) {
    const auto all = [&] {
      const GateReport r = run_toy(mode, mode[0] == '\0' ? kFast : "[pq]*", 20);
      std::string text = report_header(r) + report_json(r) + report_junit(r) + report_summary(r) + coverage_text(r);
      for (const StatementResult& s : r.statements) {
        text += statement_line(s);
        if (s.counterexample) text += counterexample_text(r, s, "");
      }
      return without_seconds(text);
    };
    EXPECT_EQ(all(), all()) << mode;
  }
}

TEST(Report, a_path_that_a_shell_would_split_is_quoted) {
  GateReport r = run_toy("column_33_is_wrong", kQuantize);
  r.candidate.path = "/tmp/my lib's/x.so";
  const std::string text = counterexample_text(r, r.statements[0], "");
  EXPECT_NE(text.find("--candidate '/tmp/my lib'\\''s/x.so' --reproduce"), std::string::npos) << text;
}

TEST(Report, a_counterexample_is_saved_with_inputs_and_both_answers) {
  const test::TemporaryDirectory dir;
  const GateReport r = run_toy("column_33_is_wrong", kQuantize);
  const test::Toy toy("column_33_is_wrong");
  const std::string path = save(r, dir / "cases");
  const SafetensorsFile file = read_safetensors(path);
  std::map<std::string, const Tensor*> tensors;
  for (const Tensor& t : file.tensors) tensors[t.name] = &t;
  for (const char* name : {"x", "expected_codes", "expected_scales", "observed_codes", "observed_scales"}) {
    ASSERT_TRUE(tensors.count(name)) << name;
  }
  EXPECT_EQ(tensors["x"]->shape, (std::vector<std::int64_t>{1, 34}));
  EXPECT_NE(tensors["expected_codes"]->data, tensors["observed_codes"]->data);
  EXPECT_EQ(tensors["expected_scales"]->data, tensors["observed_scales"]->data);
  EXPECT_EQ(file.metadata.at("case"), to_text(r.statements[0].counterexample->minimal));
  EXPECT_EQ(save(r, dir / "cases"), path);  // again: same name
  test::write_file(dir / "file", "");
  EXPECT_THROW((void)save(r, dir / "file"), Error);
}

// --- timings

struct Row {
  double wall = 0;
  double cpu = 0;
};

Row row_of(const std::string& text, const std::string& name) {
  std::smatch found;
  const std::regex row("\n  " + name + " +([0-9.]+) +[0-9.]+ % +([0-9.]+) +[0-9.]+ %");
  if (!std::regex_search(text, found, row)) return {-1, -1};
  return {std::stod(found[1]), std::stod(found[2])};
}

GateReport timed_toy(int jobs, const char* only) {
  const test::Toy toy("right");
  GateOptions options = test::toy_options(only);
  options.jobs = jobs, options.timings = true;
  return run_gate(options, [](const StatementResult&, bool) {});
}

TEST(TimingsText, phases_and_idle_jobs_add_up_to_the_run) {
  for (const int jobs : {1, 2}) {
    const GateReport report = timed_toy(jobs, "quantize_*");
    ASSERT_TRUE(report.timings);
    const std::string text = timings_text(report);
    Row sum;
    for (const char* name : {"start-up", "drawing cases", "drawing tensors", "reference", "candidate calls",
                             "comparison", "shrinking", "idle", "other threads"}) {
      const Row row = row_of(text, name);
      EXPECT_GE(row.wall, 0) << name << text;
      sum.wall += row.wall, sum.cpu += row.cpu;
    }
    const Row together = row_of(text, "together");
    EXPECT_NEAR(sum.wall, together.wall, 0.06) << text;  // rounded to hundredths
    EXPECT_NEAR(sum.cpu, together.cpu, 0.06) << text;
    EXPECT_NEAR(together.wall, report.seconds * report.timings->jobs, 0.02) << text;
    EXPECT_GT(row_of(text, "candidate calls").cpu, 0) << text;
    EXPECT_GT(row_of(text, "drawing tensors").cpu, 0) << text;
    // A call counts as a thousand elements, so that 10^6 work are at most a thousand cases.
    std::smatch found;
    ASSERT_TRUE(std::regex_search(text, found, std::regex("% +([0-9.]+)  quantize_equals_the_reference\n"))) << text;
    EXPECT_GE(1000 * std::stod(found[1]) + 50,
              static_cast<double>(test::result_of(report, "quantize_equals_the_reference").cases))
        << text;
  }
}

TEST(TimingsText, are_measured_only_where_they_are_asked_for) {
  EXPECT_FALSE(test::run_toy("right", "quantize_equals_the_reference").timings);
}

TEST(TimingsText, a_run_is_busy_where_others_took_the_cores) {
  EXPECT_EQ(busy_text({61, 44, 72, 2}),
            "the machine was busy: 61 s of wall for 44 s of CPU on 2 cores; other processes took 72 s\n");
  EXPECT_EQ(busy_text({30, 57, 1, 2}), "");     // its own
  EXPECT_EQ(busy_text({30, 28, 2, 2}), "");     // a core was idle: nobody took it
  EXPECT_EQ(busy_text({30, 60, 200, 16}), "");  // half of the cores were
  EXPECT_EQ(busy_text({4, 1, 7, 2}), "");       // too short to judge
  EXPECT_EQ(busy_text({30, 58, 0, 2}), "");     // /proc/stat cannot be read
}

}  // namespace
}  // namespace mxcheck
