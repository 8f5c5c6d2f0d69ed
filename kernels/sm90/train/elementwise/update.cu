#include "kernels/sm90/train/elementwise/update.h"

#include <cmath>

#include "kernels/sm90/train/elementwise/numbers.cuh"
#include "kernels/sm90/train/elementwise/tensors.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

__global__ void step_end(const __grid_constant__ StepEndJob job) {
  const float nan = __uint_as_float(0x7FC00000);
  StepResult r;
  const bool overflow = job.overflow->found != 0;
  r.layers = overflow ? job.overflow->layer : job.layers;
  r.loss = overflow ? nan : div(*job.loss_sum, job.tokens);
  for (int l = 0; l < job.layers; ++l) r.balance_loss = add(r.balance_loss, job.balance[l]);
  if (overflow) r.balance_loss = nan;
  if (job.squares != nullptr) {
    float total = 0;
    for (int i = 0; i < job.sums.count; ++i) total = add(total, job.squares[job.sums.entries[i].offset]);
    r.norm = overflow ? nan : __fsqrt_rn(total);
    r.updated = fabsf(r.norm) < INFINITY ? 1 : 0;
    r.clips = r.norm > job.limit ? 1 : 0;
    r.clip = div(job.limit, r.norm);
  }
  *job.result = r;
}

__global__ void __launch_bounds__(kBlockThreads) adamw_block(const __grid_constant__ AdamWJob job) {
  if (job.result->updated == 0) return;
  const TensorBlock at = tensor_block(job.table, blockIdx.x);
  const StepInput in = *job.input;
  const bool clips = job.result->clips != 0;
  const float clip = job.result->clip;
  const auto stored = [&](float moment) { return job.bf16_moments ? widen(to_bf16(moment)) : moment; };
  each_of_block(at, [&](std::int64_t element) {
    const std::int64_t i = at.offset + element;
    const float g = clips ? mul(job.gradients[i], clip) : job.gradients[i];
    const float m = stored(__fmaf_rn(job.beta1, job.first[i], mul(sub(1.0F, job.beta1), g)));
    const float v = stored(__fmaf_rn(job.beta2, job.second[i], mul(sub(1.0F, job.beta2), mul(g, g))));
    const float w = job.weights[i];
    float step = div(div(m, in.correction1), add(__fsqrt_rn(div(v, in.correction2)), job.epsilon));
    if (at.decays) step = add(step, mul(job.decay, w));
    job.first[i] = m;
    job.second[i] = v;
    job.weights[i] = sub(w, mul(in.rate, step));
  });
}

}  // namespace

cudaError_t launch_step_end(const StepEndJob& job, cudaStream_t stream) {
  step_end<<<1, 1, 0, stream>>>(job);
  return cudaGetLastError();
}

cudaError_t launch_adamw(const AdamWJob& job, cudaStream_t stream) {
  adamw_block<<<static_cast<unsigned>(job.table.blocks), kBlockThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
