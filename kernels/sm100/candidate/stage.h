#pragma once
// Operands and scales in the form that TMA and tcgen05 read, in the workspace; and what is to be right of a call beside
// its bits: no finding of the emulation, and no output written where there is one.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>

#include "emulation/sm100/launch.h"
#include "kernels/candidate.h"
#include "kernels/common/arguments.h"
#include "kernels/common/refusal.h"
#include "kernels/sm100/candidate/matmul.h"
#include "kernels/sm100/gemm/emulated.h"
#include "kernels/sm100/gemm/pack.h"

namespace mxcheck_kernels::sm100 {

// Where the GEMM runs: the two libraries of this folder are the same sources but for this. And which tile a call gets,
// how many share the work, and the seed of its schedule: by its shape alone, so that a call is the same run each time
// and another shape is another run.

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
// that are left is right, and the seed picks one: a gate's shapes meet each of them. NVFP4 has fewer: the widest pair,
// or a CTA and 64 or 128 columns.
constexpr mxcheck::sm100::gemm::Variant variant_of(
    const MatmulShape& s, mxcheck::sm100::gemm::Operands operands = mxcheck::sm100::gemm::Operands::scaled) {
  const auto tiles = [](std::int64_t extent, std::int64_t tile) { return (extent + tile - 1) / tile; };
  const std::uint64_t seed = seed_of(s);
  const std::int64_t rows = s.by_rows ? tiles(s.m, s.groups) : s.m;
  mxcheck::sm100::gemm::Variant v;
  v.cta_group = s.n > 64 && rows > 128 ? 2 : 1;
  const int least = v.cta_group;  // of 64 columns: there is no pair for 64
  const int most = static_cast<int>(std::clamp<std::int64_t>(tiles(s.n, 64), 1, 4));
  v.n = 64 * (least + static_cast<int>(seed % static_cast<std::uint64_t>(most - least + 1)));
  if (operands == mxcheck::sm100::gemm::Operands::nvfp4) v.n = v.cta_group == 2 ? 256 : v.n == 64 ? 64 : 128;
  // One shows stages and accumulators that are used again; others, that none does another's tiles.
  const std::int64_t work = tiles(s.m, 128 * v.cta_group) * tiles(s.n, v.n);
  v.units = work > 1 && seed >> 32 & 1U ? static_cast<unsigned>(std::min(work, kMostUnits)) : 1;
  return v;
}

// --- findings
//
// The verdict that an emulated kernel did nothing that Blackwell forbids.

// DEVICE_ERROR with the first finding, where there is one: what Blackwell forbids makes a result worth nothing, right
// as its bits may be.
inline void require_clean(const char* kernel, const mxcheck::emulation::sm100::LaunchResult& result) {
  if (result.completed && result.findings.empty()) return;
  std::string text = std::string("emulation of ") + kernel + ": ";
  text += result.findings.empty() ? "it did not come to its end"
                                  : mxcheck::emulation::sm100::text_of(result.findings.front());
  if (result.findings.size() > 1) text += " (and " + std::to_string(result.findings.size() - 1) + " more)";
  std::ranges::replace(text, '\n', ' ');
  throw Refusal(MXCHECK_DEVICE_ERROR, text);
}

// --- outputs
//
// A copy of an output, made before a kernel writes it and put back unless keep_new(): a call that fails writes nothing.

class Saved {
 public:
  // `memory` has room for the output's bytes.
  Saved(const Checked& output, std::byte* memory) : output_(output), memory_(memory) {
    if (output.bytes != 0) std::memcpy(memory_, output_.data, output_.bytes);
  }
  Saved(const Saved&) = delete;
  Saved& operator=(const Saved&) = delete;
  ~Saved() {
    if (!kept_ && output_.bytes != 0) std::memcpy(output_.data, memory_, output_.bytes);
  }
  void keep_new() { kept_ = true; }

 private:
  Checked output_;
  std::byte* memory_;
  bool kept_ = false;
};

// --- the workspace
//
// The workspace of a matmul holds scales in chunks, copies of operands that TMA cannot read where they are, offsets of
// such copies, and what D held before, which D gets back if the emulation finds something.
//
// Where operands lie and where groups end is not known when the workspace is asked for, so that there is always room
// for the copies. Extents are 64 bits; each product is checked.

struct Workspace {
  std::int64_t pitch = 0;  // bytes of a row of the copies: those of whole mma, 32 each, one or more
  std::uint64_t a_at = 0;
  std::uint64_t b_at = 0;
  std::uint64_t scales_a_at = 0;
  std::uint64_t scales_b_at = 0;
  std::uint64_t offsets_at = 0;
  std::uint64_t d_at = 0;
  std::uint64_t bytes = 0;
};

// By the shapes alone: data may be null. Throws Refusal: INVALID where shapes are none, UNSUPPORTED where a coordinate
// would need more than the 31 bits that TMA has for it.
Workspace plan_workspace(const mxcheck_call& call);

// --- staging

// How every kernel of a call is emulated.
inline mxcheck::emulation::sm100::LaunchOptions options_of(const MatmulShape& shape) {
  using Schedule = mxcheck::emulation::sm100::Schedule;
  constexpr Schedule kSchedules[] = {Schedule::random, Schedule::eager, Schedule::lazy};
  const std::uint64_t seed = seed_of(shape);
  return {.schedule = kSchedules[kEverySchedule ? seed % 3 : 0], .seed = seed, .strict = true};
}

struct Staging {
  const MatmulTensors& x;
  MatmulShape shape;
  mxcheck::sm100::gemm::Encoding encoding;
  Workspace plan;
  std::byte* workspace;
  mxcheck::sm100::scales::Groups depth;  // of k: one where there are none

  template <class T>
  [[nodiscard]] T* at(std::uint64_t byte) const {
    return reinterpret_cast<T*>(workspace + byte);
  }
};

Staging make_staging(const MatmulTensors& x, const MatmulShape& shape, const Workspace& plan, void* workspace);

// Packs the scales of both operands, and copies the operands where they cannot be read in place; groups of k begin
// elsewhere in the copies. Of a problem that is otherwise complete.
void stage(const Staging& s, mxcheck::sm100::gemm::Problem& g);

}  // namespace mxcheck_kernels::sm100
