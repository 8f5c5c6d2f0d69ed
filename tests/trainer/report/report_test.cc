// Reports of a comparison as text, JSON and HTML, and the drawings in the HTML.

#include <regex>

#include "goldens/json/json.h"
#include "tests/pages/xml_checker.h"
#include "tests/testing.h"
#include "tests/trainer/made_up_runs.h"
#include "trainer/report/report.h"
#include "trainer/report/tables.h"

namespace mxcheck {
namespace {

using namespace test;

std::vector<NamedRun> usual_runs() {
  std::vector<NamedRun> runs = sensitive_experiment(5);
  add_arm(runs, {.recipe = "mxfp8"}, 0.0002, 2e-4, 5);
  add_arm(runs, {.recipe = "bf16", .rounding = TokenRoundingRule::nr_f}, 0.0022, 3e-4, 5);
  return runs;
}

ParityComparison usual() { return compare_runs(usual_runs(), {}); }

// Where little is known: two runs that diverged at once, with a corpus that needs escaping.
ParityComparison poor() {
  std::vector<NamedRun> runs{made_up_run({}), made_up_run({.recipe = "mxfp8"})};
  for (NamedRun& run : runs) {
    run.file = "<&\">\xff" + run.file;
    run.record.corpus = "a < b & \"c\"";
    run.record.end = RunEnd::diverged;
    run.record.steps.resize(1);
    run.record.steps[0].loss = bits(std::numeric_limits<double>::quiet_NaN());
    run.record.evaluations.clear();
    run.record.observations.clear();
  }
  return compare_runs(runs, {});
}

std::string contents(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

TEST(Words, say_numbers_with_units_and_nothing_for_what_is_none) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(signed_percent(0.00012), "+0.0120 %");
  EXPECT_EQ(signed_percent(-0.0025), "-0.2500 %");
  EXPECT_EQ(share_text(0.98234), "98.23 %");
  EXPECT_EQ(share_text(0.000031), "0.0031 %");
  EXPECT_EQ(amount(512), "512");
  EXPECT_EQ(amount(1048576), "1.05 M");
  EXPECT_EQ(amount(12800), "12.8 k");
  EXPECT_EQ(limits({.pairs = 5, .mean = 0, .deviation = 0, .lower = -0.0001, .upper = 0.00034}),
            "[-0.0100, +0.0340] %");
  for (const std::string& text :
       {signed_percent(nan), share_text(nan), amount(nan), limits(PairedInterval{}), decimal(nan, 3)})
    EXPECT_EQ(text, "-");
}

TEST(Words, allow_the_sentence_for_arms_that_passed_alone) {
  const ParityComparison c = usual();
  int said = 0;
  for (const ArmResult& arm : c.arms) {
    const std::string sentence = allowed_sentence(c, arm);
    EXPECT_EQ(!sentence.empty(), arm.name == "mxfp8") << arm.name;
    if (sentence.empty()) continue;
    ++said;
    for (const char* part :
         {"tokens, 5 seeds per arm, mxfp8 (e4m3, scales rceil; 1.0 abcdef, engine cpu)", "is non-inferior to BF16",
          "one-sided 95 % upper limit", "< margin 0.1000 %", "negative control gap +3.", "was rejected"})
      expect_contains(sentence, part);
  }
  EXPECT_EQ(said, 1);
}

TEST(ComparisonText, equals_the_committed_sample) {
  const std::string text = comparison_text(usual());
  const std::string path = MXCHECK_COMPARISON_SAMPLE;
  EXPECT_EQ(text, contents(path)) << "write what is above to " << path << " if it is meant";
}

TEST(ComparisonText, is_printable_where_little_is_known) {
  const std::string text = comparison_text(poor());
  expect_contains(text, "BF16 itself diverged");
  EXPECT_EQ(text.find("nan"), std::string::npos) << text;
}

TEST(ComparisonJson, has_the_numbers_and_names_its_schema) {
  const ParityComparison c = usual();
  const Json json = parse_json(comparison_json(c), "report", 20, ErrorKind::internal);
  EXPECT_EQ(*json.find("schema")->get_if<std::string>(), kComparisonSchema);
  EXPECT_EQ(to_text(*json.find("exit_code")), "1");
  const auto& arms = *json.find("arms")->get_if<Json::Array>();
  ASSERT_EQ(arms.size(), c.arms.size());
  for (std::size_t i = 0; i < arms.size(); ++i) {
    EXPECT_EQ(*arms[i].find("name")->get_if<std::string>(), c.arms[i].name);
    EXPECT_EQ(*arms[i].find("difference")->find("upper")->get_if<double>(), c.arms[i].evidence.interval.upper);
    EXPECT_EQ(arms[i].find("pairs")->size(), 5U);
    EXPECT_EQ(*arms[i].find("at_margin")->find("verdict")->get_if<std::string>(), to_text(c.arms[i].judgement.verdict));
  }
}

TEST(ComparisonJson, has_null_for_what_is_no_number) {
  const Json json = parse_json(comparison_json(poor()), "report", 20, ErrorKind::internal);
  const auto& arms = *json.find("arms")->get_if<Json::Array>();
  EXPECT_NE(arms[1].find("difference")->find("mean")->get_if<std::monostate>(), nullptr);
  EXPECT_NE(arms[1].find("pairs_needed")->get_if<std::monostate>(), nullptr);
}

TEST(ComparisonHtml, is_well_formed_and_needs_nothing_else) {
  for (const ParityComparison& c : {usual(), poor()}) {
    const std::string html = comparison_html(c);
    EXPECT_EQ(not_well_formed(html), "");
    EXPECT_EQ(html.find("<script"), std::string::npos);
    EXPECT_EQ(html.find("nan"), std::string::npos);
    EXPECT_EQ(html.find("inf,"), std::string::npos);
    EXPECT_EQ(html.find("url("), std::string::npos);
    EXPECT_EQ(html.find("@import"), std::string::npos);
    const std::string name = "http://www.w3.org/2000/svg";
    for (std::size_t at = html.find("//"); at != std::string::npos; at = html.find("//", at + 2))
      EXPECT_EQ(html.substr(at - 5, name.size()), name) << html.substr(at - 20, 60);
    expect_contains(html, "prefers-color-scheme: dark");
  }
}

TEST(ComparisonHtml, has_verdicts_sentence_charts_and_escaped_text) {
  const std::string html = comparison_html(usual());
  for (const char* part :
       {"<strong class=\"bad\">No parity</strong>", "negative control gap", "Validation loss of BF16", "d of mxfp8",
        "d_w1.a", "Expert loads, layer 1", "inside the margin of 0.1000 %", "Entropy of expert loads",
        "flushed to zero", "bf16 + nr-f_5.h5"})
    expect_contains(html, part);
  const std::string escaped = comparison_html(poor());
  expect_contains(escaped, {"a &lt; b &amp; &quot;c&quot;", "&lt;&amp;&quot;&gt;\xEF\xBF\xBD"});
}

// Every class that the page uses is in its style sheet.
TEST(ComparisonHtml, has_a_style_for_every_class) {
  const std::string html = comparison_html(usual());
  const std::string style = html.substr(0, html.find("</style>"));
  std::set<std::string> names;
  const std::regex attribute("class=\"([^\"]*)\"");
  for (auto i = std::sregex_iterator(html.begin(), html.end(), attribute); i != std::sregex_iterator(); ++i) {
    std::istringstream words((*i)[1]);
    for (std::string word; words >> word;) names.insert(word);
  }
  EXPECT_GT(names.size(), 15U);
  for (const std::string& name : names) EXPECT_NE(style.find("." + name), std::string::npos) << name;
}

// Text between two others, or from the first on.
std::string part_between(const std::string& text, const std::string& from, const std::string& to) {
  const std::size_t begin = text.find(from);
  EXPECT_NE(begin, std::string::npos) << from;
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find(to, begin + from.size()) - begin);
}

std::vector<double> numbers_after(const std::string& text, const std::string& pattern) {
  std::vector<double> numbers;
  const std::regex expression(pattern + "([-0-9.]+)");
  for (auto i = std::sregex_iterator(text.begin(), text.end(), expression); i != std::sregex_iterator(); ++i)
    numbers.push_back(std::stod((*i)[1]));
  return numbers;
}

ParityComparison of_branches() { return compare_runs(several_branch_points(0.002), {}); }

TEST(Tables, of_recipes_have_the_judged_arms_in_their_order_with_what_they_take) {
  const ReportTable t = recipe_table(of_branches());
  std::vector<std::string> names;
  for (const auto& row : t.rows) {
    ASSERT_EQ(row.size(), t.columns.size());
    names.push_back(row[0] + " " + row[1]);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"bf16 scratch", "mxfp8_floor scratch", "mxfp8 scratch", "mxfp8 50 %",
                                             "mxfp8 75 %"}));
  const std::vector<std::string>& row = t.rows[3];
  EXPECT_EQ(row[2], "6");
  EXPECT_EQ(row[6], "inconclusive");
  EXPECT_EQ(t.columns[7].head, "at 0.0500 %");
  EXPECT_EQ(row[7], "inferior");
  EXPECT_EQ(row[8], "14");  // 200 steps of 256 tokens in an hour
  EXPECT_EQ(row[9], "8.25");
  EXPECT_EQ(row[10], "8.25");
  EXPECT_EQ(row[11], "16");
  EXPECT_EQ(row[12], "12");
}

