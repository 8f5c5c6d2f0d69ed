#pragma once
// An HDF5 file in the schema of goldens that carries the hash of its own contents, for what has no manifest: runs and
// checkpoints. Attributes, and lists and tables of integers by name; floats as their bits. docs/parity.md has the tree,
// and the hash to the byte.
//
//   SealedWriter to("run.h5", "parity");                 const SealedReader from("run.h5", "parity");
//   to.attribute("engine", "cpu");                       from.text("engine") == "cpu"
//   to.list<std::uint32_t>("loss", "float32", bits);     from.list<std::uint32_t>("loss", "float32") == bits
//   to.commit(6);
//
// The same contents give the same bytes (with deflate: under the same zlib). The file appears whole or not at all. It
// is read in a child process (goldens/format/unverified.h), so that no damage reaches this one, and refused unless the
// hash is that of what was read: attributes, names, types, shapes and data.
//
// Several threads may write and read, each its own objects.
//
// Errors: those of GoldenWriter; of the reader Error{input}, one line with the path and the place, for a file that is
// truncated, damaged, altered, of another kind or version, and for what it lacks.
//
// Does not promise that nobody made the file up: the hash is inside it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "goldens/format/unverified.h"

namespace mxcheck {

inline constexpr const char* kSealedVersion = "1";

// SHA-256 of all that a file says, but for the attribute that holds it.
std::string content_sha256(const UnverifiedGolden& contents);

class SealedWriter {
 public:
  SealedWriter(std::string path, std::string kind);
  void attribute(const std::string& key, const std::string& value);
  // Elements are std::uint8_t, _uint16_t, _uint32_t, int32_t, int64_t. `format` says what their bits are: "float32",
  // "uint32", "int64", ...
  template <class T>
  void list(const std::string& name, const char* format, std::span<const T> values) {
    add<T>(name, format, {static_cast<std::int64_t>(values.size())}, values);
  }
  // Row-major; rows x cols is the number of values.
  template <class T>
  void table(const std::string& name, const char* format, std::int64_t rows, std::int64_t cols,
             std::span<const T> values) {
    add<T>(name, format, {rows, cols}, values);
  }
  // compression: deflate, 0 (none) to 9.
  void commit(int compression);
  // The contents that commit would write, their hash included: a copy.
  [[nodiscard]] UnverifiedGolden contents() const;

 private:
  template <class T>
  void add(const std::string& name, const char* format, std::vector<std::int64_t> shape, std::span<const T> values);

  std::string path_;
  UnverifiedGolden contents_;
};

class SealedReader {
 public:
  SealedReader(std::string path, const std::string& kind);
  // A reader of contents that were read already; `path` is for messages.
  SealedReader(std::string path, const std::string& kind, UnverifiedGolden contents);
  [[nodiscard]] bool has(const std::string& key) const;  // an attribute
  [[nodiscard]] const std::string& text(const std::string& key) const;
  [[nodiscard]] std::int64_t integer(const std::string& key) const;  // decimal
  [[nodiscard]] double number(const std::string& key) const;         // decimal, finite or not
  template <class T>
  [[nodiscard]] std::vector<T> list(const std::string& name, const char* format) const;
  // Refuses any other shape; extents that cannot be are refused, too.
  template <class T>
  [[nodiscard]] std::vector<T> table(const std::string& name, const char* format, std::int64_t rows,
                                     std::int64_t cols) const;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  [[nodiscard]] std::size_t find(const std::string& name, const char* format, std::size_t rank) const;

  std::string path_;
  UnverifiedGolden contents_;
};

}  // namespace mxcheck
