#pragma once
// Text in small pieces: lists and quotes in messages, numbers in arguments. No I/O, no errors.

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

namespace mxcheck {

// "a, b, c" of a range whose elements, or what `name` makes of them, are texts.
template <class Range, class Name>
std::string join(const Range& range, std::string_view separator, const Name& name) {
  std::string text;
  bool first = true;
  for (const auto& element : range) {
    if (!first) text += separator;
    text += name(element);
    first = false;
  }
  return text;
}
template <class Range>
std::string join(const Range& range, std::string_view separator = ", ") {
  return join(range, separator, [](const auto& element) { return std::string_view(element); });
}

// The pieces between separators; a separator at the end adds no piece, and an empty text has none.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return parts;
}

// The number that the whole text is; nothing for anything else, or beyond the type's range. No sign '+', no blanks.
template <class Number>
std::optional<Number> parse_number(std::string_view text, int base = 10) {
  Number value{};
  std::from_chars_result result{};
  if constexpr (std::is_floating_point_v<Number>) {
    result = std::from_chars(text.data(), text.data() + text.size(), value);
  } else {
    result = std::from_chars(text.data(), text.data() + text.size(), value, base);
  }
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

// Text from outside as a message quotes it, on one line: control characters (below 0x20, and 0x7F) as "\x0A"; all else
// as it is.
inline std::string one_line(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  constexpr unsigned char kFirstPrintable = 0x20;
  constexpr unsigned char kDelete = 0x7F;
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= kFirstPrintable && byte != kDelete) {
      line += c;
    } else {
      line += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 0xF]};
    }
  }
  return line;
}

}  // namespace mxcheck
