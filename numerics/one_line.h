#pragma once
// Text from outside as a message quotes it: on one line, whatever is in it. No I/O, no errors.

#include <string>
#include <string_view>

namespace mxcheck {

// Control characters (below 0x20, and 0x7F) as "\x0A"; all else as it is.
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
