#pragma once
// The bytes that a run reads: a training part, and a validation part that is never trained on. docs/training.md,
// "Data", says which bytes a step reads.
//
//   const Corpus corpus = boost_corpus();             // the C++ headers of the Boost package that the build installs
//   const Corpus english = english_corpus();          // what english.h makes, where `mxcheck parity corpus` puts it
//   const Corpus mine = corpus_at("texts/");          // a folder, or one file
//   const auto batch = training_batch(corpus, config, step);
//
// A folder's regular files, at any depth, come in the byte order of their relative paths, one after another; symbolic
// links are not followed. A file belongs to the validation part where the first byte of the SHA-256 of its relative
// path is below 13 (5 % of files), else to the training part. Of one file by itself the last twentieth (rounded up) is
// the validation part.
//
// Errors: Error{input} for what cannot be read or is neither file nor folder, with the path, and for a part that is too
// short for a sequence; Error{environment} for another version of Boost, or another text than english.h's, with the
// hashes that were found and needed, and where that text was not made yet, with the commands that make it.

#include <cstdint>
#include <string>
#include <vector>

#include "reference/training/model.h"

namespace mxcheck {

struct Corpus {
  std::string name;  // of a known text, wherever it lies ("boost headers 1.74"), else the path as it was given
  std::vector<std::uint8_t> training;
  std::vector<std::uint8_t> validation;
  std::string training_sha256;
  std::string validation_sha256;
};

Corpus corpus_at(const std::string& path);

// The headers of Boost 1.74, as Debian 12 has them (libboost1.74-dev).
Corpus boost_corpus(const std::string& folder = "/usr/include/boost");

// mxcheck/english.txt in $XDG_CACHE_HOME, or in ~/.cache.
std::string english_path();
Corpus english_corpus(const std::string& path = english_path());

// The name of one of the two above, by the hashes of its parts; empty for other data.
std::string known_text(const std::string& training_sha256, const std::string& validation_sha256);
// One of the two above, by the hash of its training part; of any other hash Boost's headers.
Corpus known_corpus(const std::string& training_sha256);

// batch x (length + 1) bytes of step `step`.
std::vector<std::uint8_t> training_batch(const Corpus& corpus, const TrainingConfig& config, std::int64_t step);

// sequences x (length + 1) bytes, spread evenly over the validation part.
std::vector<std::uint8_t> validation_batch(const Corpus& corpus, const ModelShape& model, std::int64_t sequences);

}  // namespace mxcheck
