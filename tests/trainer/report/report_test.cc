// Reports of a comparison as text, JSON and HTML, and the drawings in the HTML.

#include <gtest/gtest.h>

#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <regex>
#include <set>
#include <sstream>

#include "goldens/json/json.h"
#include "tests/trainer/made_up_runs.h"
#include "trainer/report/html.h"
#include "trainer/report/json.h"
#include "trainer/report/svg.h"
#include "trainer/report/text.h"
#include "trainer/report/words.h"

namespace mxcheck {
namespace {

using test::add_arm;

std::vector<NamedRun> usual_runs() {
  std::vector<NamedRun> runs = test::sensitive_experiment(5);
  add_arm(runs, {.recipe = "mxfp8"}, 0.0002, 2e-4, 5);
  add_arm(runs, {.recipe = "bf16", .rounding = TokenRoundingRule::nr_f}, 0.0022, 3e-4, 5);
  return runs;
}

ParityComparison usual() { return compare_runs(usual_runs(), {}); }

// Where little is known: two runs that diverged at once, with a corpus that needs escaping.
ParityComparison poor() {
  std::vector<NamedRun> runs{test::made_up_run({}), test::made_up_run({.recipe = "mxfp8"})};
  for (NamedRun& run : runs) {
    run.file = "<&\">\xff" + run.file;
    run.record.corpus = "a < b & \"c\"";
    run.record.end = RunEnd::diverged;
    run.record.steps.resize(1);
    run.record.steps[0].loss = test::bits(std::numeric_limits<double>::quiet_NaN());
    run.record.evaluations.clear();
    run.record.observations.clear();
  }
  return compare_runs(runs, {});
}

// Elements nest and close; Boost's parser, which does not compare names, reads attributes and the rest.
std::string not_well_formed(const std::string& text) {
  try {
    std::istringstream in(text);
    boost::property_tree::ptree tree;
    boost::property_tree::read_xml(in, tree);
  } catch (const boost::property_tree::xml_parser_error& e) {
    return e.what();
  }
  for (std::size_t at = text.find('&'); at != std::string::npos; at = text.find('&', at + 1)) {
    const std::string entity = text.substr(at, text.find(';', at) + 1 - at);
    if (!std::set<std::string>{"&amp;", "&lt;", "&gt;", "&quot;"}.contains(entity)) return "entity " + entity;
  }
  std::vector<std::string> open;
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    const std::size_t end = text.find('>', at);
    if (text[at + 1] == '!') continue;
    const bool closes = text[at + 1] == '/';
    const std::size_t from = at + (closes ? 2 : 1);
    const std::string name = text.substr(from, text.find_first_of(" />", from) - from);
    if (closes && (open.empty() || open.back() != name)) return "closing " + name;
    if (closes)
      open.pop_back();
    else if (text[end - 1] != '/')
      open.push_back(name);
  }
  return open.empty() ? "" : "open " + open.back();
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
  for (const std::string& text : {signed_percent(nan), share_text(nan), amount(nan), limits({}), decimal(nan, 3)})
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
      EXPECT_NE(sentence.find(part), std::string::npos) << sentence;
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
  EXPECT_NE(text.find("BF16 itself diverged"), std::string::npos) << text;
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

TEST(ComparisonHtml, checker_tells_well_formed_text) {
  EXPECT_EQ(not_well_formed("<a><b c=\"d\"/>&amp;</a>"), "");
  EXPECT_NE(not_well_formed("<a><b></a></b>"), "");
  EXPECT_NE(not_well_formed("<a><b></a>"), "");
  EXPECT_NE(not_well_formed("<a b=c/>"), "");
  EXPECT_NE(not_well_formed("<a>&nbsp</a>"), "");
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
    EXPECT_NE(html.find("prefers-color-scheme: dark"), std::string::npos);
    for (const char ch : html) EXPECT_TRUE(ch == '\n' || (ch >= ' ' && ch <= '~')) << static_cast<int>(ch);
  }
}

TEST(ComparisonHtml, has_verdicts_sentence_charts_and_escaped_text) {
  const std::string html = comparison_html(usual());
  for (const char* part : {"<strong class=\"bad\">No parity</strong>", "negative control gap", "Validation loss",
                           "mxfp8: difference from BF16", "d_w1.a", "Expert loads, layer 1", "margin +0.1 %",
                           "Entropy of expert loads", "flushed to zero", "bf16 + nr-f_5.h5"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
  const std::string escaped = comparison_html(poor());
  EXPECT_NE(escaped.find("a &lt; b &amp; &quot;c&quot;"), std::string::npos);
  EXPECT_NE(escaped.find("&lt;&amp;&quot;&gt;?"), std::string::npos);
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

const double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Svg, ticks_are_at_one_two_or_five_times_a_power_of_ten) {
  const std::vector<double> linear = ticks_of({.label = "", .low = 2.03, .high = 3.1});
  ASSERT_EQ(linear.size(), 5U);
  for (std::size_t i = 0; i < linear.size(); ++i) EXPECT_NEAR(linear[i], 2.2 + 0.2 * static_cast<double>(i), 1e-12);
  EXPECT_EQ(ticks_of({.label = "", .low = 1, .high = 1000, .logarithmic = true}),
            (std::vector<double>{1, 10, 100, 1000}));
  EXPECT_EQ(ticks_of({.label = "", .low = 20, .high = 400, .logarithmic = true}),
            (std::vector<double>{20, 50, 100, 200}));
}

TEST(Svg, axis_without_extent_is_still_an_axis) {
  for (const auto& [low, high] : {std::pair{1.0, 1.0}, {kNan, 1.0}, {2.0, 1.0}, {0.0, HUGE_VAL}}) {
    EXPECT_FALSE(ticks_of({.label = "", .low = low, .high = high}).empty());
    EXPECT_FALSE(ticks_of({.label = "", .low = low, .high = high, .logarithmic = true}).empty());
  }
}

TEST(Svg, what_is_no_number_leaves_a_gap) {
  Chart chart({.title = "t", .x = {.label = "x", .low = 0, .high = 10}, .y = {.label = "y", .low = 0, .high = 1}});
  chart.line({{0, 0}, {1, 0.5}, {2, kNan}, {3, 0.5}, {4, 1}}, "s1");
  chart.band({{0, kNan, 1}}, "s1");
  chart.dots({{1, HUGE_VAL}}, "s1");
  const std::string svg = chart.svg();
  EXPECT_NE(svg.find("d=\"M0.0,206.0 L37.4,103.0 M112.2,103.0 L149.6,0.0\""), std::string::npos) << svg;
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("<polygon"), std::string::npos);
  EXPECT_EQ(svg.find("<circle"), std::string::npos);
}

TEST(Svg, labels_of_levels_do_not_cover_one_another) {
  Chart chart({.title = "t", .x = {.label = "x"}, .y = {.label = "y"}});
  chart.level(0.50, "one");
  chart.level(0.53, "two");
  chart.level(0.60, "three");
  chart.level(1.01, "outside");
  const std::string svg = chart.svg();
  EXPECT_NE(svg.find("one"), std::string::npos);
  EXPECT_EQ(svg.find("two"), std::string::npos);
  EXPECT_NE(svg.find("three"), std::string::npos);
  EXPECT_EQ(svg.find("outside"), std::string::npos);
}

TEST(Svg, text_is_escaped) {
  EXPECT_EQ(escaped_xml("a<b>&\"c\"\x7f\xc3\n"), "a&lt;b&gt;&amp;&quot;c&quot;???");
  Chart chart({.title = "<t>", .x = {.label = "<x>"}, .y = {.label = "&y"}});
  chart.level(0.5, "<l>");
  chart.line({{0, 0}, {1, 1}}, "s1", "<tip>");
  for (const char* part : {"&lt;t&gt;", "&lt;x&gt;", "&amp;y", "&lt;l&gt;", "&lt;tip&gt;"})
    EXPECT_NE(chart.svg().find(part), std::string::npos) << part;
}

}  // namespace
}  // namespace mxcheck
