#include "trainer/data/corpus.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "goldens/io/sha256.h"
#include "numerics/elementary/elementary.h"
#include "numerics/error.h"
#include "tests/goldens/temporary_directory.h"
#include "trainer/config/config.h"

namespace mxcheck {
namespace {

using test::TemporaryDirectory;

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
  try {
    corpus_at(path);
    ADD_FAILURE() << path;
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::input);
    EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
  }
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
    EXPECT_NE(std::string(e.what()).find(found.training_sha256), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("24649728ef95e91f2306628d1bab8893d7a80057627ede29eb704f4fc9bac782"),
              std::string::npos)
        << e.what();
    EXPECT_NE(std::string(e.what()).find("--data"), std::string::npos) << e.what();
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

}  // namespace
}  // namespace mxcheck
