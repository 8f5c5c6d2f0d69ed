#pragma once
// The factor that attention's scores are multiplied by.

#include <cmath>

namespace mxcheck_kernels::sm90 {

// RN(1 / sqrt(head_width)): that the roundings to FP64 before change nothing is a fact about each width up to 8192
// (tests/kernels/sm90/train/numbers_test.cc).
inline float score_scale(int head_width) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_width)));
}

}  // namespace mxcheck_kernels::sm90
