#pragma once
// Tables of names. Whatever people choose by name has one table, which options, files and messages read: arrays of
// Named, or of entries with more in them and a member `name` (recipes, contracts, router variants).
//
//   inline constexpr std::array<Named<Overflow>, 2> kOverflows{{{"saturate", Overflow::saturate}, ...}};
//   name_in(kOverflows, Overflow::saturate) == "saturate"
//   value_in(kOverflows, "saturate")        == Overflow::saturate
//   entry_named(all_contracts(), "contract", "sm90_fp9")  throws "unknown contract 'sm90_fp9'; known are exact, ...;
//                                                         did you mean 'sm90_fp8'?"
//
// Errors: Error{usage} of entry_named alone.

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "numerics/error.h"
#include "numerics/text.h"

namespace mxcheck {

template <class T>
struct Named {
  std::string_view name;
  T value;
};

// The name of a value; empty for one that the table lacks.
template <class Table, class T>
constexpr std::string_view name_in(const Table& table, const T& value) {
  for (const auto& entry : table) {
    if (entry.value == value) return entry.name;
  }
  return {};
}

template <class Table>
constexpr auto value_in(const Table& table, std::string_view name)
    -> std::optional<std::remove_cvref_t<decltype(table.begin()->value)>> {
  for (const auto& entry : table) {
    if (entry.name == name) return entry.value;
  }
  return std::nullopt;
}

template <class Table>
std::vector<std::string> names_in(const Table& table) {
  std::vector<std::string> names;
  for (const auto& entry : table) names.emplace_back(entry.name);
  return names;
}

// "; did you mean 'gate'?" for a given 'gaet': the first of the known names with the fewest slips of the keyboard, at
// most one for every three letters. Empty where none is so near.
std::string did_you_mean(std::string_view given, const std::vector<std::string>& known);

// "; known are a, b, c", and then what did_you_mean has to say.
std::string known_names(std::string_view given, const std::vector<std::string>& known);
template <class Range, class Name>
std::string known_names(std::string_view given, const Range& range, const Name& name) {
  std::vector<std::string> known;
  for (const auto& one : range) known.emplace_back(name(one));
  return known_names(given, known);
}

// `kind` is what the table holds, for the message: "unknown <kind> '<name>'; known are <all names>".
template <class Table>
const auto& entry_named(const Table& table, std::string_view kind, std::string_view name) {
  for (const auto& entry : table) {
    if (entry.name == name) return entry;
  }
  throw Error(ErrorKind::usage,
              "unknown " + std::string(kind) + " '" + std::string(name) + "'" + known_names(name, names_in(table)));
}

}  // namespace mxcheck
