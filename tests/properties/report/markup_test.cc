#include "properties/report/markup.h"

#include <gtest/gtest.h>

namespace mxcheck {
namespace {

TEST(Markup, escapes_what_has_a_meaning_and_replaces_what_may_not_be) {
  EXPECT_EQ(escaped_markup("a <b> & \"c\" 'd'"), "a &lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  EXPECT_EQ(escaped_markup("a\tb\nc"), "a\tb\nc");
  EXPECT_EQ(escaped_markup(std::string("\x00\x01\x1b[0m\x7f", 7)), "???[0m?");
  EXPECT_EQ(escaped_markup("\xc3\xa9"), "\xc3\xa9");
  EXPECT_EQ(escaped_markup("\xff"), "\xef\xbf\xbd");              // no UTF-8
  EXPECT_EQ(escaped_markup("\xef\xbf\xbe|\xef\xbf\xbf"), "?|?");  // no characters of XML
  EXPECT_EQ(escaped_markup("a\xe2\x80\xae"
                           "b"),
            "a?b");  // turns what follows round
}

TEST(Markup, shortens_at_a_line_and_never_inside_a_character) {
  EXPECT_EQ(shortened("abc", 3), "abc");
  const std::string lines = std::string(70, 'a') + "\n" + std::string(70, 'b') + "\n" + std::string(70, 'c') + "\n";
  EXPECT_EQ(shortened(lines, 150), std::string(70, 'a') + "\n... 143 bytes more\n");
  std::string accents;
  for (int i = 0; i < 100; ++i) accents += "\xc3\xa9";
  for (std::size_t most = 60; most < 70; ++most) {
    const std::string cut = shortened(accents, most);
    EXPECT_LE(cut.size(), most + 1);
    EXPECT_EQ(escaped_markup(cut), cut) << most;  // still UTF-8
  }
}

TEST(Markup, breaks_names_after_underscores_and_groups_digits) {
  EXPECT_EQ(breakable("a_b<"), "a_<wbr/>b&lt;");
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(-1234567), "-1,234,567");
}

}  // namespace
}  // namespace mxcheck
