#pragma once
// Micro-kernels: a few instructions, run under every schedule, and what is found in them.
//
//   expect_right({.shared_bytes = 8192}, [] { const Cta cta(kWidth); ...; });
//   expect_fault({.shared_bytes = 8192}, Hazard::not_complete, {"warp 1", "column 0, lane 32", "a commit"}, [] { ...
//   });

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "emulation/sm100/launch.h"

namespace mxcheck::sm100::test {

using emulation::sm100::Finding;
using emulation::sm100::Hazard;
using emulation::sm100::LaunchOptions;
using emulation::sm100::LaunchResult;
using emulation::sm100::LaunchShape;
using Schedule = emulation::sm100::Schedule;
using Kernel = std::function<void()>;

inline constexpr std::uint64_t kSeeds = 20;

inline std::string text_of(const LaunchResult& result) {
  std::string text = result.completed ? "" : "not completed\n" + result.dump;
  for (const Finding& f : result.findings) text += emulation::sm100::text_of(f) + "\n";
  return text;
}

inline std::vector<LaunchOptions> all_schedules() {
  std::vector<LaunchOptions> all{{.schedule = Schedule::eager}, {.schedule = Schedule::lazy}};
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) all.push_back({.schedule = Schedule::random, .seed = seed});
  return all;
}

inline std::string name_of(const LaunchOptions& options) {
  return std::string(emulation::sm100::name_of(options.schedule)) + ", seed " + std::to_string(options.seed);
}

// No findings under any schedule; `check` looks at what the kernel left.
inline void expect_right(
    const LaunchShape& shape, const Kernel& kernel, const std::function<void()>& check = [] {}) {
  for (const LaunchOptions& options : all_schedules()) {
    const LaunchResult result = emulation::sm100::launch(shape, options, kernel);
    ASSERT_TRUE(result.completed && result.findings.empty()) << name_of(options) << "\n" << text_of(result);
    check();
    ASSERT_FALSE(testing::Test::HasFailure()) << name_of(options);
  }
}

// The hazard is found under that schedule, in one finding that has all of `words` and says what would be right.
inline void expect_fault_under(const LaunchOptions& options, const LaunchShape& shape, Hazard hazard,
                               std::initializer_list<std::string_view> words, const Kernel& kernel) {
  const LaunchResult result = emulation::sm100::launch(shape, options, kernel);
  const bool found = std::ranges::any_of(result.findings, [&](const Finding& f) {
    const std::string text = emulation::sm100::text_of(f);
    return f.hazard == hazard && !f.who.empty() && !f.instruction.empty() && !f.what.empty() && !f.right.empty() &&
           std::ranges::all_of(words, [&](std::string_view w) { return text.find(w) != std::string::npos; });
  });
  std::string wanted(name_of(hazard));
  for (const std::string_view w : words) wanted += " \"" + std::string(w) + "\"";
  EXPECT_TRUE(found) << name_of(options) << ": no " << wanted << " among\n" << text_of(result);
}

// Under the two schedules that take warps in turn: what is found does not hang on when operations happen.
inline void expect_fault(const LaunchShape& shape, Hazard hazard, std::initializer_list<std::string_view> words,
                         const Kernel& kernel, LaunchOptions options = {}) {
  for (const Schedule schedule : {Schedule::eager, Schedule::lazy}) {
    options.schedule = schedule;
    expect_fault_under(options, shape, hazard, words, kernel);
  }
}

}  // namespace mxcheck::sm100::test
