#include <algorithm>
#include <cmath>

#include "tests/tools/command.h"

namespace mxcheck {
namespace {

class RecipesPage : public test::ToolTest {};

// Every tag is closed, in order; attributes are quoted; no bare & or <. Enough of XML for a page of ours.
std::string markup_error(const std::string& page) {
  std::vector<std::string> open;
  for (std::size_t i = 0; i < page.size(); ++i) {
    if (page[i] == '&') {
      const std::string entity = page.substr(i, page.find(';', i) - i + 1);
      if (entity != "&amp;" && entity != "&lt;" && entity != "&gt;" && entity != "&quot;" && entity != "&#39;")
        return "entity " + entity.substr(0, 20);
    }
    if (page[i] != '<') continue;
    const std::size_t end = page.find('>', i);
    if (end == std::string::npos) return "unclosed <";
    const std::string tag = page.substr(i + 1, end - i - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" \n"));
    if (tag.find('<') != std::string::npos) return "< in <" + tag;
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return "quotes in <" + tag;
    i = end;
    if (tag[0] == '!' || tag.back() == '/') continue;
    if (tag[0] != '/') {
      open.push_back(name);
    } else if (open.empty() || open.back() != name.substr(1)) {
      return "</" + name.substr(1) + "> closes " + (open.empty() ? "nothing" : open.back());
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : open.back() + " stays open";
}

TEST_F(RecipesPage, writes_a_page_that_is_well_formed_and_needs_nothing_else) {
  ASSERT_EQ(mxcheck("recipes real:layer0.dh --pair real:layer0.x real:layer0.w1 --html p.html").code, 0);
  const std::string page = test::read_file(dir / "p.html");
  EXPECT_EQ(markup_error(page), "");
  for (const char* word : {"http", "<script", "src=", "href=", "url(", "@import", "nan\"", "inf\""})
    EXPECT_EQ(page.find(word), std::string::npos) << word;
  for (const char* word :
       {"<svg", "<title>SQNR by recipe</title>", "<title>Elements lost by recipe</title>", "prefers-color-scheme: dark",
        "lies below the clamp", "scope=\"col\"", "<caption>", "&lt;0.01 %"})
    EXPECT_NE(page.find(word), std::string::npos) << word;
  EXPECT_EQ(markup_error("<p>a</p>"), "");
  EXPECT_NE(markup_error("<p>a<b></p>"), "");
  EXPECT_NE(markup_error("<p>a & b</p>"), "");
}

TEST_F(RecipesPage, escapes_names_in_the_page) {
  const std::string name = "<script>&\"'\xFF.npy";
  write_npy(dir / name, test::make_tensor("t", Dtype::f32, {1, 32}, std::vector<float>(32, 1)));
  ASSERT_EQ(mxcheck("recipes ./*.npy --html p.html").code, 0);
  const std::string page = test::read_file(dir / "p.html");
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_NE(page.find("&lt;script&gt;&amp;&quot;&#39;\xEF\xBF\xBD.npy"), std::string::npos);
  EXPECT_EQ(markup_error(page), "");
}

TEST_F(RecipesPage, is_well_formed_with_numbers_that_are_not_finite) {
  std::vector<float> values(64, 1);
  values[3] = std::nanf("");
  values[40] = INFINITY;
  write_npy(dir / "x.npy", test::make_tensor("t", Dtype::f32, {1, 64}, values));
  EXPECT_EQ(mxcheck("recipes x.npy --html p.html").code, 0);
  EXPECT_EQ(markup_error(test::read_file(dir / "p.html")), "");
}

TEST_F(RecipesPage, opens_in_a_browser_where_there_is_one) {
  if (std::system("command -v chromium >/dev/null 2>&1") != 0) GTEST_SKIP() << "no chromium";
  ASSERT_EQ(mxcheck("recipes real:layer3.dh --html p.html").code, 0);
  const std::string command =
      "timeout 60 chromium --headless --no-sandbox --disable-gpu --user-data-dir=" + (dir / "profile") +
      " --dump-dom file://" + (dir / "p.html") + " > " + (dir / "dom") + " 2>/dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const std::string dom = test::read_file(dir / "dom");
  EXPECT_NE(dom.find("lies below the clamp"), std::string::npos);
  EXPECT_NE(dom.find("</main>"), std::string::npos);
}

}  // namespace
}  // namespace mxcheck
