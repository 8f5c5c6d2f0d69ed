#include "kernels/sm90/gemm/candidate/call.h"

#include <algorithm>

#include "kernels/sm90/common/report.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kThreads = 256;
constexpr unsigned long long kNone = ~0ULL;

// The numbers of errors: offsets or counts, the number of blocks, then the row index.
__device__ std::int64_t list_size(const CheckJob& job) {
  return job.counts != nullptr ? job.experts : job.offsets != nullptr ? job.experts + 1 : 0;
}

// Every bit set but the status: nothing found yet.
__global__ void look(const __grid_constant__ CheckJob job, CheckResult* result) {
  const std::int64_t me = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  unsigned long long bad = kNone;
  const std::int64_t offsets = list_size(job);
  for (std::int64_t e = me; e < offsets && job.counts != nullptr; e += stride) {
    if (job.counts[e] < 0 || job.counts[e] > job.end) bad = min(bad, static_cast<unsigned long long>(e));
  }
  for (std::int64_t e = me; e < offsets && job.offsets != nullptr; e += stride) {
    const std::int64_t o = job.offsets[e];
    const bool last = e == job.experts;
    const bool wrong =
        (e == 0 ? o != 0 : o < job.offsets[e - 1]) || (last ? o != job.end : o % job.multiple != 0 && o != job.end);
    if (wrong) bad = min(bad, static_cast<unsigned long long>(e));
  }
  const std::int64_t rows = job.index == nullptr ? 0 : job.rows;
  for (std::int64_t i = me; i < rows; i += stride) {
    const std::int32_t row = job.index[i];
    if (row < 0 || row >= job.source_rows) bad = min(bad, static_cast<unsigned long long>(offsets + 1 + i));
  }
  if (bad != kNone) atomicMin(&result->first, bad);
}

// By one block. Offsets that are wrong give wrong starts, which no one reads.
__global__ void count_blocks(const __grid_constant__ CheckJob job, CheckResult* result) {
  __shared__ std::int64_t sums[kThreads];
  const std::int64_t each = (job.experts + kThreads - 1) / kThreads;
  const std::int64_t first = min(threadIdx.x * each, job.experts);
  const std::int64_t last = min(first + each, job.experts);
  const auto blocks = [&](std::int64_t e) { return (job.offsets[e + 1] - job.offsets[e] + job.block - 1) / job.block; };
  std::int64_t sum = 0;
  for (std::int64_t e = first; e < last; ++e) sum += blocks(e);
  sums[threadIdx.x] = sum;
  __syncthreads();
  std::int64_t at = 0;
  for (unsigned i = 0; i < threadIdx.x; ++i) at += sums[i];
  for (std::int64_t e = first; e < last; ++e) {
    job.starts[e] = at;
    at += blocks(e);
  }
  if (threadIdx.x != kThreads - 1) return;
  job.starts[job.experts] = at;
  if (at != job.blocks) atomicMin(&result->first, static_cast<unsigned long long>(job.experts + 1));
}

__global__ void tell(const __grid_constant__ CheckJob job, CheckResult* result) {
  const unsigned long long first = result->first;
  result->status = first == kNone ? MXCHECK_OK : MXCHECK_INVALID;
  if (first == kNone) return;
  const std::int64_t offsets = list_size(job);
  const auto at = static_cast<std::int64_t>(first);
  const char* message = "row index[index] must be a row of a: 0 or more, and less than there are";
  std::int64_t index = at - offsets - 1;
  std::int64_t value = 0;
  if (job.counts != nullptr) {
    index = at, value = job.counts[at];
    message = "counts[index] must be 0 to the capacity of a group: policy.rows divided by the number of groups";
  } else if (at < offsets) {
    index = at, value = job.offsets[at];
    message = "offsets[index] must be at least the one before it";
    if (at == job.experts)
      message = "the last of the offsets must be the end of what they divide, and none may descend";
    if (at == 0) message = "offsets[0] must be 0";
    const bool order = at == 0 ? value == 0 : value >= job.offsets[at - 1];
    if (order && at != job.experts && value != job.end) {
      result->status = MXCHECK_UNSUPPORTED;
      message =
          "groups along depth are offered where each begins at a multiple of 16 bytes: 16 elements of FP8, 8 of BF16";
    }
  } else if (at == offsets && job.block != 0) {
    index = job.experts, value = job.starts[job.experts];
    message = "the groups have value blocks of depth, and the scales another number of columns";
  } else {
    value = job.index[index];
  }
  report_error(job.report, result->status, message, index, value);
}

}  // namespace

cudaError_t launch_check(const CheckJob& job, CheckResult* result, cudaStream_t stream) {
  const cudaError_t e = cudaMemsetAsync(result, 0xFF, sizeof(*result), stream);
  if (e != cudaSuccess) return e;
  const std::int64_t values = std::max(job.experts + 1, job.index == nullptr ? 0 : job.rows);
  const auto blocks = static_cast<unsigned>(std::clamp<std::int64_t>((values + kThreads - 1) / kThreads, 1, 256));
  look<<<blocks, kThreads, 0, stream>>>(job, result);
  if (job.block != 0) count_blocks<<<1, kThreads, 0, stream>>>(job, result);
  tell<<<1, 1, 0, stream>>>(job, result);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
