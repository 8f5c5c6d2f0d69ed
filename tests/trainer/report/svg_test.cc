#include "trainer/report/svg.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace mxcheck {
namespace {

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
