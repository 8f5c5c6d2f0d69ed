#include "goldens/json/json.h"

#include <algorithm>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "numerics/names.h"
#include "numerics/text.h"

namespace mxcheck {
namespace {

using Library = nlohmann::ordered_json;

Library converted(const Json& json, JsonOrder order);

Library converted(const Json::Object& members, JsonOrder order) {
  std::vector<const JsonMember*> in_order;
  for (const JsonMember& member : members) in_order.push_back(&member);
  if (order == JsonOrder::by_name) {
    std::sort(in_order.begin(), in_order.end(), [](const auto* a, const auto* b) { return a->key < b->key; });
  }
  Library object = Library::object();
  // At the end, without a search: no key is a duplicate.
  for (const JsonMember* m : in_order) {
    object.get_ref<Library::object_t&>().emplace_back(m->key, converted(m->value, order));
  }
  return object;
}

Library converted(const Json& json, JsonOrder order) {
  return std::visit(
      [&](const auto& value) -> Library {
        using Type = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Type, std::monostate>) {
          return nullptr;
        } else if constexpr (std::is_same_v<Type, Json::Array>) {
          Library array = Library::array();
          for (const Json& element : value) array.push_back(converted(element, order));
          return array;
        } else if constexpr (std::is_same_v<Type, Json::Object>) {
          return converted(value, order);
        } else {
          return value;
        }
      },
      json.value());
}

// Takes the events of nlohmann's parser. An object's keys are sorted when it ends; the parser never sees one twice.
class Builder {
 public:
  Builder(const std::string& where, int max_depth, ErrorKind kind)
      : where_(where), max_depth_(max_depth), kind_(kind) {}

  bool null() { return add(Json()); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(std::int64_t value) { return add(value); }
  bool number_unsigned(std::uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Library::binary_t&) { return false; }  // not of a text
  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    check_depth();
    if (!open_.back().keys.insert(name).second) throw Error(kind_, where_ + ": names '" + one_line(name) + "' twice");
    open_.back().key = std::move(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const Library::exception& e) {
    const auto* at = dynamic_cast<const Library::parse_error*>(&e);
    const std::string place = at != nullptr ? " (at byte " + std::to_string(at->byte) + ")" : "";
    throw Error(kind_, where_ + ": is not valid JSON" + place);
  }
  Json take() { return std::move(whole_); }

 private:
  struct Open {
    Json value;
    std::set<std::string> keys;
    std::string key;  // of the member that comes next
  };

  void check_depth() const {
    if (open_.size() <= static_cast<std::size_t>(max_depth_)) return;
    throw Error(kind_, where_ + ": nested too deeply; " + std::to_string(max_depth_) + " are used");
  }
  bool open(Json empty) {
    check_depth();
    open_.push_back({std::move(empty), {}, {}});
    return true;
  }
  bool close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    done.value.sort_members();
    return place(std::move(done.value));
  }
  bool add(Json value) {
    check_depth();
    return place(std::move(value));
  }
  bool place(Json value) {
    if (open_.empty()) {
      whole_ = std::move(value);
    } else if (open_.back().value.get_if<Json::Array>() != nullptr) {
      open_.back().value.push_back(std::move(value));
    } else {
      open_.back().value.append(std::move(open_.back().key), std::move(value));
    }
    return true;
  }

  const std::string& where_;
  int max_depth_;
  ErrorKind kind_;
  std::vector<Open> open_;
  Json whole_;
};

}  // namespace

Json::Json() = default;
Json::Json(bool value) : value_(value) {}
Json::Json(double value) : value_(value) {}
Json::Json(const char* text) : value_(std::string(text)) {}
Json::Json(std::string text) : value_(std::move(text)) {}
Json::Json(std::string_view text) : value_(std::string(text)) {}
Json::Json(std::int64_t value, int) : value_(value) {}
Json::Json(std::uint64_t value, int) : value_(value) {}
Json::Json(std::initializer_list<JsonMember> members) : value_(Object(members)) {}
Json::Json(const Json&) = default;
Json::Json(Json&&) noexcept = default;
Json& Json::operator=(const Json&) = default;
Json& Json::operator=(Json&&) noexcept = default;
Json::~Json() = default;

Json Json::array() {
  Json json;
  json.value_ = Array();
  return json;
}

Json Json::object() {
  Json json;
  json.value_ = Object();
  return json;
}

const Json* Json::find(std::string_view key) const {
  const auto* members = get_if<Object>();
  if (members == nullptr) return nullptr;
  const auto found = std::find_if(members->begin(), members->end(), [&](const JsonMember& m) { return m.key == key; });
  return found == members->end() ? nullptr : &found->value;
}

Json& Json::operator[](std::string_view key) {
  if (std::holds_alternative<std::monostate>(value_)) value_ = Object();
  Object& members = std::get<Object>(value_);
  const auto found = std::find_if(members.begin(), members.end(), [&](const JsonMember& m) { return m.key == key; });
  return found != members.end() ? found->value : members.emplace_back(JsonMember{std::string(key), Json()}).value;
}

void Json::push_back(Json element) {
  if (std::holds_alternative<std::monostate>(value_)) value_ = Array();
  std::get<Array>(value_).push_back(std::move(element));
}

void Json::update(const Json& members) {
  for (const auto& [key, value] : std::get<Object>(members.value_)) (*this)[key] = value;
}

std::size_t Json::size() const {
  if (const auto* array = get_if<Array>()) return array->size();
  const auto* object = get_if<Object>();
  return object != nullptr ? object->size() : 0;
}

void Json::append(std::string key, Json value) {
  std::get<Object>(value_).push_back({std::move(key), std::move(value)});
}

void Json::sort_members() {
  auto* members = std::get_if<Object>(&value_);
  if (members == nullptr) return;
  std::sort(members->begin(), members->end(), [](const JsonMember& a, const JsonMember& b) { return a.key < b.key; });
}

Json parse_json(std::string_view text, const std::string& where, int max_depth, ErrorKind kind) {
  Builder builder(where, max_depth, kind);
  Library::sax_parse(text, &builder);
  return builder.take();
}

std::string to_text(const Json& json, JsonStyle style) {
  const auto handler =
      style.not_utf8 == NotUtf8::replaced ? Library::error_handler_t::replace : Library::error_handler_t::strict;
  try {
    return converted(json, style.order).dump(style.indent, ' ', false, handler);
  } catch (const Library::exception&) {
    throw Error(ErrorKind::usage, "text that is no UTF-8 has no JSON");
  }
}

std::string valid_utf8(const std::string& text) {
  const Json parsed = parse_json(to_text(text, {-1}), "a text", 0, ErrorKind::internal);
  return *parsed.get_if<std::string>();
}

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
    throw Error(ErrorKind::usage, place_ + ": has \"" + one_line(key) + "\", which is not a known key here" +
                                      known_names(key, {taken_.begin(), taken_.end()}));
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
