#pragma once
// FP32 numbers as words, every MXCHECK_ROUTE_STEP-th of them.

#include <bit>
#include <cstdint>

namespace mxcheck_kernels::sm90::test {

inline constexpr std::uint64_t kStep = MXCHECK_ROUTE_STEP;

inline std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

}  // namespace mxcheck_kernels::sm90::test
