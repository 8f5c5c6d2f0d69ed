#include "goldens/io/strict_json.h"

#include <algorithm>
#include <utility>

namespace mxcheck {

using nlohmann::json;

namespace {

constexpr std::size_t kMostText = 4096;

}  // namespace

json parse_strict_json(std::string_view text, const std::string& where, int max_depth, ErrorKind kind) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > max_depth) throw Error(kind, where + ": nested too deeply; " + std::to_string(max_depth) + " are used");
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
      throw Error(kind, where + ": names '" + parsed.get<std::string>() + "' twice");
    }
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::parse_error& e) {
    throw Error(kind, where + ": is not valid JSON (at byte " + std::to_string(e.byte) + ")");
  } catch (const json::exception&) {
    throw Error(kind, where + ": is not valid JSON");
  }
}

JsonObject::JsonObject(const json& object, std::string place) : object_(object), place_(std::move(place)) {
  if (!object.is_object()) throw Error(ErrorKind::usage, place_ + ": must be an object {...}");
}

bool JsonObject::has(const char* key) const { return object_.contains(key); }

const json& JsonObject::required(const char* key) {
  taken_.insert(key);
  const auto at = object_.find(key);
  if (at == object_.end()) throw Error(ErrorKind::usage, place_ + ": lacks \"" + key + "\"");
  return *at;
}

void JsonObject::refuse(const std::string& key, const std::string& what) const {
  throw Error(ErrorKind::usage, place_ + "." + key + ": " + what);
}

std::string JsonObject::text(const char* key) {
  const json& value = required(key);
  if (!value.is_string()) refuse(key, "must be a string");
  const auto& words = value.get_ref<const std::string&>();
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
  const json& value = required(key);
  if (!value.is_boolean()) refuse(key, "must be true or false");
  return value.get<bool>();
}

const json& JsonObject::list(const char* key, std::size_t most) {
  const json& value = required(key);
  if (!value.is_array() || value.size() > most) refuse(key, "must be a list of at most " + std::to_string(most));
  return value;
}

void JsonObject::finish() const {
  std::string known;
  for (const std::string& key : taken_) known += (known.empty() ? "" : ", ") + key;
  for (const auto& [key, value] : object_.items()) {
    if (!taken_.contains(key)) {
      throw Error(ErrorKind::usage, place_ + ": has \"" + key + "\", which means nothing here; known are " + known);
    }
  }
}

std::optional<std::int64_t> integer_in(const json& value, std::int64_t low, std::int64_t high) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() >> 63 != 0) return std::nullopt;
  const auto number = value.get<std::int64_t>();
  return number >= low && number <= high ? std::optional(number) : std::nullopt;
}

}  // namespace mxcheck
