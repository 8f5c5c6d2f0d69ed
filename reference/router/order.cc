// The order of values as an order of integers, the first few of a row, and packed values.

#include <algorithm>
#include <bit>
#include <functional>

#include "reference/router/parts.h"

namespace mxcheck::router_parts {
namespace {

constexpr std::size_t kFewEnoughToInsert = 32;

// Each key finds its place among the largest so far: most are below them all, and cost one comparison.
void insert_each(std::span<const std::uint64_t> keys, std::span<std::uint64_t> first) {
  std::fill(first.begin(), first.end(), 0);
  for (const std::uint64_t key : keys) {
    if (key <= first.back()) continue;
    std::size_t at = first.size() - 1;
    for (; at > 0 && first[at - 1] < key; --at) first[at] = first[at - 1];
    first[at] = key;
  }
}

}  // namespace

void first_in_order(std::span<const std::uint64_t> keys, std::span<std::uint64_t> first,
                    std::vector<std::uint64_t>& scratch) {
  if (first.empty()) return;
  if (first.size() <= kFewEnoughToInsert) return insert_each(keys, first);
  scratch.assign(keys.begin(), keys.end());
  const auto end = scratch.begin() + static_cast<std::ptrdiff_t>(first.size());
  if (end != scratch.end()) std::nth_element(scratch.begin(), end, scratch.end(), std::greater<>());
  std::sort(scratch.begin(), end, std::greater<>());
  std::copy(scratch.begin(), end, first.begin());
}

int packed_bits(std::int64_t experts) { return std::countr_zero(std::bit_ceil(static_cast<std::uint64_t>(experts))); }

float packed(float value, std::int64_t index, int bits) {
  const std::uint32_t mask = (1U << bits) - 1;
  const auto low = static_cast<std::uint32_t>(value >= 0 ? ~index : index) & mask;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) & ~mask) | low);
}

float cleared(float value, int bits) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & ~((1U << bits) - 1));
}

}  // namespace mxcheck::router_parts