TEST(Tables, of_other_experiments_are_there_where_there_are_any) {
  ParityComparison c = of_branches();
  EXPECT_TRUE(beside_table(c).rows.empty());
  EXPECT_EQ(comparison_text(c).find("beside other experiments"), std::string::npos);
  EXPECT_EQ(comparison_html(c).find("Beside other experiments"), std::string::npos);
  c.beside.push_back(beside(c, compare_runs(branches(0.0002), {}), "larger"));
  const ReportTable t = beside_table(c);
  ASSERT_EQ(t.rows.size(), 1U);
  ASSERT_EQ(t.rows[0].size(), t.columns.size());
  EXPECT_EQ(t.rows[0][0], "larger");
  EXPECT_EQ(t.rows[0][1], "made up");
  EXPECT_EQ(t.rows[0][4], "mxfp8");
  EXPECT_EQ(t.rows[0][5], "50 %");
  EXPECT_EQ(t.rows[0][10], "equivalent");
  EXPECT_EQ(t.rows[0][11].front(), '-');  // less than here
  expect_contains(comparison_text(c), "beside other experiments");
  expect_contains(comparison_html(c), "Beside other experiments");
  expect_contains(comparison_json(c), "\"name\": \"larger\"");
}

TEST(Tables, of_recipes_say_which_are_graded_controls) {
  const ParityComparison c = compare_runs(several_branch_points(0.002), {.graded = {"mxfp8"}});
  const ReportTable t = recipe_table(c);
  std::vector<std::string> names;
  for (const auto& row : t.rows) names.push_back(row[0]);
  EXPECT_EQ(names, (std::vector<std::string>{"bf16", "mxfp8_floor", "mxfp8 (graded control)", "mxfp8 (graded control)",
                                             "mxfp8 (graded control)"}));
  expect_contains(summary_line(c), {"1 judged arm: ", "; beside 3 graded controls"});
  expect_contains(comparison_html(c), "(graded control)");
  expect_contains(comparison_text(c), "\n  Graded controls, named by whoever compared: mxfp8.");
  expect_contains(comparison_json(c), "\"graded_controls\"");
}

