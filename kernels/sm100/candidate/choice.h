#pragma once
// Where the GEMM runs: the two libraries of this folder are the same sources but for this. And which tile a call gets,
// how many share the work, and the seed of its schedule: by its shape alone, so that a call is the same run each time
// and another shape is another run.

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "kernels/sm100/gemm/emulated.h"

namespace mxcheck_kernels::sm100 {

#ifdef MXCHECK_SM100_ON_CARD
// libmxcheck_sm100_emulated_on_sm90.so: on a Hopper card (emulation/on_sm90). Tensors are the host's nevertheless, and
// scales are packed there.
constexpr const char* kName = "sm100_emulated_on_sm90";
constexpr std::int64_t kMostRows = 1032;
constexpr std::int64_t kMostCols = 1032;
constexpr std::int64_t kMostUnits = 66;  // an H100 has 132 SMs, and a pair has two
constexpr bool kEverySchedule = true;    // delays are real time here: one call in three has them
#else
// libmxcheck_sm100_emulated.so: on the CPU (emulation/sm100). Larger products run as well, but the emulation takes
// about a millisecond for each instruction of a tensor core: what a gate asks for is to end while one waits. Every tile
// still has several others beside it, along rows and columns.
constexpr const char* kName = "sm100_emulated";
constexpr std::int64_t kMostRows = 264;
constexpr std::int64_t kMostCols = 264;
constexpr std::int64_t kMostUnits = 2;  // that none does another's tiles; a second core is not used
constexpr bool kEverySchedule = false;  // random ones alone: late and early operations are in each
#endif

struct MatmulShape {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t groups = 1;
  bool by_rows = false;
  bool by_depth = false;
};

// Weyl's sequence through a finalizer (splitmix64): any shape's bits reach all bits of the seed.
constexpr std::uint64_t seed_of(const MatmulShape& s) {
  std::uint64_t seed = s.by_rows ? 1 : s.by_depth ? 2 : 0;
  for (const std::int64_t value : {s.m, s.n, s.k, s.groups}) {
    seed += static_cast<std::uint64_t>(value) + 0x9E3779B97F4A7C15;
    seed = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9;
    seed = (seed ^ seed >> 27) * 0x94D049BB133111EB;
    seed ^= seed >> 31;
  }
  return seed;
}

// Pairs where a group has more rows than one CTA's tile has; no wider than whole 64 columns of D. Any of the widths
// that are left is right, and the seed picks one: a gate's shapes meet each of them.
constexpr mxcheck::sm100::gemm::Variant variant_of(const MatmulShape& s) {
  const auto tiles = [](std::int64_t extent, std::int64_t tile) { return (extent + tile - 1) / tile; };
  const std::uint64_t seed = seed_of(s);
  const std::int64_t rows = s.by_rows ? tiles(s.m, s.groups) : s.m;
  mxcheck::sm100::gemm::Variant v;
  v.cta_group = s.n > 64 && rows > 128 ? 2 : 1;
  const int least = v.cta_group;  // of 64 columns: there is no pair for 64
  const int most = static_cast<int>(std::clamp<std::int64_t>(tiles(s.n, 64), 1, 4));
  v.n = 64 * (least + static_cast<int>(seed % static_cast<std::uint64_t>(most - least + 1)));
  // One shows stages and accumulators that are used again; others, that none does another's tiles.
  const std::int64_t work = tiles(s.m, 128 * v.cta_group) * tiles(s.n, v.n);
  v.units = work > 1 && seed >> 32 & 1U ? static_cast<unsigned>(std::min(work, kMostUnits)) : 1;
  return v;
}

}  // namespace mxcheck_kernels::sm100
