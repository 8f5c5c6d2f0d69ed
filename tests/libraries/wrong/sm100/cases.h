#pragma once
// A fault's tile and case, for whatever runs it: TILE (tile.h) and CASES (dense, rows, depth, tall, gathered) are
// macros.

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "kernels/sm100/gemm/tile.h"
#include "tests/kernels/sm100/gemm/comparison.h"

namespace mxcheck::sm100::gemm {

#define TEXT_OF(x) #x
#define NAME_OF(x) TEXT_OF(x)

inline constexpr char kOutside[] = "outside of D: ";

constexpr Grouping grouping_of(std::string_view cases) {
  if (cases == "rows" || cases == "gathered") return Grouping::rows;
  return cases == "depth" ? Grouping::depth : Grouping::dense;
}
inline constexpr Grouping kCasesGrouping = grouping_of(NAME_OF(CASES));

// Several tiles a CTA, so that rings and accumulators come round more than twice; ragged rows, columns and k; A and B
// of different formats.
inline Case cases() {
  constexpr Operands kOperands = TILE::kOperands;
  constexpr bool kFp8 = kOperands != Operands::half;
  const std::int64_t n = 2 * TILE::kN + 74;
  constexpr std::string_view kName = NAME_OF(CASES);
  Case c{.operands = kOperands, .grouping = kCasesGrouping, .adds = true, .alpha = 0.3F};
  if (kName == "rows") {
    c.m = 420, c.n = 200, c.k = 160, c.offsets = {0, 0, 1, 131, 131, 420}, c.seed = 5;
    c.e5m2_b = kFp8, c.bf16 = true, c.alpha = -1.7F, c.specials = kFp8;
  } else if (kName == "gathered") {
    c.m = 420, c.n = 200, c.k = 272, c.offsets = {0, 0, 1, 131, 131, 420}, c.seed = 7;
    c.rows_a = 600, c.e5m2_a = kFp8;
  } else if (kName == "depth") {
    c.m = 140, c.n = 200, c.k = 496, c.offsets = {0, 32, 32, 448, 496}, c.e5m2_a = kFp8, c.seed = 8;
  } else if (kName == "tall") {  // more rows than a band of the schedule has
    c = {.operands = kOperands, .m = 8 * TILE::kM + 44, .n = n, .k = 32, .seed = 6};
  } else {
    c.m = TILE::kM + 44, c.n = n, c.k = 464, c.e5m2_a = kFp8, c.seed = 3;
  }
  if (kOperands == Operands::nvfp4) {  // rows of as many bytes
    c.k *= 2;
    if (kName == "depth") std::ranges::for_each(c.offsets, [](std::int64_t& k) { k *= 2; });
  }
  return c;
}

// Two CTAs where a tile of one lies between tiles of the other: what one writes into the other's would else be written
// again later.
inline unsigned units_of(const Case& c) { return c.grouping == Grouping::rows ? 2 : 1; }

inline std::string seen_by(const Outcome& o) {
  std::set<std::string> seen;
  const std::string& error = o.emulated.error;
  if (error.starts_with(kOutside))
    seen.insert("outside");
  else if (!error.empty())
    seen.insert("refused");
  for (const auto& finding : o.emulated.result.findings) {
    seen.insert(std::string(emulation::sm100::name_of(finding.hazard)));
  }
  if (o.emulated.result.completed && o.differing > 0) seen.insert("bits");
  std::string text;
  for (const std::string& s : seen) text += (text.empty() ? "" : " ") + s;
  return text;
}

inline std::string name_of(const emulation::sm100::LaunchOptions& o) {
  const std::string name(emulation::sm100::name_of(o.schedule));
  return o.schedule == emulation::sm100::Schedule::random ? name + " " + std::to_string(o.seed) : name;
}

}  // namespace mxcheck::sm100::gemm
