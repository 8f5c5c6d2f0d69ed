#include "pages/chart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "tests/pages/xml_checker.h"

namespace mxcheck {
namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Drawing, has_numbers_of_two_decimals_at_most) {
  EXPECT_EQ(svg::number(12), "12");
  EXPECT_EQ(svg::number(0.5), "0.5");
  EXPECT_EQ(svg::number(-3.14159), "-3.14");
  EXPECT_EQ(svg::number(-0.001), "0");
  EXPECT_EQ(svg::number(1200), "1200");
}

TEST(Drawing, is_a_picture_of_a_page_or_a_file) {
  svg::Drawing inner;
  inner.path("M0,0 L1,1", {.css = "mark"});
  svg::Drawing d;
  d.begin_group({.title = "<a>", .attributes = "data-i=\"1\""});
  d.rect(0, 2, 7.25, 9, {.css = "bar", .title = "<b>"});
  d.text(svg::percent(50), 3, "<c>", {.anchor = "middle"});
  d.end_group();
  d.circle(1, 2, 3);
  d.ellipse(1, 2, 3, 4);
  d.polygon("0,0 1,1 2,0");
  d.inset(0, 0, 5, 5, inner);
  EXPECT_EQ(test::not_well_formed(d.picture({.title = "<t>", .width = 20, .height = 10})), "");
  EXPECT_EQ(test::not_well_formed(d.file(20, 10, "<t>", "rect { fill: none }")), "");
  EXPECT_NE(
      d.picture({.title = "", .height = 10, .sizing = svg::Sizing::fluid})
          .find("<rect class=\"bar\" x=\"0\" y=\"2\" width=\"7.25\" height=\"9\"><title>&lt;b&gt;</title></rect>"),
      std::string::npos);
}

TEST(BarChart, has_a_bar_for_each_positive_number_and_a_line_for_all) {
  const std::string chart =
      svg::bar_chart({{"a", 3, "3.0"}, {"b", kNan, "nan"}, {"c", 0, "0"}}, {.title = "t", .unit = "dB"});
  EXPECT_EQ(test::not_well_formed(chart), "");
  EXPECT_EQ(test::times(chart, "<rect"), 1U);
  for (const char* part : {">a</text>", ">b</text>", ">nan</text>", ">0 dB</text>"})
    EXPECT_NE(chart.find(part), std::string::npos) << part;
  EXPECT_EQ(test::times(svg::bar_chart({{"a", 3, "3.0"}}, {.title = "t"}), "grid"), 0U);
}

TEST(Chart, ticks_are_at_one_two_or_five_times_a_power_of_ten) {
  const std::vector<double> linear = svg::ticks_of({.label = "", .low = 2.03, .high = 3.1});
  ASSERT_EQ(linear.size(), 5U);
  for (std::size_t i = 0; i < linear.size(); ++i) EXPECT_NEAR(linear[i], 2.2 + 0.2 * static_cast<double>(i), 1e-12);
  EXPECT_EQ(svg::ticks_of({.label = "", .low = 1, .high = 1000, .logarithmic = true}),
            (std::vector<double>{1, 10, 100, 1000}));
  EXPECT_EQ(svg::ticks_of({.label = "", .low = 20, .high = 400, .logarithmic = true}),
            (std::vector<double>{20, 50, 100, 200}));
}

TEST(Chart, axis_without_extent_is_still_an_axis) {
  for (const auto& [low, high] : {std::pair{1.0, 1.0}, {kNan, 1.0}, {2.0, 1.0}, {0.0, HUGE_VAL}}) {
    EXPECT_FALSE(svg::ticks_of({.label = "", .low = low, .high = high}).empty());
    EXPECT_FALSE(svg::ticks_of({.label = "", .low = low, .high = high, .logarithmic = true}).empty());
  }
}

TEST(Chart, what_is_no_number_leaves_a_gap) {
  svg::Chart chart({.title = "t",
                    .x = {.label = "x", .low = 0, .high = 10},
                    .y = {.label = "y", .low = 0, .high = 1},
                    .width = 460,
                    .height = 280});
  chart.line({{0, 0}, {1, 0.5}, {2, kNan}, {3, 0.5}, {4, 1}}, "s1");
  chart.band({{0, kNan, 1}}, "s1");
  chart.dots({{1, HUGE_VAL}}, "s1");
  chart.whiskers({{1, kNan, 1}}, "s1");
  const std::string picture = chart.picture();
  EXPECT_NE(picture.find("d=\"M0,206 L37.4,103 M112.2,103 L149.6,0\""), std::string::npos) << picture;
  EXPECT_EQ(picture.find("nan"), std::string::npos);
  EXPECT_EQ(picture.find("<polygon"), std::string::npos);
  EXPECT_EQ(picture.find("<circle"), std::string::npos);
  EXPECT_EQ(picture.find("thin"), std::string::npos);
}

