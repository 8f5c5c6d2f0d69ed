#pragma once
// The gradient's norm and AdamW: docs/training.md, "Update". The device decides whether there is an update.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/train/elementwise/routes.h"
#include "kernels/sm90/train/elementwise/tensors.h"

namespace mxcheck_kernels::sm90 {

// The numbers that the host gives for a step. On the device.
struct StepInput {
  float rate = 0;
  float correction1 = 1;  // RN(1 - beta1^t)
  float correction2 = 1;
};

// The results of a step, but for digests. On the device.
struct StepResult {
  float loss = 0;
  float balance_loss = 0;
  float norm = 0;
  float clip = 1;  // what gradients are multiplied by where `clips`
  std::int32_t clips = 0;
  std::int32_t updated = 0;
  std::int32_t layers = 0;  // whose routers' logits were finite, up to the first where they were not
};

struct StepEndJob {
  const RouterOverflow* overflow = nullptr;
  const float* loss_sum = nullptr;
  float tokens = 1;
  const float* balance = nullptr;  // of each layer
  int layers = 0;
  const float* squares = nullptr;  // of each tensor, at its offset in `sums`; null: an evaluation
  TensorTable sums;
  float limit = 0;
  StepResult* result = nullptr;
};
// Loss, balance loss, norm and what is decided by it. NaN all where a router's logits were not finite.
cudaError_t launch_step_end(const StepEndJob& job, cudaStream_t stream);

struct AdamWJob {
  TensorTable table;
  const StepInput* input = nullptr;
  const StepResult* result = nullptr;
  float beta1 = 0;
  float beta2 = 0;
  float epsilon = 0;
  float decay = 0;
  bool bf16_moments = false;
  const float* gradients = nullptr;
  float* weights = nullptr;
  float* first = nullptr;
  float* second = nullptr;
};
cudaError_t launch_adamw(const AdamWJob& job, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