TEST(Tables, of_branch_points_are_there_where_a_recipe_has_several) {
  const ReportTable t = dependence_table(of_branches());
  ASSERT_EQ(t.rows.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(t.rows[i][2], (std::vector<std::string>{"100 %", "50 %", "25 %"})[i]);
  expect_contains(comparison_text(of_branches()), "recipes by branch point");
  expect_contains(comparison_html(of_branches()), "Recipes by branch point");
  EXPECT_EQ(comparison_text(usual()).find("recipes by branch point"), std::string::npos);
  EXPECT_EQ(comparison_html(usual()).find("Recipes by branch point"), std::string::npos);
}

TEST(Words, speak_of_the_control_of_the_arms_own_branch_point) {
  std::vector<NamedRun> runs = branches(0.0002);
  for (NamedRun& run : sensitive_experiment(6)) {
    if (run.record.config.recipe.name != "broken") continue;
    run.record.training_sha256 = runs[0].record.training_sha256;
    run.record.validation_sha256 = runs[0].record.validation_sha256;
    runs.push_back(run);
  }
  const ParityComparison c = compare_runs(runs, {});
  for (const ArmResult& arm : c.arms) {
    if (arm.name == "mxfp8 from 50 %") expect_contains(allowed_sentence(c, arm), "negative control gap +19.");
  }
}

TEST(ComparisonJson, has_the_ranking_the_inner_verdict_and_the_cost) {
  const ParityComparison c = of_branches();
  const Json json = parse_json(comparison_json(c), "report", 20, ErrorKind::internal);
  EXPECT_EQ(*json.find("options")->find("inner_margin")->get_if<double>(), 0.0005);
  EXPECT_EQ(json.find("ranking")->size(), 4U);
  EXPECT_EQ(json.find("by_branch_point")->size(), 1U);
  const auto& arms = *json.find("arms")->get_if<Json::Array>();
  for (std::size_t i = 0; i < arms.size(); ++i) {
    EXPECT_EQ(*arms[i].find("at_inner_margin")->find("verdict")->get_if<std::string>(),
              to_text(c.arms[i].inner.verdict));
    EXPECT_EQ(*arms[i].find("recipe")->get_if<std::string>(), c.arms[i].recipe);
    EXPECT_EQ(*arms[i].find("cost")->find("x_bits")->get_if<double>(), c.arms[i].cost.x_bits);
    EXPECT_EQ(arms[i].find("differences")->size(), c.arms[i].differences.size());
  }
}

TEST(AxisEnd, holds_all_but_a_minority_that_is_far_away) {
  EXPECT_NEAR(axis_end({}, 0.001), 0.0014, 1e-12);
  EXPECT_NEAR(axis_end({0.0002, 0.0005}, 0.001), 0.0014, 1e-12);
  EXPECT_NEAR(axis_end({0.003, 0.0002}, 0.001), 0.00345, 1e-12);
  EXPECT_NEAR(axis_end({0.0002, 0.5}, 0.001), 0.0014, 1e-12);
  EXPECT_NEAR(axis_end({0.5}, 0.001), 0.575, 1e-12);  // alone it is no minority
  EXPECT_NEAR(axis_end({0.01, 0.02, 0.03}, 0.001), 0.0345, 1e-12);
  EXPECT_NEAR(axis_end({0.0002, kNaN}, 0.001), 0.0014, 1e-12);
}

TEST(Forest, comes_before_all_tables) {
  const std::string html = comparison_html(usual());
  EXPECT_LT(html.find("<div class=\"forest\">"), html.find("<table>"));
}

TEST(Forest, has_a_group_a_branch_point_with_names_above_the_bars) {
  const std::string forest = forest_html(of_branches());
  const std::size_t scratch = forest.find("<h3>From scratch</h3>");
  const std::size_t half = forest.find("<h3>From 50 %</h3>");
  EXPECT_LT(scratch, half);
  EXPECT_LT(half, forest.find("<h3>From 75 %</h3>"));
  for (std::size_t at = forest.find("<p>"); at != std::string::npos; at = forest.find("<p>", at + 1))
    EXPECT_LT(forest.find("</p>\n<svg class=\"", at), forest.find("<p>", at + 1)) << forest.substr(at, 80);
  EXPECT_EQ(not_well_formed(forest), "");
}

// A small gap stays a visible distance from zero, and the control is an arrow at the end.
TEST(Forest, cuts_off_what_is_far_away_with_an_arrow) {
  const std::string forest = forest_html(compare_runs(branches(0.0003), {}));
  const std::string arm = part_between(forest, "<b>mxfp8</b>", "</svg>\n");
  const std::string control = part_between(forest, "<b>broken</b>", "</svg>\n");
  EXPECT_EQ(arm.find("class=\"mark\""), std::string::npos);
  EXPECT_EQ(arm.find("beyond the axis"), std::string::npos);
  expect_contains(control, {"class=\"mark\"", "beyond the axis"});
  const std::vector<double> mean = numbers_after(arm, "class=\"mean\" cx=\"");
  ASSERT_EQ(mean.size(), 1U);
  EXPECT_GT(mean[0], 55);  // 50 is zero
}

// On a page of 320 px 280 or more are left. A digit of 13 px is about 7 px wide.
TEST(Forest, fits_a_phone) {
  for (const ParityComparison& c : {usual(), of_branches()}) {
    const std::string forest = forest_html(c);
    for (const char* place : {" x=\"", " x1=\"", " x2=\"", " cx=\""}) {
      for (const double x : numbers_after(forest, place)) {
        EXPECT_GE(x, 0);
        EXPECT_LE(x, 100);
      }
    }
    EXPECT_EQ(forest.find("viewBox"), std::string::npos);  // which would make text smaller
    const std::regex label("<text x=\"([0-9.]+)%\"[^>]*>([^<]*)</text>|<h3>");
    double right = 0;
    for (auto i = std::sregex_iterator(forest.begin(), forest.end(), label); i != std::sregex_iterator(); ++i) {
      if (!(*i)[1].matched) {
        right = 0;
        continue;
      }
      const double middle = 2.8 * std::stod((*i)[1]);
      const double half = 3.5 * static_cast<double>((*i)[2].length());
      EXPECT_GE(middle - half, right) << (*i)[0];
      right = middle + half;
      EXPECT_LE(right, 280) << (*i)[0];
    }
    EXPECT_GT(right, 0);
  }
  const std::string page = comparison_html(usual());
  const std::vector<double> sizes = numbers_after(page.substr(0, page.find("</style>")), "font(?:-size)?: ");
  EXPECT_GT(sizes.size(), 5U);
  for (const double size : sizes) EXPECT_GE(size, 11);
}

// Charts are as wide as they are drawn, or made smaller to fit 300 px, where 13 px must leave 11.
TEST(ComparisonHtml, has_charts_that_a_phone_can_show) {
  const std::string html = comparison_html(of_branches());
  const std::vector<double> widths = numbers_after(html, "viewBox=\"0 0 ");
  EXPECT_GT(widths.size(), 5U);
  for (const double width : widths) EXPECT_GE(13 * std::min(1.0, 300 / width), 11) << width;
}

TEST(Charts, of_a_branch_point_begin_there_and_say_what_is_cut_off) {
  const std::string charts = branch_point_charts(of_branches());
  expect_contains(charts, "d, from scratch");
  const std::string half = part_between(charts, "<title>d, from 50 %</title>", "</figure>");
  expect_contains(half, {"Cut off, beyond the axis: broken, at the end +19.", ">200</text>"});  // the first tick
  EXPECT_EQ(half.find(">0</text>", half.find("class=\"axis\"")), std::string::npos);
  expect_contains(half, "d=\"M0,");
}

TEST(Charts, of_bf16_show_one_line_and_one_band) {
  const std::string chart = baseline_chart(usual());
  EXPECT_EQ(numbers_after(chart, "class=\"line s").size(), 1U);
  EXPECT_EQ(numbers_after(chart, "class=\"band s").size(), 1U);
  EXPECT_EQ(baseline_chart(poor()), "");
}

TEST(Charts, by_share_of_training_have_a_line_a_recipe) {
  const std::string chart = dependence_chart(of_branches());
  EXPECT_EQ(numbers_after(chart, "class=\"line s").size(), 1U);
  EXPECT_EQ(numbers_after(chart, "class=\"dot s").size(), 3U);
  EXPECT_EQ(numbers_after(chart, "class=\"thin s").size(), 3U);
  EXPECT_EQ(dependence_chart(usual()), "");
}

TEST(Charts, figure_of_two_curves_is_of_mxfp8_from_scratch_or_the_earliest_branch_point) {
  expect_contains(two_curves_figure(of_branches()), "<title>BF16 and mxfp8</title>");
  const std::string figure = two_curves_figure(compare_runs(branches(0.0002), {}));
  expect_contains(figure, "<title>BF16 and mxfp8 from 50 %</title>");
  const std::string above = part_between(figure, "<title>BF16 and", "<title>mxfp8");
  EXPECT_EQ(numbers_after(above, "class=\"line s").size(), 2U);
  const std::string below = part_between(figure, "<title>mxfp8 from 50 % - BF16", "</figure>");
  expect_contains(below, {"class=\"inside\"", "class=\"band s"});
  // The made-up branch has its trunk's training losses.
  expect_contains(figure, "Over the last tenth of the steps: d = +0.0000 %");
  EXPECT_EQ(two_curves_figure(compare_runs(sensitive_experiment(5), {})), "");
}

}  // namespace
}  // namespace mxcheck
