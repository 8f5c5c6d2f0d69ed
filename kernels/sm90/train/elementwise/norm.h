#pragma once
// RMS normalization and its gradient, with the additions to the residual stream before and after: docs/training.md,
// "Forward" and "Backward". Matrices are rows x width, row-major; width is a multiple of 8, to kMostWidth.

#include <cstdint>

#include <cuda_runtime.h>

namespace mxcheck_kernels::sm90 {

inline constexpr int kMostWidth = 8192;

struct NormJob {
  const float* x = nullptr;
  const std::uint16_t* added = nullptr;  // null: nothing is added to x
  float* sum = nullptr;                  // RN(x + added), where there is `added`
  const float* gain = nullptr;
  std::uint16_t* y = nullptr;
  float* scale = nullptr;  // r of each row
  std::int64_t rows = 0;
  int width = 0;
};
cudaError_t launch_norm(const NormJob& job, cudaStream_t stream);

struct NormBackwardJob {
  const float* dy = nullptr;
  const std::uint16_t* dy_added = nullptr;  // dy is RN(dy_added + dy) where it is not null
  const float* x = nullptr;
  const float* scale = nullptr;
  const float* gain = nullptr;
  bool adds = false;                 // dx = RN(dx + the gradient); else dx is the gradient
  float* dx = nullptr;               // may not be dy
  std::uint16_t* rounded = nullptr;  // BF16(dx)
  float* dgain = nullptr;            // width
  float* partials = nullptr;         // norm_partials(rows, width) of scratch
  std::int64_t rows = 0;
  int width = 0;
};
std::int64_t norm_partials(std::int64_t rows, int width);
// dx and its rounding.
cudaError_t launch_norm_backward(const NormBackwardJob& job, cudaStream_t stream);
// dgain.
cudaError_t launch_norm_gain(const NormBackwardJob& job, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
