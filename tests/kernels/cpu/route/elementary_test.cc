// exp and log1p of the CPU library's routers are correctly rounded: a sample of their domains on every SIMD target, and
// what is nearest to the middle between two FP32 numbers.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/cpu/route/elementary.h"
#include "numerics/elementary/elementary.h"
#include "tests/kernels/cpu/simd_targets.h"

namespace mxcheck {
namespace {

using Of = void (*)(const float*, float*, std::int64_t);

void expect_equal(Of of_all, float (*model)(float), const std::vector<float>& arguments) {
  std::vector<float> expected(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) expected[i] = model(arguments[i]);
  for (const std::int64_t target : simd_targets()) {
    const UseSimdTarget use(target);
    std::vector<float> got(arguments.size());
    of_all(arguments.data(), got.data(), static_cast<std::int64_t>(arguments.size()));
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(expected[i]))
          << simd_target_name(target) << ": " << std::hexfloat << arguments[i];
    }
  }
}

std::vector<float> every(std::uint32_t first, std::uint32_t last, std::uint32_t step) {
  std::vector<float> x;
  for (std::uint64_t bits = first; bits <= last; bits += step)
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  x.push_back(std::bit_cast<float>(last));
  return x;
}

TEST(CpuRouteElementary, exp_is_correctly_rounded) {
  expect_equal(mxcheck_kernels::cpu::exp_of_all, exp_rn, every(0x80000000, 0xFF800000, 9973));
  // exp(-n 2^-25) lies next to the middle of two numbers for odd n; subnormal results and their end at -104.
  expect_equal(mxcheck_kernels::cpu::exp_of_all, exp_rn, every(0xB2FFFF00, 0xB3000100, 1));
  std::vector<float> near_one;
  for (int n = 1; n < 4000; ++n) near_one.push_back(-static_cast<float>(n) * 0x1p-25F);
  expect_equal(mxcheck_kernels::cpu::exp_of_all, exp_rn, near_one);
  expect_equal(mxcheck_kernels::cpu::exp_of_all, exp_rn, every(0xC2AE0000, 0xC2D10000, 7));
}

TEST(CpuRouteElementary, log1p_is_correctly_rounded) {
  expect_equal(mxcheck_kernels::cpu::log1p_of_all, log1p_rn, every(0, 0x3F800000, 4999));
  std::vector<float> small;
  for (int n = 1; n < 4000; ++n) small.push_back(static_cast<float>(n) * 0x1p-24F);
  expect_equal(mxcheck_kernels::cpu::log1p_of_all, log1p_rn, small);
}

// The nearest of all arguments to the middle between two results: within 2^-51 (log1p's first: 2^-64).
TEST(CpuRouteElementary, hardest_cases_are_correctly_rounded) {
  const auto floats = [](std::initializer_list<std::uint32_t> all) {
    std::vector<float> x;
    for (const std::uint32_t bits : all) x.push_back(std::bit_cast<float>(bits));
    return x;
  };
  expect_equal(mxcheck_kernels::cpu::exp_of_all, exp_rn, floats({0xC16912CD, 0xBBF0EDF1, 0xBAE0E25C, 0xB3000000}));
  expect_equal(mxcheck_kernels::cpu::log1p_of_all, log1p_rn,
               floats({0x35400003, 0x3EFD81AD, 0x3710001B, 0x3770004B, 0x3EBE9143, 0x3DDBFEC3, 0x36DEDACE}));
}

// The arguments that the vector code cannot decide are rare; they are tested here directly.
TEST(CpuRouteElementary, hard_cases_are_correctly_rounded) {
  for (const float x : every(0x80000000, 0xC2D00000, 99991))
    ASSERT_EQ(mxcheck_kernels::cpu::exp_hard(x), exp_rn(x)) << x;
  for (const float u : every(0, 0x3F800000, 99991)) ASSERT_EQ(mxcheck_kernels::cpu::log1p_hard(u), log1p_rn(u)) << u;
}

}  // namespace
}  // namespace mxcheck
