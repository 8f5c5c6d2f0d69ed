#pragma once
// The coverage of an operation's domain by a run: counts of bins, pairs, triples and layers, and what no case met.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mxcheck {

// The fate of a case: checked; refused as an option that the candidate does not offer; or one that the statement
// says nothing about.
enum class CaseFate : std::uint8_t { checked, refused, not_applicable };

struct BinCount {
  std::string label;
  std::int64_t checked = 0;
  std::int64_t refused = 0;
  std::int64_t not_applicable = 0;
};
struct AxisCount {
  std::string name;
  std::vector<BinCount> bins;
};
// Pairs or triples of bins, or uses of layers; all 0 where they were not asked for.
struct TupleCounts {
  std::int64_t possible = 0;  // that a case can meet
  std::int64_t checked = 0;   // met by a case that was checked
  std::int64_t refused = 0;   // met by refused cases alone, or by such that the statement says nothing about
  std::int64_t excluded = 0;  // that exclude one another, or are too large together for the suite
};
struct CoverageReport {
  std::string operation;
  std::vector<AxisCount> axes;
  TupleCounts pairs;       // of bins of different axes
  TupleCounts triples;     // of bins of the axes that interact; full suite
  AxisCount layers;        // cases at the dimensions of each of production's layers
  TupleCounts layer_uses;  // with each family of variants
  // Bins, uses of layers, and the first of the pairs and triples, that a case can meet and none did.
  std::vector<std::string> missed;
  // Pairs of bins, of variants that are offered, of which the suite has no case: "rows 65536-131072 with cols 64,
  // 65-127".
  std::vector<std::string> without_case;
};

// The state of anything that is to be met: a bin, a pair or a triple of bins, a layer.

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
