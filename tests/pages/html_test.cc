#include "pages/html.h"

#include <gtest/gtest.h>

#include "tests/pages/xml_checker.h"

namespace mxcheck {
namespace {

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
  EXPECT_EQ(test::not_well_formed(page), "");
  EXPECT_EQ(page.find("<b "), std::string::npos);
  for (const char* part :
       {"<tr class=\"base\"><th scope=\"row\">", "<td class=\"n\">1</td>", "<th scope=\"col\" class=\"n\">",
        ".a { color: red; }", "prefers-color-scheme: dark", "<div class=\"verdict bad\">"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_EQ(test::times(page, "http") + test::times(page, "url(") + test::times(page, "<script"), 0U);
}

TEST(Html, what_is_empty_has_no_heading) {
  EXPECT_EQ(html::section("h", "note", ""), "");
  EXPECT_EQ(html::list({}), "");
}

}  // namespace
}  // namespace mxcheck
