#include "kernels/sm90/layer/steps/sums.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kThreads = 256;
constexpr int kLevels = 31;

// Parts after the last count as +0, up to a power of two of them. Sums of whole subtrees wait at their level, as the
// digits of a binary counter.
__global__ void __launch_bounds__(kThreads) add(const __grid_constant__ SumsJob job) {
  if (job.header != nullptr && job.header->status != MXCHECK_OK) return;
  const std::int64_t row = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= job.rows) return;
  float waiting[kLevels + 1];
  float sum = 0;
  std::int64_t padded = 1;
  while (padded < job.parts) padded *= 2;
  for (std::int64_t i = 0; i < padded; ++i) {
    sum = i < job.parts ? job.sums[i * job.rows + row] : 0.0F;
    int level = 0;
    for (; (i >> level & 1) != 0; ++level) sum = __fadd_rn(waiting[level], sum);
    waiting[level] = sum;
  }
  job.out[row] = sum;
}

}  // namespace

cudaError_t add_sums(const SumsJob& job, cudaStream_t stream) {
  if (job.rows == 0) return cudaSuccess;
  add<<<static_cast<unsigned>((job.rows + kThreads - 1) / kThreads), kThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
