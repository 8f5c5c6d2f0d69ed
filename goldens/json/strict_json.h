#pragma once
// JSON from outside, read one way only: no key twice, bounded nesting, every key known, every value of its type.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "goldens/json/json.h"

namespace mxcheck {

// One object whose keys are taken one by one; finish() rejects unknown keys. place is for messages: "suite.json:
// goldens[3]".
class JsonObject {
 public:
  JsonObject(const Json& object, std::string place);

  [[nodiscard]] bool has(const char* key) const;
  [[nodiscard]] const Json& required(const char* key);
  [[nodiscard]] std::string text(const char* key);  // at most 4,096 characters, no control characters
  [[nodiscard]] std::string text_or(const char* key, const std::string& otherwise);
  [[nodiscard]] std::int64_t integer(const char* key, std::int64_t low, std::int64_t high);  // inclusive
  [[nodiscard]] bool flag(const char* key);                                                  // absent: false
  [[nodiscard]] const Json::Array& list(const char* key, std::size_t most);
  void finish() const;

  [[noreturn]] void refuse(const std::string& key, const std::string& what) const;
  [[nodiscard]] const std::string& place() const { return place_; }

 private:
  const Json& object_;
  std::string place_;
  std::set<std::string> taken_;
};

// The integer in [low, high] that value holds, or nothing.
std::optional<std::int64_t> integer_in(const Json& value, std::int64_t low, std::int64_t high);

}  // namespace mxcheck
