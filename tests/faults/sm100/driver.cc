// One tile of the Blackwell GEMM, built with or without a fault, under one schedule after the other until one sees it.
//
//   sm100_fault_NAME [--unchecked | --all] [--text]
//   NAME <tab> seen by <tab> schedule <tab> seconds
//
// "seen by": hazards of emulation/sm100/finding.h; `bits`, outputs that are not the reference's; `outside`, bytes
// written that are not D's; `refused`, no parameters were made; `-`, nothing. --unchecked: without the shadow state, so
// what bits, deadlocks and impossible instructions alone show. --all: every schedule, a line each. --text: findings, to
// stderr.
//
// FAULT, TILE (instances.h) and CASES (dense, rows, depth, tall, gathered) are macros.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "kernels/sm100/gemm/emulated_inl.h"
#include "kernels/sm100/gemm/instances.h"
#include "tests/kernels/sm100/gemm/comparison.h"

namespace mxcheck::sm100::gemm {
namespace {

using emulation::sm100::LaunchOptions;

#define TEXT_OF(x) #x
#define NAME_OF(x) TEXT_OF(x)

constexpr std::int64_t kGuard = std::int64_t{1} << 20;  // bytes before and after D and C
constexpr char kOutside[] = "outside of D: byte ";

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

// Several tiles a CTA, so that rings and accumulators come round more than twice; ragged rows, columns and k; A and B
// of different formats.
Case cases() {
  constexpr Operands kOperands = TILE::kOperands;
  constexpr bool kFp8 = kOperands != Operands::half;
  const std::int64_t n = 2 * TILE::kN + 74;
  const std::string name = NAME_OF(CASES);
  if (name == "rows") {
    return {.operands = kOperands,
            .m = 420,
            .n = 200,
            .k = 160,
            .grouping = Grouping::rows,
            .offsets = {0, 0, 1, 131, 131, 420},
            .e5m2_b = kFp8,
            .bf16 = true,
            .adds = true,
            .alpha = -1.7F,
            .specials = kFp8,
            .seed = 5};
  }
  if (name == "gathered") {
    return {.operands = kOperands,
            .m = 420,
            .n = 200,
            .k = 272,
            .grouping = Grouping::rows,
            .offsets = {0, 0, 1, 131, 131, 420},
            .rows_a = 600,
            .e5m2_a = kFp8,
            .adds = true,
            .alpha = 0.3F,
            .seed = 7};
  }
  if (name == "depth") {
    return {.operands = kOperands,
            .m = 140,
            .n = 200,
            .k = 496,
            .grouping = Grouping::depth,
            .offsets = {0, 32, 32, 448, 496},
            .e5m2_a = kFp8,
            .adds = true,
            .alpha = 0.3F,
            .seed = 8};
  }
  // More rows than a band of the schedule has.
  if (name == "tall") return {.operands = kOperands, .m = 8 * TILE::kM + 44, .n = n, .k = 32, .seed = 6};
  return {.operands = kOperands,
          .m = TILE::kM + 44,
          .n = n,
          .k = 464,
          .e5m2_a = kFp8,
          .adds = true,
          .alpha = 0.3F,
          .seed = 3};
}

std::string seen_by(const Outcome& o) {
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
  // Two CTAs where a tile of one lies between tiles of the other: what one writes into the other's would else be
  // written again later.
  const unsigned units = c.grouping == Grouping::rows ? 2 : 1;
  const auto start = std::chrono::steady_clock::now();
  std::string seen, schedule;
  const auto line = [&] {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf("%s\t%s\t%s\t%.1f\n", FAULT, seen.empty() ? "-" : seen.c_str(), schedule.c_str(), seconds.count());
    std::fflush(stdout);
  };
  for (const LaunchOptions& o : schedules(checks)) {
    const Outcome outcome = compare(c, {TILE::kCtaGroup, TILE::kN, units}, o);
    seen = seen_by(outcome);
    schedule = std::string(name_of(o.schedule));
    if (o.schedule == emulation::sm100::Schedule::random) schedule += " " + std::to_string(o.seed);
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
  if (d.touched() != 0) out.error = kOutside + std::to_string(d.touched());
  return out;
}

}  // namespace mxcheck::sm100::gemm

int main(int argc, char** argv) {
  const auto has = [&](const char* option) {
    return std::any_of(argv + 1, argv + argc, [&](const char* a) { return std::strcmp(a, option) == 0; });
  };
  return mxcheck::sm100::gemm::run(!has("--unchecked"), has("--all"), has("--text"));
}
