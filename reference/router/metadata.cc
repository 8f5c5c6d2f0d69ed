#include "reference/router/metadata.h"

#include <limits>
#include <string>
#include <utility>

#include "numerics/error.h"
#include "reference/common/checked_size.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostRows = std::numeric_limits<std::int32_t>::max();

[[noreturn]] void refuse(ErrorKind kind, const std::string& text) { throw Error(kind, "route metadata: " + text); }

// Slots as tokens hold them: by offsets, or width a token.
void check_slots(std::int64_t slots, std::int64_t width, std::span<const std::int64_t> offsets) {
  if (offsets.empty()) {
    if (width < 1 || slots % width != 0) {
      refuse(ErrorKind::usage, std::to_string(slots) + " slots cannot be cut into " + std::to_string(width) +
                                   " a token; give a width that divides them, or token offsets");
    }
    return;
  }
  if (std::cmp_greater(offsets.size() - 1, kMostRows)) {
    refuse(ErrorKind::usage, std::to_string(offsets.size() - 1) + " tokens are more than int32 counts");
  }
  if (offsets.front() != 0) {
    refuse(ErrorKind::input, "token offset 0 is " + std::to_string(offsets.front()) + ": must be 0");
  }
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] < offsets[i - 1]) {
      refuse(ErrorKind::input, "token offset " + std::to_string(i) + " is " + std::to_string(offsets[i]) +
                                   ": must be at least the one before, " + std::to_string(offsets[i - 1]));
    }
  }
  if (offsets.back() != slots) {
    refuse(ErrorKind::input, "last token offset (offset " + std::to_string(offsets.size() - 1) + ") is " +
                                 std::to_string(offsets.back()) + ": must be the number of slots, " +
                                 std::to_string(slots));
  }
}

void check_experts(std::span<const std::int32_t> slot_experts, std::int64_t experts) {
  for (std::size_t slot = 0; slot < slot_experts.size(); ++slot) {
    const std::int64_t e = slot_experts[slot];
    if (e < -1 || e >= experts) {
      refuse(ErrorKind::input, "slot " + std::to_string(slot) + " has expert " + std::to_string(e) +
                                   ": must be in [0, " + std::to_string(experts) + "), or -1 for a dropped route");
    }
  }
}

}  // namespace

std::int64_t metadata_capacity(std::int64_t slots, std::int64_t experts, std::int64_t tile) {
  if (slots < 0 || experts < 0 || tile < 1) {
    refuse(ErrorKind::usage, std::to_string(slots) + " slots, " + std::to_string(experts) + " experts, tile " +
                                 std::to_string(tile) + ": sizes must be 0 or more, the tile 1 or more");
  }
  const std::int64_t padding = checked_product(experts, tile - 1, "padding of experts to the tile");
  const std::int64_t capacity = checked_sum(slots, padding, "rows");
  if (capacity > kMostRows) {
    refuse(ErrorKind::usage, std::to_string(capacity) + " rows (" + std::to_string(slots) + " slots, " +
                                 std::to_string(experts) + " experts, tile " + std::to_string(tile) +
                                 ") are more than int32 counts");
  }
  return capacity;
}

RouteMetadata route_metadata(std::span<const std::int32_t> slot_experts, std::int64_t width,
                             std::span<const std::int64_t> token_offsets, std::int64_t experts, std::int64_t tile) {
  const auto slots = static_cast<std::int64_t>(slot_experts.size());
  const std::int64_t capacity = metadata_capacity(slots, experts, tile);
  check_slots(slots, width, token_offsets);
  check_experts(slot_experts, experts);

  RouteMetadata m;
  resize_or_throw(m.counts, experts, "counts of experts");
  for (const std::int32_t e : slot_experts) {
    if (e >= 0) ++m.counts[static_cast<std::size_t>(e)];
  }
  resize_or_throw(m.offsets, experts + 1, "offsets of experts");
  for (std::size_t e = 0; e < m.counts.size(); ++e) {
    m.offsets[e + 1] = m.offsets[e] + ceil_div(m.counts[e], tile) * tile;
  }

  resize_or_throw(m.row_slot, capacity, "slots of rows", -1);
  resize_or_throw(m.row_token, capacity, "tokens of rows", -1);
  resize_or_throw(m.row_expert, capacity, "experts of rows", -1);
  resize_or_throw(m.slot_row, slots, "rows of slots", -1);
  std::vector<std::int64_t> next(m.offsets.begin(), m.offsets.end() - 1);  // slots ascend, so rows of an expert do
  std::size_t token = 0;
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    while (!token_offsets.empty() && token_offsets[token + 1] <= slot) ++token;
    const std::int32_t e = slot_experts[static_cast<std::size_t>(slot)];
    if (e < 0) continue;
    const std::int64_t row = next[static_cast<std::size_t>(e)]++;
    const auto r = static_cast<std::size_t>(row);
    m.row_slot[r] = static_cast<std::int32_t>(slot);
    m.row_token[r] = static_cast<std::int32_t>(token_offsets.empty() ? slot / width : static_cast<std::int64_t>(token));
    m.row_expert[r] = e;
    m.slot_row[static_cast<std::size_t>(slot)] = static_cast<std::int32_t>(row);
  }
  return m;
}

}  // namespace mxcheck
