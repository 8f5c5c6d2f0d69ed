#include "properties/report/markup.h"

#include <array>

#include "goldens/json/json.h"

namespace mxcheck {
namespace {

// U+FFFE and U+FFFF are no characters of XML; U+202A to U+202E and U+2066 to U+2069 show a name as another one.
bool is_left_out(std::string_view three) {
  constexpr std::array<std::string_view, 11> kAll{"\xEF\xBF\xBE", "\xEF\xBF\xBF", "\xE2\x80\xAA", "\xE2\x80\xAB",
                                                  "\xE2\x80\xAC", "\xE2\x80\xAD", "\xE2\x80\xAE", "\xE2\x81\xA6",
                                                  "\xE2\x81\xA7", "\xE2\x81\xA8", "\xE2\x81\xA9"};
  for (const std::string_view one : kAll) {
    if (three == one) return true;
  }
  return false;
}

}  // namespace

std::string plain_text(std::string_view raw) {
  const std::string text = valid_utf8(std::string(raw));
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (is_left_out(std::string_view(text).substr(i, 3))) {
      out += '?', i += 2;
    } else {
      out += (byte < 0x20 && text[i] != '\n' && text[i] != '\t') || byte == 0x7F ? '?' : text[i];
    }
  }
  return out;
}

std::string escaped_markup(std::string_view raw) {
  std::string out;
  for (const char c : plain_text(raw)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string shortened(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  constexpr std::size_t kRoomForNote = 60;
  std::size_t end = most > kRoomForNote ? most - kRoomForNote : 0;
  if (const std::size_t line = text.rfind('\n', end); line != std::string::npos && line > end / 2) end = line;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // no character is cut in two
  return text.substr(0, end) + "\n... " + std::to_string(text.size() - end) + " bytes more\n";
}

std::string breakable(std::string_view name) {
  std::string out;
  for (const char c : escaped_markup(name)) out += c == '_' ? "_<wbr/>" : std::string(1, c);
  return out;
}

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  const std::size_t sign = number < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > sign + 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

}  // namespace mxcheck
