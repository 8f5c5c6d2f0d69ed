#pragma once
// exp and log1p of single elements where the vectors of elementary_inl.h cannot decide the rounding: 100 bits instead
// of 42. Correctly rounded for all FP32 arguments of their domains.

#include <cstdint>

namespace mxcheck_kernels::cpu {

float exp_hard(float x);    // -104 <= x <= 0
float log1p_hard(float u);  // 0 <= u <= 1

// The vectors' functions over arrays, for sweeps: every x <= 0 with -Inf, and every u in [0, 1].
void exp_of_all(const float* x, float* y, std::int64_t count);
void log1p_of_all(const float* u, float* y, std::int64_t count);

}  // namespace mxcheck_kernels::cpu
