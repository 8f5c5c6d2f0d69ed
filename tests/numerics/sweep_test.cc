#include "numerics/sweep.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace mxcheck {
namespace {

TEST(Sweep, visits_every_pattern_once) {
  constexpr std::uint64_t kEnd = (std::uint64_t{3} << 20) + 7;  // three pieces and a rest
  for (const unsigned threads : {1U, 2U, 5U}) {
    std::vector<std::atomic<std::uint8_t>> visits(kEnd);
    const SweepResult result = sweep(5, kEnd, threads, [&](std::uint32_t pattern) { return visits[pattern]++ == 0; });
    EXPECT_EQ(result.checked, kEnd - 5);
    EXPECT_EQ(result.mismatches, 0U);
    EXPECT_EQ(visits[4], 0);
    EXPECT_TRUE(std::all_of(visits.begin() + 5, visits.end(), [](const auto& v) { return v == 1; }));
  }
}

TEST(Sweep, reports_the_count_and_the_lowest_and_highest_mismatch_whatever_the_threads) {
  for (const unsigned threads : {1U, 2U, 7U}) {
    const SweepResult result = sweep(0, std::uint64_t{4} << 20, threads, [](std::uint32_t pattern) {
      return pattern != 0x00100001 && pattern != 0x003FFFFF && pattern != 0x00180000;
    });
    EXPECT_EQ(result.mismatches, 3U);
    EXPECT_EQ(result.first, 0x00100001U);
    EXPECT_EQ(result.last, 0x003FFFFFU);
  }
}

TEST(Sweep, reaches_the_last_pattern_of_all) {
  const SweepResult result = sweep(kAllPatterns - 3, kAllPatterns, 2, [](std::uint32_t p) { return p != 0xFFFFFFFF; });
  EXPECT_EQ(result.checked, 3U);
  EXPECT_EQ(result.first, 0xFFFFFFFFU);
}

TEST(Sweep, of_nothing_checks_nothing) {
  EXPECT_EQ(sweep(7, 7, 2, [](std::uint32_t) { return false; }).checked, 0U);
}

TEST(Sweep, throws_what_a_check_throws) {
  const auto check = [](std::uint32_t pattern) -> bool {
    if (pattern == 0x00200003) throw std::runtime_error("from the check");
    return true;
  };
  EXPECT_THROW(sweep(0, std::uint64_t{4} << 20, 3, check), std::runtime_error);
}

}  // namespace
}  // namespace mxcheck
