#pragma once
// The state of anything that is to be met: a bin, a pair or a triple of bins, a layer.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "properties/gate/coverage/coverage.h"

namespace mxcheck {

inline constexpr std::uint8_t kPlanned = 1;
inline constexpr std::uint8_t kExcluded = 2;
inline constexpr std::uint8_t kChecked = 4;
inline constexpr std::uint8_t kRefused = 8;
inline constexpr std::uint8_t kNothingClaimed = 16;
inline constexpr std::uint8_t kLeftOut = 32;  // of a bin that had been refused throughout when tuples were planned
inline constexpr std::uint8_t kSetAside = kRefused | kNothingClaimed | kLeftOut;
inline constexpr std::size_t kMostMissed = 20;

constexpr std::uint8_t bit_of(CaseFate fate) {
  return fate == CaseFate::checked ? kChecked : fate == CaseFate::refused ? kRefused : kNothingClaimed;
}

constexpr std::int64_t& count_of(BinCount& bin, CaseFate fate) {
  return fate == CaseFate::checked ? bin.checked : fate == CaseFate::refused ? bin.refused : bin.not_applicable;
}

// Adds one thing in that state.
constexpr void add(TupleCounts& counts, std::uint8_t state) {
  const bool met = (state & (kChecked | kSetAside)) != 0;
  const bool excluded = (state & kExcluded) != 0 && !met;
  counts.excluded += excluded ? 1 : 0;
  counts.possible += excluded ? 0 : 1;
  counts.checked += (state & kChecked) != 0 ? 1 : 0;
  counts.refused += (state & kChecked) == 0 && met ? 1 : 0;
}
// One character a state, '?' to '~', and the number of those that follow in a row where there are several.
std::string states_text(const std::vector<std::uint8_t>& states);
// Error{input} for what is no such text, or more than 2^24 states.
std::vector<std::uint8_t> states_from(std::string_view text);
// Adds what was met elsewhere. Error{input} where there are more or fewer.
void add_to(std::vector<std::uint8_t>& states, const std::vector<std::uint8_t>& others);
// Adds cases of the bins of the same labels. Error{input} for a label that there is not.
void add_to(AxisCount& axis, const AxisCount& others);

constexpr bool is_missed(std::uint8_t state) { return (state & (kChecked | kSetAside | kExcluded)) == 0; }

}  // namespace mxcheck
