#include "trainer/data/corpus.h"
#include "goldens/io/sha256.h"
#include "numerics/elementary/elementary.h"
#include "tests/testing.h"
#include "trainer/config/config.h"
#include "trainer/data/english.h"

namespace mxcheck {
namespace {

using namespace test;

void write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

TEST(Corpus, files_are_split_by_the_hash_of_their_names_and_come_in_the_order_of_paths) {
  const TemporaryDirectory dir;
  std::string training, validation;
  std::vector<std::string> names;
  for (int i = 0; i < 60; ++i) names.push_back("d" + std::to_string(i % 3) + "/f" + std::to_string(i));
  names.emplace_back("d1.x");  // before d1/: '.' is below '/'
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const std::string text = "of " + name + ";";
    write(dir / name, text);
    const std::string hash = sha256(std::as_bytes(std::span(name)));
    (hash < "0d" ? validation : training) += text;
  }
  ASSERT_NE(validation, "");
  std::filesystem::create_symlink("/etc/passwd", dir / "link");
  const Corpus corpus = corpus_at(dir.path());
  EXPECT_EQ(corpus.name, dir.path());
  EXPECT_EQ(text_of(corpus.training), training);
  EXPECT_EQ(text_of(corpus.validation), validation);
  EXPECT_EQ(corpus.training_sha256, sha256(std::as_bytes(std::span(training))));
  EXPECT_EQ(corpus.validation_sha256, sha256(std::as_bytes(std::span(validation))));
}

TEST(Corpus, the_last_twentieth_of_a_file_is_for_validation) {
  const TemporaryDirectory dir;
  std::string text;
  for (int i = 0; i < 201; ++i) text += static_cast<char>('a' + i % 26);
  write(dir / "text", text);
  const Corpus corpus = corpus_at(dir / "text");
  EXPECT_EQ(text_of(corpus.training), text.substr(0, 190));
  EXPECT_EQ(text_of(corpus.validation), text.substr(190));
}

void expect_refused(const std::string& what, const std::string& path) {
  expect_error(ErrorKind::input, what, [&] { corpus_at(path); });
}

TEST(Corpus, what_cannot_be_read_or_split_is_refused_with_its_path) {
  const TemporaryDirectory dir;
  expect_refused("none: there is no such file or folder", dir / "none");
  write(dir / "empty", "");
  expect_refused("training part has 0 bytes", dir / "empty");
  write(dir / "one/f0", "x");
  expect_refused("both need some", dir / "one");
  expect_refused("/dev/null", "/dev/null");
}

TEST(Corpus, batches_are_the_sequences_of_the_definition) {
  Corpus corpus;
  for (int i = 0; i < 5000; ++i) corpus.training.push_back(static_cast<std::uint8_t>(i * i % 251));
  for (int i = 0; i < 777; ++i) corpus.validation.push_back(static_cast<std::uint8_t>(i * 7 % 253));
  const TrainingConfig config = preset_named("tiny");
  const auto length = static_cast<std::size_t>(config.model.length);
  for (const std::int64_t step : {std::int64_t{0}, std::int64_t{9999}, std::int64_t{5} << 32}) {
    const std::vector<std::uint8_t> batch = training_batch(corpus, config, step);
    ASSERT_EQ(batch.size(), 4 * (length + 1));
    for (std::uint32_t b = 0; b < 4; ++b) {
      const std::uint32_t position = philox_word(config.seed, static_cast<std::uint32_t>(step), b,
                                                 static_cast<std::uint32_t>(step >> 32), 0xDA7A) %
                                     static_cast<std::uint32_t>(5000 - length);
      for (std::size_t i = 0; i <= length; ++i) ASSERT_EQ(batch[b * (length + 1) + i], corpus.training[position + i]);
    }
  }
  const std::vector<std::uint8_t> batch = validation_batch(corpus, config.model, 5);
  ASSERT_EQ(batch.size(), 5 * (length + 1));
  for (std::size_t s = 0; s < 5; ++s) {
    const std::size_t position = s * (777 - length) / 5;
    for (std::size_t i = 0; i <= length; ++i) ASSERT_EQ(batch[s * (length + 1) + i], corpus.validation[position + i]);
  }
}

// The first and the last place that a sequence has, and a part that has none.
TEST(Corpus, parts_that_are_too_short_for_a_sequence_are_refused) {
  Corpus corpus;
  corpus.name = "short";
  const TrainingConfig config = preset_named("tiny");
  corpus.training.resize(65), corpus.validation.resize(65);
  EXPECT_EQ(training_batch(corpus, config, 3).size(), 4U * 65);
  EXPECT_EQ(validation_batch(corpus, config.model, 3).size(), 3U * 65);
  corpus.training.resize(64), corpus.validation.resize(64);
  EXPECT_THROW(training_batch(corpus, config, 3), Error);
  EXPECT_THROW(validation_batch(corpus, config.model, 3), Error);
}

TEST(BoostCorpus, another_version_is_refused_with_both_hashes) {
  const TemporaryDirectory dir;
  for (int i = 0; i < 60; ++i) write(dir / ("f" + std::to_string(i)), "text");
  try {
    boost_corpus(dir.path());
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::environment);
    const Corpus found = corpus_at(dir.path());
    expect_contains(
        std::string(e.what()),
        {found.training_sha256, "24649728ef95e91f2306628d1bab8893d7a80057627ede29eb704f4fc9bac782", "--data"});
  }
}

// On Debian 12; elsewhere the refusal above is what there is to see.
TEST(BoostCorpus, the_headers_of_debian_12_are_known) {
  try {
    const Corpus corpus = boost_corpus();
    EXPECT_EQ(corpus.name, "boost headers 1.74");
    EXPECT_EQ(corpus_at("/usr/include/boost").name, "boost headers 1.74")
        << "known by what it is, not by how it was asked for";
    EXPECT_EQ(corpus.training.size(), 123977747U);
    EXPECT_EQ(corpus.validation.size(), 7092586U);
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::internal) throw;
    GTEST_SKIP() << e.what();
  }
}

// Text out of pages and packages: what counts, what is left out, and packages that are not there or are others.

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
  const TemporaryDirectory dir;
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
  expect_error(ErrorKind::environment, "wn.dict.dz of dict-wn 1:3.0-37 has 17 bytes with SHA-256",
               [&] { check_english(english_text(dir.path())); });
}

TEST_F(EnglishPackages, that_are_not_there_are_named) {
  fs::remove(fs::path(dir.path()) / "usr/share/dictd/foldoc.dict.dz");
  expect_error(ErrorKind::input, "it is of the package dict-foldoc 20230119-1", [&] { english_text(dir.path()); });
}

// Where it was made: a run on it says what it is, whatever the file is called.
TEST(English, text_is_known_by_its_bytes) {
  if (!fs::exists(english_path())) GTEST_SKIP() << english_path() << " was not made";
  const TemporaryDirectory dir;
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
