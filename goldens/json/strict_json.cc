#include "goldens/json/strict_json.h"

#include <algorithm>
#include <utility>

#include "numerics/one_line.h"
#include "numerics/text.h"

namespace mxcheck {

namespace {

constexpr std::size_t kMostText = 4096;

}  // namespace

JsonObject::JsonObject(const Json& object, std::string place) : object_(object), place_(std::move(place)) {
  if (object.get_if<Json::Object>() == nullptr) throw Error(ErrorKind::usage, place_ + ": must be an object {...}");
}

bool JsonObject::has(const char* key) const { return object_.find(key) != nullptr; }

const Json& JsonObject::required(const char* key) {
  taken_.insert(key);
  const Json* at = object_.find(key);
  if (at == nullptr) throw Error(ErrorKind::usage, place_ + ": lacks \"" + key + "\"");
  return *at;
}

void JsonObject::refuse(const std::string& key, const std::string& what) const {
  throw Error(ErrorKind::usage, place_ + "." + key + ": " + what);
}

std::string JsonObject::text(const char* key) {
  const auto* value = required(key).get_if<std::string>();
  if (value == nullptr) refuse(key, "must be a string");
  const std::string& words = *value;
  const bool plain = std::none_of(words.begin(), words.end(),
                                  [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
  if (words.size() > kMostText || !plain) refuse(key, "must be one line of at most 4096 characters");
  return words;
}

std::string JsonObject::text_or(const char* key, const std::string& otherwise) {
  return has(key) ? text(key) : otherwise;
}

std::int64_t JsonObject::integer(const char* key, std::int64_t low, std::int64_t high) {
  const std::optional<std::int64_t> value = integer_in(required(key), low, high);
  if (!value) refuse(key, "must be an integer from " + std::to_string(low) + " to " + std::to_string(high));
  return *value;
}

bool JsonObject::flag(const char* key) {
  if (!has(key)) return false;
  const auto* value = required(key).get_if<bool>();
  if (value == nullptr) refuse(key, "must be true or false");
  return *value;
}

const Json::Array& JsonObject::list(const char* key, std::size_t most) {
  const auto* value = required(key).get_if<Json::Array>();
  if (value == nullptr || value->size() > most) refuse(key, "must be a list of at most " + std::to_string(most));
  return *value;
}

void JsonObject::finish() const {
  for (const auto& [key, value] : *object_.get_if<Json::Object>()) {
    if (taken_.contains(key)) continue;
    throw Error(ErrorKind::usage,
                place_ + ": has \"" + one_line(key) + "\", which means nothing here; known are " + join(taken_));
  }
}

std::optional<std::int64_t> integer_in(const Json& value, std::int64_t low, std::int64_t high) {
  if (const auto* negative = value.get_if<std::int64_t>()) {
    return *negative >= low && *negative <= high ? std::optional(*negative) : std::nullopt;
  }
  const auto* positive = value.get_if<std::uint64_t>();
  if (positive == nullptr || *positive >> 63 != 0) return std::nullopt;
  const auto number = static_cast<std::int64_t>(*positive);
  return number >= low && number <= high ? std::optional(number) : std::nullopt;
}

}  // namespace mxcheck
