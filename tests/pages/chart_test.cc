#include "pages/chart.h"
#include "pages/html.h"
#include "tests/pages/xml_checker.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

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
  EXPECT_EQ(not_well_formed(d.picture({.title = "<t>", .width = 20, .height = 10})), "");
  EXPECT_EQ(not_well_formed(d.file(20, 10, "<t>", "rect { fill: none }")), "");
  expect_contains(d.picture({.title = "", .height = 10, .sizing = svg::Sizing::fluid}),
                  "<rect class=\"bar\" x=\"0\" y=\"2\" width=\"7.25\" height=\"9\"><title>&lt;b&gt;</title></rect>");
}

TEST(BarChart, has_a_bar_for_each_positive_number_and_a_line_for_all) {
  const std::string chart =
      svg::bar_chart({{"a", 3, "3.0"}, {"b", kNaN, "nan"}, {"c", 0, "0"}}, {.title = "t", .unit = "dB"});
  EXPECT_EQ(not_well_formed(chart), "");
  EXPECT_EQ(times(chart, "<rect"), 1U);
  for (const char* part : {"<b>a</b>", "<b>b</b>", "<span>nan</span>", ">0</text>", ">3 dB</text>"})
    expect_contains(chart, part);
  EXPECT_EQ(times(svg::bar_chart({{"a", 3, "3.0"}}, {.title = "t"}), "grid"), 0U);
}

// 33.3 and 25.4: the axis begins at a tick below the least, and its bar is left. Far from one another: at zero.
TEST(BarChart, begins_where_values_differ_if_they_are_close_to_one_another) {
  const svg::BarChartSpec spec{.title = "t", .unit = "dB", .shows_differences = true};
  const std::string close = svg::bar_chart({{"a", 33.3, "", "one"}, {"b", 25.4, "", "two"}}, spec);
  expect_contains(close, {"class=\"one\" x=\"0\" y=\"0\" width=\"100%\"", ">24</text>", ">32 dB</text>"});
  expect_contains(close, "class=\"two\" x=\"0\" y=\"0\" width=\"15.05%\"");
  EXPECT_EQ(close.find(">0</text>"), std::string::npos);
  expect_contains(svg::bar_chart({{"a", 30, ""}, {"b", 3, ""}}, spec), ">0</text>");
  expect_contains(svg::bar_chart({{"a", 30, ""}, {"b", 30, ""}}, spec), ">0</text>");
}

TEST(Chart, leaves_out_every_second_number_where_they_would_cover_one_another) {
  const auto numbers = [](double low) {
    const std::string chart =
        svg::Chart({.title = "t", .x = {.label = "x", .low = low, .high = 2000}, .y = {.label = "y"}}).picture();
    return times(chart, "class=\"axis\"") - 1;  // and the axis itself
  };
  EXPECT_EQ(numbers(1000), 6U);
  EXPECT_EQ(numbers(500), 4U);  // 600, 800 ... 2000 are eight
}

TEST(Chart, ticks_are_at_one_two_or_five_times_a_power_of_ten) {
  const std::vector<double> linear = svg::ticks_of({.label = "", .low = 2.03, .high = 3.1});
  ASSERT_EQ(linear.size(), 5U);
  // Two roundings of numbers below 4, each at most 2^-52: 1e-12 is 2,000 times that, and a tick is 0.2.
  for (std::size_t i = 0; i < linear.size(); ++i) EXPECT_NEAR(linear[i], 2.2 + 0.2 * static_cast<double>(i), 1e-12);
  EXPECT_EQ(svg::ticks_of({.label = "", .low = 1, .high = 1000, .logarithmic = true}),
            (std::vector<double>{1, 10, 100, 1000}));
  EXPECT_EQ(svg::ticks_of({.label = "", .low = 20, .high = 400, .logarithmic = true}),
            (std::vector<double>{20, 50, 100, 200}));
}

