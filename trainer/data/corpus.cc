#include "trainer/data/corpus.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <system_error>

#include "goldens/io/atomic_file.h"
#include "goldens/io/byte_source.h"
#include "goldens/io/sha256.h"
#include "numerics/elementary/elementary.h"
#include "numerics/error.h"

namespace mxcheck {
namespace {

namespace fs = std::filesystem;

// Texts that runs are known to be trained on, by the SHA-256 of their parts.
struct KnownText {
  const char* name;
  const char* training;
  const char* validation;
};
constexpr KnownText kBoost{"boost headers 1.74", "24649728ef95e91f2306628d1bab8893d7a80057627ede29eb704f4fc9bac782",
                           "0d34667690a5f6d24867e992c1cc967d80a00ac8e74b07159d85b178f78e4e25"};
constexpr KnownText kEnglish{"English text of Debian 12",
                             "9957b3909277811112b688031e27f937a98850e8c5794ec70857a38959e5c916",
                             "a4b62e3ce1f816c9d7524bf77212e4577956d34262e5587b62a1e07661679ff7"};

bool is(const Corpus& corpus, const KnownText& text) {
  return corpus.training_sha256 == text.training && corpus.validation_sha256 == text.validation;
}

std::string sha256_of(std::span<const std::uint8_t> bytes) { return sha256(std::as_bytes(bytes)); }

// Relative paths of a folder's regular files, in byte order.
std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->is_regular_file(error) && !at->is_symlink(error)) files.push_back(at->path().lexically_relative(folder));
  }
  if (error) throw Error(ErrorKind::input, folder + ": cannot be read: " + error.message());
  std::sort(files.begin(), files.end());
  return files;
}

bool is_of_validation(const std::string& relative_path) {
  const std::string hash = sha256(std::as_bytes(std::span(relative_path)));
  return std::stoi(hash.substr(0, 2), nullptr, 16) < 13;
}

void append(const std::string& path, std::vector<std::uint8_t>& to) {
  const FileSource file(path);
  const std::size_t begin = to.size();
  to.resize(begin + file.size());
  file.read(0, std::as_writable_bytes(std::span(to).subspan(begin)));
}

Corpus folder_corpus(const std::string& folder) {
  Corpus corpus;
  for (const std::string& file : files_of(folder))
    append((fs::path(folder) / file).string(), is_of_validation(file) ? corpus.validation : corpus.training);
  return corpus;
}

Corpus file_corpus(const std::string& path) {
  Corpus corpus;
  append(path, corpus.training);
  const auto kept = static_cast<std::ptrdiff_t>(corpus.training.size() - (corpus.training.size() + 19) / 20);
  corpus.validation.assign(corpus.training.begin() + kept, corpus.training.end());
  corpus.training.resize(static_cast<std::size_t>(kept));
  return corpus;
}

// The bytes of a part at each position.
std::vector<std::uint8_t> sequences_at(const std::vector<std::uint8_t>& part, std::span<const std::size_t> positions,
                                       std::int64_t length) {
  std::vector<std::uint8_t> bytes;
  for (const std::size_t position : positions) {
    const auto first = part.begin() + static_cast<std::ptrdiff_t>(position);
    bytes.insert(bytes.end(), first, first + length + 1);
  }
  return bytes;
}

void check_length(const std::vector<std::uint8_t>& part, const char* what, const Corpus& corpus, std::int64_t length) {
  if (std::ssize(part) > length) return;
  throw Error(ErrorKind::input, corpus.name + ": its " + what + " part has " + std::to_string(part.size()) +
                                    " bytes; sequences of " + std::to_string(length) + " need at least " +
                                    std::to_string(length + 1));
}

}  // namespace

