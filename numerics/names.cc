#include "numerics/names.h"

#include <algorithm>
#include <utility>

namespace mxcheck {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Characters to insert, delete, replace or swap with the next one until a is b; capital and small letters are the same.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> two_before, before, row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    two_before = std::exchange(before, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({before[j] + 1, row[j - 1] + 1, before[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], two_before[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string did_you_mean(std::string_view given, const std::vector<std::string>& known) {
  constexpr std::size_t kLongest = 100;  // no name is longer, and a file's text may be anything
  if (given.size() > kLongest) return "";
  std::size_t least = std::max<std::size_t>(given.size() / 3, 1) + 1;
  const std::string* nearest = nullptr;
  for (const std::string& name : known) {
    const std::size_t distance = edit_distance(given, name);
    if (distance >= std::min(least, given.size())) continue;  // as many changes as letters are another word
    least = distance;
    nearest = &name;
  }
  return nearest == nullptr ? "" : "; did you mean '" + *nearest + "'?";
}

std::string known_names(std::string_view given, const std::vector<std::string>& known) {
  return "; known are " + join(known) + did_you_mean(given, known);
}

}  // namespace mxcheck
