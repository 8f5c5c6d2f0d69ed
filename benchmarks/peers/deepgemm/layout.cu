#include "benchmarks/peers/deepgemm/kernels.h"

namespace mxcheck_peers::deepgemm {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 2048;

__device__ std::int64_t first() { return std::int64_t{blockIdx.x} * kThreads + threadIdx.x; }
__device__ std::int64_t stride() { return std::int64_t{gridDim.x} * kThreads; }

__global__ void scales_kernel(const float* from, float* to, std::int64_t matrices, std::int64_t rows,
                              std::int64_t blocks) {
  const std::int64_t padded = (rows + 3) / 4 * 4;
  for (std::int64_t i = first(); i < matrices * blocks * padded; i += stride()) {
    const std::int64_t row = i % padded;
    const std::int64_t block = i / padded % blocks;
    const std::int64_t matrix = i / padded / blocks;
    to[i] = row < rows ? from[(matrix * rows + row) * blocks + block] : 0.0F;
  }
}

// By one thread: groups are few.
__global__ void check_kernel(const __grid_constant__ GroupsJob job) {
  const bool counts = job.kind == Kind::masked;
  const std::int64_t values = job.groups + (counts ? 0 : 1);
  const char* message = nullptr;
  std::int64_t at = 0;
  *job.status = MXCHECK_INVALID;
  for (; at < values && message == nullptr; ++at) {
    const std::int64_t value = job.offsets[at];
    if (counts) {
      if (value < 0 || value > job.end) message = "counts[index] must be 0 to the capacity of a group";
    } else if (at == 0 ? value != 0 : value < job.offsets[at - 1] || (at == job.groups && value != job.end)) {
      message = "offsets must begin with 0, not descend, and end with what they divide";
    } else if (value % job.multiple != 0) {
      *job.status = MXCHECK_UNSUPPORTED;
      message = "DeepGEMM takes groups of multiples of 128 rows, or of 128 columns along depth";
    }
  }
  if (message == nullptr) *job.status = MXCHECK_OK;
  if (message == nullptr || job.report == nullptr) return;
  job.report->status = *job.status;
  job.report->index = at - 1, job.report->value = job.offsets[at - 1];
  int i = 0;
  for (; message[i] != '\0'; ++i) job.report->message[i] = message[i];
  job.report->message[i] = '\0';
}

__global__ void groups_kernel(const __grid_constant__ GroupsJob job) {
  const bool right = *job.status == MXCHECK_OK;
  const std::int64_t values = job.kind == Kind::rows ? job.end : job.groups;
  for (std::int64_t i = first(); i < values; i += stride()) {
    std::int32_t value = job.kind == Kind::rows ? -1 : 0;
    if (right && job.kind == Kind::rows) {
      for (value = 0; job.offsets[value + 1] <= i;) ++value;
    } else if (right) {
      value =
          static_cast<std::int32_t>(job.kind == Kind::masked ? job.offsets[i] : job.offsets[i + 1] - job.offsets[i]);
    }
    job.to[i] = value;
  }
}

__global__ void regroup_kernel(const __grid_constant__ RegroupJob job) {
  if (*job.status != MXCHECK_OK) return;
  const std::int64_t words = job.k / 16;
  for (std::int64_t i = first(); i < job.rows * words; i += stride()) {
    const std::int64_t row = i / words;
    const std::int64_t column = i % words * 16;
    std::int64_t group = 0;
    while (job.offsets[group + 1] <= column) ++group;
    const std::int64_t begin = job.offsets[group];
    const std::int64_t depth = job.offsets[group + 1] - begin;
    const std::int64_t at = begin * job.rows + row * depth + column - begin;
    static_cast<uint4*>(job.to)[at / 16] = static_cast<const uint4*>(job.from)[i];
  }
}

}  // namespace

cudaError_t launch_scales(const float* from, float* to, std::int64_t matrices, std::int64_t rows, std::int64_t blocks,
                          cudaStream_t stream) {
  scales_kernel<<<kBlocks, kThreads, 0, stream>>>(from, to, matrices, rows, blocks);
  return cudaGetLastError();
}

cudaError_t launch_groups(const GroupsJob& job, cudaStream_t stream) {
  check_kernel<<<1, 1, 0, stream>>>(job);
  groups_kernel<<<kBlocks / 8, kThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

cudaError_t launch_regroup(const RegroupJob& job, cudaStream_t stream) {
  regroup_kernel<<<kBlocks, kThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

}  // namespace mxcheck_peers::deepgemm
