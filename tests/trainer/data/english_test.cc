// Text out of pages and packages: what counts, what is left out, and packages that are not there or are others.

#include "trainer/data/english.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "numerics/error.h"
#include "tests/goldens/temporary_directory.h"
#include "trainer/data/corpus.h"

namespace mxcheck {
namespace {

namespace fs = std::filesystem;

const std::string kLong(60, 'w');  // long enough for a paragraph
using Paragraphs = std::vector<std::string>;

TEST(EnglishHtml, is_cut_where_blocks_end_and_white_space_is_one_space) {
  EXPECT_EQ(paragraphs_of_html("<p>" + kLong + "</p><p>" + kLong + " b</p>"), (Paragraphs{kLong, kLong + " b"}));
  EXPECT_EQ(paragraphs_of_html(kLong + "\n\t a <b>b</b><i>c</i>\r\n d "), (Paragraphs{kLong + " a bc d"}));
  EXPECT_EQ(paragraphs_of_html("<LI>" + kLong + "<BR/>" + kLong), (Paragraphs{kLong, kLong}));
  EXPECT_EQ(paragraphs_of_html("<p>" + kLong.substr(1) + "</p>"), Paragraphs{});
}

TEST(EnglishHtml, knows_entities) {
  EXPECT_EQ(paragraphs_of_html(kLong + " &lt;a&gt; &amp;amp; &quot;b&quot; &#65;&#x42;&#X43; c&nbsp;&#160;d"),
            (Paragraphs{kLong + " <a> &amp; \"b\" ABC c d"}));
  EXPECT_EQ(paragraphs_of_html(kLong + " &eacute; & &; &#; &#x; &#xD800; &#1114112; &#0;"),
            (Paragraphs{kLong + " &eacute; & &; &#; &#x; &#xD800; &#1114112; &#0;"}));
  EXPECT_EQ(paragraphs_of_html(kLong + "&mdash;&#8212;&#x1F600;"),
            (Paragraphs{kLong + "\xE2\x80\x94\xE2\x80\x94\xF0\x9F\x98\x80"}));
}

TEST(EnglishHtml, leaves_out_what_is_no_text) {
  EXPECT_EQ(paragraphs_of_html("<head><title>" + kLong + "</title></head><!-- " + kLong + " > --><script>if (a < b) '" +
                               kLong + "'</SCRIPT><style>" + kLong + "</style>" + kLong),
            (Paragraphs{kLong}));
  EXPECT_EQ(paragraphs_of_html("<!DOCTYPE html><?xml?>" + kLong + " a < b, 3<4"), (Paragraphs{kLong + " a < b, 3<4"}));
}

// Whatever a page is: unfinished tags, marks alone, bytes of every kind.
TEST(EnglishHtml, of_any_bytes_ends) {
  for (const char* page :
       {"", "<", "</", "<p", "<!--", "<script>", "<script", "&", "&#", "&amp", "<p><", "<a href='>'>"})
    EXPECT_EQ(paragraphs_of_html(page), Paragraphs{}) << page;
  std::string bytes;
  for (int i = 0; i < 4096; ++i) bytes.push_back(static_cast<char>(i * 7919 >> 3));
  for (std::size_t size = 0; size < bytes.size(); size += 61) paragraphs_of_html(bytes.substr(0, size));
}

// A folder with all parts, each of a few words.
class EnglishPackages : public testing::Test {
 protected:
  EnglishPackages() {
    for (const EnglishPart& part : all_english_parts()) {
      const fs::path path = fs::path(dir.path()) / part.path;
      if (part.path.ends_with(".dz")) {
        fs::create_directories(path.parent_path());
        std::ofstream(path) << "words of " << part.package << '\n';
      } else {
        fs::create_directories(path);
        std::ofstream(path / "page.html") << "<p>" << kLong << "</p><p>" << kLong << part.path << "</p>";
        std::ofstream(path / "page.css") << kLong;
      }
    }
  }
  const test::TemporaryDirectory dir;
};

TEST_F(EnglishPackages, are_joined_without_repeats) {
  const EnglishText text = english_text(dir.path());
  EXPECT_EQ(text.parts.size(), all_english_parts().size());
  for (const EnglishPart& part : all_english_parts())
    EXPECT_NE(text.text.find(part.path.ends_with(".dz") ? part.package : part.path), std::string::npos) << part.path;
  EXPECT_EQ(text.text.find(kLong + "\n"), text.text.rfind(kLong + "\n"));
  EXPECT_EQ(english_text(dir.path()).sha256, text.sha256);
}

TEST_F(EnglishPackages, of_other_versions_are_named) {
  try {
    check_english(english_text(dir.path()));
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::environment);
    EXPECT_NE(std::string(e.what()).find("wn.dict.dz of dict-wn 1:3.0-37 has 17 bytes with SHA-256"), std::string::npos)
        << e.what();
  }
}

TEST_F(EnglishPackages, that_are_not_there_are_named) {
  fs::remove(fs::path(dir.path()) / "usr/share/dictd/foldoc.dict.dz");
  try {
    english_text(dir.path());
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::input);
    EXPECT_NE(std::string(e.what()).find("it is of the package dict-foldoc 20230119-1"), std::string::npos) << e.what();
  }
}

// Where it was made: a run on it says what it is, whatever the file is called.
TEST(English, text_is_known_by_its_bytes) {
  if (!fs::exists(english_path())) GTEST_SKIP() << english_path() << " was not made";
  const test::TemporaryDirectory dir;
  fs::create_symlink(english_path(), dir / "text");
  EXPECT_EQ(corpus_at(dir / "text").name, "English text of Debian 12");
}

TEST(English, parts_are_of_packages_that_are_told) {
  std::set<std::string_view> paths;
  std::uint64_t bytes = 0;
  for (const EnglishPart& part : all_english_parts()) {
    EXPECT_TRUE(paths.insert(part.path).second) << part.path;
    EXPECT_EQ(part.sha256.size(), 64U) << part.path;
    bytes += part.bytes;
  }
  EXPECT_GE(bytes, 100'000'000U);
}

}  // namespace
}  // namespace mxcheck