Corpus corpus_at(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found)
    throw Error(ErrorKind::input, path + ": there is no such file or folder");
  if (error) throw Error(ErrorKind::input, path + ": cannot be read: " + error.message());
  Corpus corpus = fs::is_directory(status) ? folder_corpus(path) : file_corpus(path);
  corpus.name = path;
  if (corpus.training.empty() || corpus.validation.empty()) {
    throw Error(ErrorKind::input, path + ": its training part has " + std::to_string(corpus.training.size()) +
                                      " bytes and its validation part " + std::to_string(corpus.validation.size()) +
                                      "; both need some: give more or larger files");
  }
  corpus.training_sha256 = sha256_of(corpus.training);
  corpus.validation_sha256 = sha256_of(corpus.validation);
  for (const KnownText& text : {kBoost, kEnglish}) {
    if (is(corpus, text)) corpus.name = text.name;
  }
  return corpus;
}

Corpus boost_corpus(const std::string& folder) {
  Corpus corpus = corpus_at(folder);
  if (is(corpus, kBoost)) return corpus;
  throw Error(ErrorKind::environment,
              folder +
                  ": these are not the headers of Boost 1.74 as Debian 12 has them: SHA-256 of the training part " +
                  corpus.training_sha256 + ", needed " + kBoost.training + "; of the validation part " +
                  corpus.validation_sha256 + ", needed " + kBoost.validation + "; give other data with --data");
}

std::string english_path() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  const fs::path folder =
      cache != nullptr && *cache != '\0' ? fs::path(cache) : fs::path(home == nullptr ? "" : home) / ".cache";
  return (folder / "mxcheck" / "english.txt").string();
}

Corpus english_corpus(const std::string& path) {
  if (!path_exists(path)) {
    throw Error(ErrorKind::environment, path +
                                            ": the English text of Debian 12 was not made yet; mxcheck parity corpus "
                                            "makes it of packages (--help lists them), or give other data with --data");
  }
  Corpus corpus = corpus_at(path);
  if (is(corpus, kEnglish)) return corpus;
  throw Error(ErrorKind::environment, path +
                                          ": this is not the English text of Debian 12: SHA-256 of the training part " +
                                          corpus.training_sha256 + ", needed " + kEnglish.training +
                                          "; make it anew with mxcheck parity corpus");
}

std::string known_text(const std::string& training_sha256, const std::string& validation_sha256) {
  for (const KnownText& text : {kBoost, kEnglish}) {
    if (training_sha256 == text.training && validation_sha256 == text.validation) return text.name;
  }
  return "";
}

Corpus known_corpus(const std::string& training_sha256) {
  return training_sha256 == kEnglish.training ? english_corpus() : boost_corpus();
}

std::vector<std::uint8_t> training_batch(const Corpus& corpus, const TrainingConfig& config, std::int64_t step) {
  const std::int64_t length = config.model.length;
  check_length(corpus.training, "training", corpus, length);
  const auto t = static_cast<std::uint64_t>(step);
  const auto places = static_cast<std::uint64_t>(std::ssize(corpus.training) - length);
  std::vector<std::size_t> positions;
  for (std::int64_t b = 0; b < config.batch; ++b) {
    positions.push_back(philox_word(config.seed, static_cast<std::uint32_t>(t), static_cast<std::uint32_t>(b),
                                    static_cast<std::uint32_t>(t >> 32), 0xDA7A) %
                        places);
  }
  return sequences_at(corpus.training, positions, length);
}

std::vector<std::uint8_t> validation_batch(const Corpus& corpus, const ModelShape& model, std::int64_t sequences) {
  check_length(corpus.validation, "validation", corpus, model.length);
  const auto places = static_cast<std::uint64_t>(std::ssize(corpus.validation) - model.length);
  std::vector<std::size_t> positions;
  for (std::int64_t i = 0; i < sequences; ++i)
    positions.push_back(static_cast<std::uint64_t>(i) * places / static_cast<std::uint64_t>(sequences));
  return sequences_at(corpus.validation, positions, model.length);
}

}  // namespace mxcheck
