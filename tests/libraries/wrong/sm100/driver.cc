// One tile of the Blackwell GEMM, built with or without a fault, under one schedule after the other until one sees it.
//
//   sm100_fault_NAME [--unchecked | --all] [--text]
//   NAME <tab> seen by <tab> schedule <tab> seconds
//
// "seen by": hazards of emulation/sm100/launch.h; `bits`, outputs that are not the reference's; `outside`, bytes
// written that are not D's; `refused`, no parameters were made; `-`, nothing. --unchecked: without the shadow state, so
// what bits, deadlocks and impossible instructions alone show. --all: every schedule, a line each. --text: findings, to
// stderr.
//
// FAULT, TILE (tile.h) and CASES (dense, rows, depth, tall, gathered) are macros.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "kernels/sm100/gemm/emulated_inl.h"
#include "tests/libraries/wrong/sm100/cases.h"

namespace mxcheck::sm100::gemm {
namespace {

using emulation::sm100::LaunchOptions;

constexpr std::int64_t kGuard = std::int64_t{1} << 20;  // bytes before and after D and C

// Bytes with others around them that a kernel has no business with.
class Guarded {
 public:
  Guarded(const void* from, std::int64_t bytes) : bytes_(bytes), all_(static_cast<std::size_t>(bytes + 2 * kGuard)) {
    std::fill(all_.begin(), all_.end(), std::uint8_t{0x5C});
    if (from != nullptr) std::memcpy(data(), from, static_cast<std::size_t>(bytes));
  }
  std::uint8_t* data() { return all_.data() + kGuard; }
  // The first byte outside that changed, from the beginning of the data; 0 where none has (byte 0 is inside).
  [[nodiscard]] std::int64_t touched() const {
    for (std::int64_t i = 0; i < bytes_ + 2 * kGuard; ++i) {
      if (i == kGuard) i += bytes_;
      if (i < bytes_ + 2 * kGuard && all_[static_cast<std::size_t>(i)] != 0x5C) return i - kGuard;
    }
    return 0;
  }

 private:
  std::int64_t bytes_;
  std::vector<std::uint8_t> all_;
};

std::vector<LaunchOptions> schedules(bool checks) {
  using S = emulation::sm100::Schedule;
  constexpr std::uint64_t kSteps = 20'000'000;  // some twenty times what the longest case takes
  std::vector<LaunchOptions> all;
  for (const S s : {S::eager, S::lazy}) {
    all.push_back({.schedule = s, .checks = checks, .strict = true, .max_steps = kSteps});
  }
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    all.push_back({.schedule = S::random, .seed = seed, .checks = checks, .strict = true, .max_steps = kSteps});
  }
  return all;
}

int run(bool checks, bool every, bool text) {
  const Case c = cases();
  const auto start = std::chrono::steady_clock::now();
  std::string seen, schedule;
  const auto line = [&] {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf("%s\t%s\t%s\t%.1f\n", FAULT, seen.empty() ? "-" : seen.c_str(), schedule.c_str(), seconds.count());
    std::fflush(stdout);
  };
  for (const LaunchOptions& o : schedules(checks)) {
    const Outcome outcome = compare(c, {TILE::kCtaGroup, TILE::kN, units_of(c)}, o);
    seen = seen_by(outcome);
    schedule = name_of(o);
    if (text && !seen.empty()) std::fprintf(stderr, "%s, %s:%s\n", FAULT, schedule.c_str(), text_of(outcome).c_str());
    if (every) line();
    if (!every && !seen.empty()) break;
  }
  if (seen.empty()) schedule = "-";
  if (!every) line();
  return 0;
}

}  // namespace

// For this tile alone, with D and C among bytes that tell.
Emulated run_emulated(const Problem& problem, const Variant& variant, const LaunchOptions& options) {
  const std::int64_t groups = problem.grouping == Grouping::depth ? problem.groups : 1;
  const std::int64_t bytes = problem.m * problem.n * groups * (problem.bf16 ? 2 : 4);
  Guarded d(problem.d, bytes);
  Guarded c(problem.c, bytes);
  Problem guarded = problem;
  guarded.d = d.data();
  if (problem.c != nullptr) guarded.c = c.data();
  Emulated out = run_tile<TILE>(guarded, variant.units, options);
  std::memcpy(problem.d, d.data(), static_cast<std::size_t>(bytes));
  if (d.touched() != 0) out.error = std::string(kOutside) + "byte " + std::to_string(d.touched());
  return out;
}

}  // namespace mxcheck::sm100::gemm

int main(int argc, char** argv) {
  const auto has = [&](const char* option) {
    return std::any_of(argv + 1, argv + argc, [&](const char* a) { return std::strcmp(a, option) == 0; });
  };
  return mxcheck::sm100::gemm::run(!has("--unchecked"), has("--all"), has("--text"));
}
