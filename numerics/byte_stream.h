#pragma once
// Values one after the other as bytes, and back from bytes that nobody vouches for: numbers little-endian (the host's
// order), texts and lists after their length in eight bytes.
//
//   ByteWriter to;                       ByteReader from(to.bytes(), "x.journal: byte 40");
//   to.number(std::int64_t{7});          from.number<std::int64_t>() == 7
//   to.text("cpu");                      from.text() == "cpu"
//   to.list(digests);                    from.list<std::uint64_t>() == digests
//                                        from.finish();
//
// Errors: Error{input} of the reader, beginning with `where`, for bytes that end before the value does, and of finish
// for bytes that are left. Lengths are compared with what is left before anything is allocated.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "numerics/error.h"

namespace mxcheck {

class ByteWriter {
 public:
  template <class T>
  void number(T value) {
    static_assert(std::is_arithmetic_v<T>);
    append(std::as_bytes(std::span(&value, 1)));
  }
  void text(std::string_view text) {
    number<std::uint64_t>(text.size());
    append(std::as_bytes(std::span(text)));
  }
  template <class T>
  void list(const std::vector<T>& values) {
    static_assert(std::is_arithmetic_v<T>);
    number<std::uint64_t>(values.size());
    append(std::as_bytes(std::span(values)));
  }
  void append(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }

  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string where) : left_(bytes), where_(std::move(where)) {}

  template <class T>
  T number() {
    static_assert(std::is_arithmetic_v<T>);
    T value{};
    const auto bytes = take(sizeof(T));
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  std::string text() {
    const auto bytes = take(length(1));
    std::string text(bytes.size(), '\0');
    if (!text.empty()) std::memcpy(text.data(), bytes.data(), bytes.size());
    return text;
  }
  template <class T>
  std::vector<T> list() {
    static_assert(std::is_arithmetic_v<T>);
    std::vector<T> values(length(sizeof(T)));
    const auto bytes = take(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  // A number of things that have at least so many bytes each.
  std::uint64_t length(std::uint64_t bytes_each) {
    const auto count = number<std::uint64_t>();
    if (count > left_.size() / bytes_each) refuse("a length is more than what follows");
    return count;
  }
  [[nodiscard]] bool at_end() const { return left_.empty(); }
  void finish() const {
    if (!left_.empty()) refuse(std::to_string(left_.size()) + " bytes too many");
  }
  [[noreturn]] void refuse(const std::string& what) const { throw Error(ErrorKind::input, where_ + ": " + what); }

 private:
  std::span<const std::byte> take(std::uint64_t count) {
    if (count > left_.size()) refuse("ends early");
    const auto taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }

  std::span<const std::byte> left_;
  std::string where_;
};

}  // namespace mxcheck
