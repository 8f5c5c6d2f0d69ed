#include "kernels/sm90/gemm/call/check.h"

#include <algorithm>

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kThreads = 256;
constexpr unsigned long long kNone = ~0ULL;

// Every bit set but the status: nothing found yet.
__global__ void look(const __grid_constant__ CheckJob job, CheckResult* result) {
  const std::int64_t me = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  unsigned long long bad = kNone;
  const std::int64_t offsets = job.offsets == nullptr ? 0 : job.experts + 1;
  for (std::int64_t e = me; e < offsets; e += stride) {
    const std::int64_t o = job.offsets[e];
    const bool wrong =
        (e == 0 ? o != 0 : o < job.offsets[e - 1]) || (e == job.experts && o != job.end) || o % job.multiple != 0;
    if (wrong) bad = min(bad, static_cast<unsigned long long>(e));
  }
  const std::int64_t rows = job.index == nullptr ? 0 : job.rows;
  for (std::int64_t i = me; i < rows; i += stride) {
    const std::int32_t row = job.index[i];
    if (row < 0 || row >= job.source_rows) bad = min(bad, static_cast<unsigned long long>(offsets + i));
  }
  if (bad != kNone) atomicMin(&result->first, bad);
}

__global__ void tell(const __grid_constant__ CheckJob job, CheckResult* result) {
  const unsigned long long first = result->first;
  result->status = first == kNone ? MXCHECK_OK : MXCHECK_INVALID;
  if (first == kNone) return;
  const std::int64_t offsets = job.offsets == nullptr ? 0 : job.experts + 1;
  const auto at = static_cast<std::int64_t>(first);
  const char* message = "row index[index] must be a row of a: 0 or more, and less than there are";
  std::int64_t index = at - offsets;
  std::int64_t value = 0;
  if (at < offsets) {
    index = at, value = job.offsets[at];
    message = "offsets[index] must be at least the one before it";
    if (at == job.experts)
      message = "the last of the offsets must be the end of what they divide, and none may descend";
    if (at == 0) message = "offsets[0] must be 0";
    const bool order = at == 0 ? value == 0 : value >= job.offsets[at - 1];
    if (order && value % job.multiple != 0) {
      result->status = MXCHECK_UNSUPPORTED;
      message = "groups along depth are offered with offsets that are multiples of 128";
    }
  } else {
    value = job.index[index];
  }
  if (job.report == nullptr) return;
  job.report->status = result->status;
  job.report->index = index, job.report->value = value;
  int i = 0;
  for (; message[i] != '\0' && i < static_cast<int>(sizeof(job.report->message)) - 1; ++i) {
    job.report->message[i] = message[i];
  }
  job.report->message[i] = '\0';
}

}  // namespace

cudaError_t launch_check(const CheckJob& job, CheckResult* result, cudaStream_t stream) {
  const cudaError_t e = cudaMemsetAsync(result, 0xFF, sizeof(*result), stream);
  if (e != cudaSuccess) return e;
  const std::int64_t values = std::max(job.experts + 1, job.index == nullptr ? 0 : job.rows);
  const auto blocks = static_cast<unsigned>(std::clamp<std::int64_t>((values + kThreads - 1) / kThreads, 1, 256));
  look<<<blocks, kThreads, 0, stream>>>(job, result);
  tell<<<1, 1, 0, stream>>>(job, result);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