TEST(Chart, axis_without_extent_is_still_an_axis) {
  for (const auto& [low, high] : {std::pair{1.0, 1.0}, {kNaN, 1.0}, {2.0, 1.0}, {0.0, HUGE_VAL}}) {
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
  chart.line({{0, 0}, {1, 0.5}, {2, kNaN}, {3, 0.5}, {4, 1}}, "s1");
  chart.band({{0, kNaN, 1}}, "s1");
  chart.dots({{1, HUGE_VAL}}, "s1");
  chart.whiskers({{1, kNaN, 1}}, "s1");
  const std::string picture = chart.picture();
  expect_contains(picture, "d=\"M0,206 L37.4,103 M112.2,103 L149.6,0\"");
  EXPECT_EQ(picture.find("nan"), std::string::npos);
  EXPECT_EQ(picture.find("<polygon"), std::string::npos);
  EXPECT_EQ(picture.find("<circle"), std::string::npos);
  EXPECT_EQ(picture.find("thin"), std::string::npos);
}

TEST(Chart, a_title_that_is_too_long_is_cut_off_where_it_is_drawn) {
  const std::string picture =
      svg::Chart({.title = std::string(60, 'x'), .x = {.label = "x"}, .y = {.label = "y"}}).picture();
  expect_contains(picture, "<title>" + std::string(60, 'x') + "<");
  EXPECT_EQ(picture.find(">" + std::string(45, 'x'), picture.find("</title>")), std::string::npos);
  expect_contains(picture, "x...<");
}

TEST(Chart, labels_of_levels_do_not_cover_one_another) {
  svg::Chart chart({.title = "t", .x = {.label = "x"}, .y = {.label = "y"}});
  chart.level(0.50, "one");
  chart.level(0.53, "two");
  chart.level(0.60, "three");
  chart.level(1.01, "outside");
  const std::string picture = chart.picture();
  expect_contains(picture, "one");
  EXPECT_EQ(picture.find("two"), std::string::npos);
  expect_contains(picture, "three");
  EXPECT_EQ(picture.find("outside"), std::string::npos);
}

TEST(Chart, text_is_escaped) {
  svg::Chart chart({.title = "<t>", .x = {.label = "<x>"}, .y = {.label = "&y"}});
  chart.level(0.5, "<l>");
  chart.line({{0, 0}, {1, 1}}, "s1", "<tip>");
  for (const char* part : {"&lt;t&gt;", "&lt;x&gt;", "&amp;y", "&lt;l&gt;", "&lt;tip&gt;"})
    expect_contains(chart.picture(), part);
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

TEST(Colours, are_all_different_and_none_is_of_a_verdict) {
  for (const bool on_black : {false, true}) {
    std::set<std::string> all;
    for (std::size_t arm = 0; arm <= svg::kSeriesColours; ++arm) {
      const std::string colour = svg::series_colour(arm, on_black);
      EXPECT_TRUE(all.insert(colour).second) << arm << " " << colour;
      if (arm == 0) continue;
      const double hue = hue_of(channels_of(colour));
      EXPECT_GT(hue, 155) << arm << " " << colour;
      EXPECT_LT(hue, 330) << arm << " " << colour;
    }
  }
  // The scale that those are on: red, amber and green.
  EXPECT_LT(hue_of(channels_of("#b3261e")), 10);
  EXPECT_LT(hue_of(channels_of("#8a5a00")), 45);
  EXPECT_LT(hue_of(channels_of("#1a7f37")), 140);
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

TEST(Html, escapes_what_has_a_meaning_and_replaces_what_may_not_be) {
  EXPECT_EQ(html::escaped("a <b> & \"c\" 'd'"), "a &lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  EXPECT_EQ(html::escaped("a\tb\nc"), "a\tb\nc");
  EXPECT_EQ(html::escaped(std::string("\x00\x01\x1b[0m\x7f", 7)), "???[0m?");
  EXPECT_EQ(html::escaped("\xc3\xa9"), "\xc3\xa9");
  EXPECT_EQ(html::escaped("\xff"), "\xef\xbf\xbd");              // no UTF-8
  EXPECT_EQ(html::escaped("\xef\xbf\xbe|\xef\xbf\xbf"), "?|?");  // no characters of XML
  EXPECT_EQ(html::escaped("a\xe2\x80\xae"
                          "b"),
            "a?b");  // turns what follows round
}

TEST(Html, shortens_at_a_line_and_never_inside_a_character) {
  EXPECT_EQ(html::shortened("abc", 3), "abc");
  const std::string lines = std::string(70, 'a') + "\n" + std::string(70, 'b') + "\n" + std::string(70, 'c') + "\n";
  EXPECT_EQ(html::shortened(lines, 150), std::string(70, 'a') + "\n... 143 bytes more\n");
  std::string accents;
  for (int i = 0; i < 100; ++i) accents += "\xc3\xa9";
  for (std::size_t most = 60; most < 70; ++most) {
    const std::string cut = html::shortened(accents, most);
    EXPECT_LE(cut.size(), most + 1);
    EXPECT_EQ(html::escaped(cut), cut) << most;  // still UTF-8
  }
}

TEST(Html, breaks_names_after_underscores_and_groups_digits) {
  EXPECT_EQ(html::breakable("a_b<"), "a_<wbr/>b&lt;");
  EXPECT_EQ(html::grouped(0), "0");
  EXPECT_EQ(html::grouped(999), "999");
  EXPECT_EQ(html::grouped(1000), "1,000");
  EXPECT_EQ(html::grouped(-1234567), "-1,234,567");
}

TEST(Html, a_page_is_well_formed_whatever_texts_it_is_made_of) {
  const std::string hostile = "</style><b a=\"1\">&'\x01\xff";
  html::Table table{.head = {html::text(hostile), html::text("n", "n")}, .caption = hostile};
  table.rows.push_back({{html::name(hostile), html::text("1", "n")}, "base"});
  const std::string body = html::verdict("bad", hostile, hostile) +
                           html::section(hostile, hostile, html::wide(html::table(table), hostile)) +
                           html::section("list", html::list({hostile})) + html::details("more", html::note(hostile));
  const std::string page = html::page(hostile, ".a { color: red; }", body);
  EXPECT_EQ(not_well_formed(page), "");
  EXPECT_EQ(page.find("<b "), std::string::npos);
  for (const char* part :
       {"<tr class=\"base\"><th scope=\"row\">", "<td class=\"n\">1</td>", "<th scope=\"col\" class=\"n\">",
        ".a { color: red; }", "prefers-color-scheme: dark", "<div class=\"verdict bad\">"})
    expect_contains(page, part);
  EXPECT_EQ(times(page, "http") + times(page, "url(") + times(page, "<script"), 0U);
}

TEST(Html, what_is_empty_has_no_heading) {
  EXPECT_EQ(html::section("h", "note", ""), "");
  EXPECT_EQ(html::list({}), "");
}

TEST(XmlChecker, tells_right_from_wrong) {
  const std::string head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  EXPECT_EQ(XmlChecker(head + "<a x=\"1\"><b/>text &amp; more</a>\n").check(), "");
  for (const char* bad : {"<a>", "<a></b>", "<a x=1/>", "<a x=\"1\" x=\"2\"/>", "<a>&</a>", "<a x=\"<\"/>", "<a/><b/>",
                          "<a>\xff</a>", "<a>\x01</a>", "</a>", "text"}) {
    EXPECT_NE(XmlChecker(head + bad).check(), "") << bad;
  }
}

}  // namespace
}  // namespace mxcheck
