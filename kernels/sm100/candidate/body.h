#pragma once
// Where the GEMM runs: the two libraries of this folder are the same sources but for this.

#include <cstdint>

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

}  // namespace mxcheck_kernels::sm100
