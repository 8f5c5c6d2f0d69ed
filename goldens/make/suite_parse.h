#pragma once
// Private to goldens/: the parts of a suite's text that several kinds share, and those that have a file of their own.

#include <cstdint>
#include <span>
#include <string>

#include "goldens/json/strict_json.h"
#include "goldens/make/suite.h"

namespace mxcheck {

inline constexpr std::size_t kMostNumbers = 65'536;  // of a list
inline constexpr std::int64_t kMostExtent = std::int64_t{1} << 40;

// Errors of other libraries get the place in the spec prepended.
template <class Action>
auto at_place(const JsonObject& o, const char* key, Action action) {
  try {
    return action();
  } catch (const Error& e) {
    o.refuse(key, e.what());
  }
}

Format format_named(const JsonObject& o, const std::string& key, const std::string& name, std::span<const Format> of);

// The text, or an empty one where the value is something else.
inline std::string text_in(const Json& value) {
  const auto* text = value.get_if<std::string>();
  return text != nullptr ? *text : std::string();
}

// "3f80": hexadecimal digits of a number of this format.
std::uint32_t parse_bits(const JsonObject& o, const std::string& key, const Json& value, Format format);

// Integers in [low, high].
std::vector<std::int64_t> parse_integers(JsonObject& o, const char* key, std::int64_t low, std::int64_t high);

InputSpec parse_input(const Json& value, const std::string& place);

// The keys of the kinds route, route_round, route_metadata, route_backward and route_losses.
void parse_route(JsonObject& o, GoldenSpec& golden);

// ROUTER and one variant; a rule and what it takes where "rules" is there.
void parse_layer_router(JsonObject& o, RouteSpec& route);

std::vector<std::int64_t> parse_offsets(JsonObject& o);

// The keys of the kinds swiglu and layer.
void parse_swiglu(JsonObject& o, GoldenSpec& golden);
void parse_layer(JsonObject& o, GoldenSpec& golden);

}  // namespace mxcheck
