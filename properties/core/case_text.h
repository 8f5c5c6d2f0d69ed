#pragma once
// Reading the fields of a case: one message for whatever is wrong, "case field NAME=VALUE is not ...".

#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "numerics/error.h"
#include "numerics/format/format.h"
#include "numerics/names.h"
#include "numerics/text.h"
#include "reference/common/matrix.h"

namespace mxcheck {

// Error{usage}.
[[noreturn]] inline void fail_field(std::string_view field, std::string_view value, std::string_view right) {
  throw Error(ErrorKind::usage, fmt::format("case field {}={} is not {}", field, value, right));
}

template <class Number>
Number number_field(std::string_view field, std::string_view value, int base = 10) {
  const auto number = parse_number<Number>(value, base);
  if (!number) fail_field(field, value, "a number in range");
  return *number;
}

// The index of the word.
inline int word_field(std::string_view field, std::string_view value, std::span<const std::string_view> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == value) return static_cast<int>(i);
  }
  fail_field(field, value, "one of " + join(words) + did_you_mean(value, {words.begin(), words.end()}));
}

inline Format format_field(std::string_view field, std::string_view value) {
  const auto format = find_format(value);
  if (!format) fail_field(field, value, "a format");
  return *format;
}

// A field as it is read: each function sets what it names where the field has this name, and says whether it has.
struct FieldText {
  std::string_view field;
  std::string_view value;

  template <class Set>
  bool read(std::string_view name, const Set& set) const {
    if (field != name) return false;
    set();
    return true;
  }
  template <class Number>
  bool number(std::string_view name, Number& to) const {
    return read(name, [&] { to = number_field<Number>(field, value); });
  }
  // The index of the word, or whether it is not the first.
  template <class To>
  bool word(std::string_view name, To& to, std::span<const std::string_view> words) const {
    return read(name, [&] { to = static_cast<To>(word_field(field, value, words)); });
  }
  bool format(std::string_view name, Format& to) const {
    return read(name, [&] { to = format_field(field, value); });
  }
};

// "none" stands for operands without scales.
inline BlockShape block_field(std::string_view value) {
  return value == "none" ? BlockShape{0, 0} : block_shape_named(value);
}
inline std::string block_field_text(BlockShape block) { return block == BlockShape{0, 0} ? "none" : to_text(block); }

}  // namespace mxcheck
