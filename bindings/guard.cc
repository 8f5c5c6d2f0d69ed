#include "bindings/guard.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace mxcheck::c {

std::string& last_error() {
  thread_local std::string text;
  return text;
}

void refuse(const std::string& text) { throw Error(ErrorKind::usage, text); }

std::string_view text_of(const char* text, const char* name) {
  if (text == nullptr) refuse(std::string(name) + " is null: it must be a text");
  return text;
}

std::int64_t check_count(std::int64_t count, const char* name) {
  if (count < 0) refuse(std::string(name) + " is " + std::to_string(count) + ": it must be 0 or more");
  return count;
}

void check_pointer(const void* pointer, std::int64_t count, const char* name) {
  if (pointer == nullptr && count > 0)
    refuse(std::string(name) + " is null, with " + std::to_string(count) + " values");
}

std::int32_t threads_of(std::int64_t threads) {
  if (threads < 0 || threads > std::numeric_limits<std::int32_t>::max()) {
    refuse("threads is " + std::to_string(threads) + ": 0 (the machine's) or more");
  }
  return static_cast<std::int32_t>(threads);
}

float fp32_of(double value, const char* name) {
  const auto narrow = static_cast<float>(value);
  if (!std::isnan(value) && narrow != value) {
    refuse(std::string(name) + " is " + std::to_string(value) + ", which is no FP32 number");
  }
  return narrow;
}

void give_text(std::string_view whole, char* text, std::int64_t capacity, std::int64_t* size) {
  check_count(capacity, "capacity");
  if (size != nullptr) *size = static_cast<std::int64_t>(whole.size());
  if (text == nullptr || capacity == 0) return;
  const std::size_t bytes = std::min(whole.size(), static_cast<std::size_t>(capacity - 1));
  std::memcpy(text, whole.data(), bytes);
  text[bytes] = '\0';
}

std::span<const std::int64_t> offsets_of(const std::int64_t* offsets, std::int64_t count) {
  check_count(count, "offset_count");
  check_pointer(offsets, count, "offsets");
  return {offsets, static_cast<std::size_t>(count)};
}

}  // namespace mxcheck::c