TEST(Chart, a_title_that_is_too_long_is_cut_off_where_it_is_drawn) {
  const std::string picture =
      svg::Chart({.title = std::string(60, 'x'), .x = {.label = "x"}, .y = {.label = "y"}}).picture();
  EXPECT_NE(picture.find("<title>" + std::string(60, 'x') + "<"), std::string::npos);
  EXPECT_EQ(picture.find(">" + std::string(45, 'x'), picture.find("</title>")), std::string::npos);
  EXPECT_NE(picture.find("x...<"), std::string::npos);
}

TEST(Chart, labels_of_levels_do_not_cover_one_another) {
  svg::Chart chart({.title = "t", .x = {.label = "x"}, .y = {.label = "y"}});
  chart.level(0.50, "one");
  chart.level(0.53, "two");
  chart.level(0.60, "three");
  chart.level(1.01, "outside");
  const std::string picture = chart.picture();
  EXPECT_NE(picture.find("one"), std::string::npos);
  EXPECT_EQ(picture.find("two"), std::string::npos);
  EXPECT_NE(picture.find("three"), std::string::npos);
  EXPECT_EQ(picture.find("outside"), std::string::npos);
}

TEST(Chart, text_is_escaped) {
  svg::Chart chart({.title = "<t>", .x = {.label = "<x>"}, .y = {.label = "&y"}});
  chart.level(0.5, "<l>");
  chart.line({{0, 0}, {1, 1}}, "s1", "<tip>");
  for (const char* part : {"&lt;t&gt;", "&lt;x&gt;", "&amp;y", "&lt;l&gt;", "&lt;tip&gt;"})
    EXPECT_NE(chart.picture().find(part), std::string::npos) << part;
}

// Text between two others, or from the first on.
std::string part_between(const std::string& text, const std::string& from, const std::string& to) {
  const std::size_t begin = text.find(from);
  EXPECT_NE(begin, std::string::npos) << from;
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find(to, begin + from.size()) - begin);
}

struct Channels {
  double red, green, blue;
};

Channels channels_of(const std::string& colour) {
  const auto at = [&](std::size_t i) { return static_cast<double>(std::stoi(colour.substr(i, 2), nullptr, 16)); };
  return {at(1), at(3), at(5)};
}

// Degrees on the circle of colours of HSV, in which red is 0.
double hue_of(const Channels& c) {
  const double most = std::max({c.red, c.green, c.blue});
  const double range = most - std::min({c.red, c.green, c.blue});
  const double sixth = most == c.red     ? (c.green - c.blue) / range
                       : most == c.green ? 2 + (c.blue - c.red) / range
                                         : 4 + (c.red - c.green) / range;
  return sixth < 0 ? 60 * sixth + 360 : 60 * sixth;
}

TEST(Colours, are_all_different_and_none_is_red) {
  for (const bool on_black : {false, true}) {
    std::set<std::string> all;
    for (std::size_t arm = 0; arm <= svg::kSeriesColours; ++arm) {
      const std::string colour = svg::series_colour(arm, on_black);
      EXPECT_TRUE(all.insert(colour).second) << arm << " " << colour;
      if (arm == 0) continue;
      const double hue = hue_of(channels_of(colour));
      EXPECT_GT(hue, 25) << arm << " " << colour;
      EXPECT_LT(hue, 330) << arm << " " << colour;
    }
  }
  // The scale that those are on: red of failures is red.
  EXPECT_LT(hue_of(channels_of("#b3261e")), 10);
}

TEST(Colours, of_lines_have_a_class_each_and_no_two_have_colour_and_dashes_alike) {
  const std::string style = "\n" + svg::series_style(121);
  std::set<std::string> looks;
  for (std::size_t arm = 0; arm < 121; ++arm) {
    const std::string name = "." + svg::series_class(arm) + " {";
    const std::string colour = part_between(style, "\n" + name, "}").substr(name.size() + 1);
    const bool has_dashes = style.find(".line" + name) != std::string::npos;
    looks.insert(colour + (has_dashes ? part_between(style, ".line" + name, "}").substr(5 + name.size()) : ""));
  }
  EXPECT_EQ(looks.size(), 121U);
}

}  // namespace
}  // namespace mxcheck
