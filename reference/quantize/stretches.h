#pragma once
// Cuts a line of numbers (a row, or the tokens of an expert in a column) into groups that are rotated by themselves,
// when its length is no multiple of the group: as many groups of the size as fit, then one of half that size if it
// fits, and so on down to 16. A rest of fewer than 16 numbers is not rotated.
//
//   stretches_of(355, 128)   // {0, 256, 128}, {256, 64, 64}, {320, 32, 32}, {352, 3, 0}
//
// A kernel reaches the same: in groups of n at place p of a line of `length`, the group is the largest power of two
// of at most n that ends within the line and begins where p does with the bits below it cleared.

#include <cstdint>
#include <vector>

namespace mxcheck {

inline constexpr int kSmallestGroup = 16;

struct Stretch {
  std::int64_t first = 0;
  std::int64_t length = 0;
  int group = 0;  // length is a multiple of it; 0: not rotated
  friend bool operator==(const Stretch&, const Stretch&) = default;
};

// Stretches without numbers are left out. `group` is a power of two, 16 or more.
inline std::vector<Stretch> stretches_of(std::int64_t length, int group) {
  std::vector<Stretch> all;
  std::int64_t first = 0;
  for (int size = group; size >= kSmallestGroup; size /= 2) {
    const std::int64_t whole = (length - first) / size * size;
    if (whole == 0) continue;
    all.push_back({first, whole, size});
    first += whole;
  }
  if (first < length) all.push_back({first, length - first, 0});
  return all;
}

}  // namespace mxcheck
