#pragma once
// JSON as a value: what was read, or what is to be written. The grammar is nlohmann's, whose headers one source alone
// reads, as they take seconds to compile.
//
//   Json json{{"rows", 3}, {"name", "x"}};
//   json["shape"].push_back(3);
//   const std::string text = to_text(json);

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "numerics/error.h"

namespace mxcheck {

struct JsonMember;

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<JsonMember>;  // in the order in which the members came
  using Value = std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object>;

  Json();  // null, which the first member or element makes an object or an array
  Json(bool value);
  Json(double value);
  Json(const char* text);
  Json(std::string text);
  Json(std::string_view text);
  template <std::signed_integral T>
  Json(T value) : Json(std::int64_t{value}, 0) {}
  template <std::unsigned_integral T>
  Json(T value) : Json(std::uint64_t{value}, 0) {}
  template <class T>
  Json(const std::vector<T>& elements) : Json(array()) {
    for (const T& element : elements) push_back(element);
  }
  template <class T>
  Json(const std::map<std::string, T>& members) : Json(object()) {
    for (const auto& [key, value] : members) (*this)[key] = value;
  }
  Json(std::initializer_list<JsonMember> members);
  Json(const Json&);
  Json(Json&&) noexcept;
  Json& operator=(const Json&);
  Json& operator=(Json&&) noexcept;
  ~Json();

  static Json array();
  static Json object();

  // The value when it is of type T, one of Value's; null otherwise.
  template <class T>
  [[nodiscard]] const T* get_if() const {
    return std::get_if<T>(&value_);
  }
  [[nodiscard]] const Json* find(std::string_view key) const;  // null when there is none, or this is no object

  Json& operator[](std::string_view key);  // a new member is null
  void push_back(Json element);
  void append(std::string key, Json value);  // to an object, of a key that it does not have
  void sort_members();                       // by key; nothing for what is no object
  void update(const Json& members);          // members of the same keys are replaced where they stand
  [[nodiscard]] std::size_t size() const;    // members or elements; 0 of all else
  [[nodiscard]] const Value& value() const { return value_; }

 private:
  Json(std::int64_t value, int);
  Json(std::uint64_t value, int);

  Value value_;
};

struct JsonMember {
  std::string key;
  Json value;
};

// Strict: no key twice, no value deeper than max_depth, nothing after the end. Objects have their members by name.
// Error{kind} that begins with `where`.
Json parse_json(std::string_view text, const std::string& where, int max_depth, ErrorKind kind);

enum class JsonOrder { given, by_name };  // of members
enum class NotUtf8 { replaced, refused };
struct JsonStyle {
  int indent = 2;  // -1: one line without spaces
  JsonOrder order = JsonOrder::given;
  NotUtf8 not_utf8 = NotUtf8::replaced;  // refused: Error{usage}
};
std::string to_text(const Json& json, JsonStyle style = {});

// The text with what is no UTF-8 replaced.
std::string valid_utf8(const std::string& text);

// JSON from outside, read one way only: no key twice, bounded nesting, every key known, every value of its type.
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
