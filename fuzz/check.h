#pragma once
// Helpers that fuzz targets share: a failed promise ends the program, which is how libFuzzer learns of it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "numerics/error.h"

// Each target defines it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace mxcheck::fuzz {

inline void require(bool kept, const char* promise) {
  if (kept) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

inline bool is_one_line(std::string_view text) {
  return !text.empty() && std::none_of(text.begin(), text.end(),
                                       [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

// Runs the action, which may throw Error{kind} of one line and nothing else. True when it threw nothing.
template <class Action>
bool accepted(ErrorKind kind, Action action) {
  try {
    action();
    return true;
  } catch (const Error& e) {
    if (e.kind() != kind) std::fprintf(stderr, "%s\n", e.what());
    require(e.kind() == kind, "the error is of the right kind");
    require(is_one_line(e.what()), "the error is one line without control characters");
    return false;
  }
}

inline std::span<const std::byte> bytes_of(const std::uint8_t* data, std::size_t size) {
  return std::as_bytes(std::span(data, size));
}

}  // namespace mxcheck::fuzz
