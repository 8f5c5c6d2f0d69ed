// The check of routes: three kernels in a row, where make_plan and check_slots after one another are seven: offsets and
// tiles by one block of threads, every other number by many, and the sentence about the first that is wrong. And
// offsets padded to multiples of 128 rows.

#include "kernels/sm90/moe/moe_kernels.h"

#include <algorithm>

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 1024;
constexpr unsigned long long kNone = ~0ULL;

// Numbers are looked at as if they lay one after the other: row_token, token_offsets, token_rows.
struct Places {
  std::int64_t offsets;  // the first of token_offsets
  std::int64_t rows;     // the first of token_rows
  std::int64_t end;
};
__host__ __device__ Places places_of(const RoutesJob& job) {
  const std::int64_t offsets = job.rows.rows;
  const std::int64_t rows = offsets + job.slots.tokens + 1;
  return {offsets, rows, rows + job.slots.slots};
}

__device__ bool is_wrong_offset(const SlotsJob& job, std::int64_t at) {
  const std::int64_t offset = job.token_offsets[at];
  return (at == 0 ? offset != 0 : offset < job.token_offsets[at - 1]) || (at == job.tokens && offset != job.slots);
}

__device__ bool is_wrong(const RoutesJob& job, const Places& places, std::int64_t at) {
  if (at < places.offsets) return job.rows.index[at] < 0 || job.rows.index[at] >= job.rows.source_rows;
  if (at < places.rows) return is_wrong_offset(job.slots, at - places.offsets);
  const std::int32_t row = job.slots.token_rows[at - places.rows];
  return row < -1 || row >= job.slots.y_rows;
}

// The first that is wrong by an atomic minimum: the same one in every run.
__global__ void look_kernel(const __grid_constant__ RoutesJob job) {
  if (job.header->status != MXCHECK_OK) return;
  const Places places = places_of(job);
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < places.end; i += step) {
    if (is_wrong(job, places, i)) atomicMin(&job.header->first, static_cast<unsigned long long>(i));
  }
}

__global__ void judge_kernel(const __grid_constant__ RoutesJob job) {
  PlanHeader* const header = job.header;
  if (header->status != MXCHECK_OK || header->first == kNone) return;
  header->status = MXCHECK_INVALID;
  mxcheck_device_report* const report = job.rows.report;
  if (report == nullptr) return;
  const Places places = places_of(job);
  const auto at = static_cast<std::int64_t>(header->first);
  const char* message = "row_token[index] must be a token: 0 or more, and less than there are";
  report->index = at;
  if (at < places.offsets) {
    report->value = job.rows.index[at];
  } else if (at < places.rows) {
    message = "token_offsets must go from 0 to the number of slots, and none may be less than the one before it";
    report->index = at - places.offsets, report->value = job.slots.token_offsets[report->index];
  } else {
    message = "token_rows[index] must be -1 or a row: less than there are";
    report->index = at - places.rows, report->value = job.slots.token_rows[report->index];
  }
  int i = 0;
  for (; message[i] != '\0' && i < static_cast<int>(sizeof(report->message)) - 1; ++i) report->message[i] = message[i];
  report->message[i] = '\0';
  report->status = MXCHECK_INVALID;
}

constexpr int kPadThreads = 1024;

__device__ __forceinline__ std::int64_t padded_rows(const std::int64_t* offsets, std::int64_t e) {
  return (offsets[e + 1] - offsets[e] + kTileRows - 1) / kTileRows * kTileRows;
}

// One block of threads; each takes a run of experts, and begins it where the threads before it end.
__global__ void __launch_bounds__(kPadThreads)
    pad_offsets(const std::int64_t* offsets, std::int64_t experts, std::int64_t* padded, const PlanHeader* header) {
  if (header != nullptr && header->status != MXCHECK_OK) return;
  __shared__ std::int64_t part[kPadThreads];
  const std::int64_t me = threadIdx.x;
  const std::int64_t run = (experts + kPadThreads - 1) / kPadThreads;
  const std::int64_t begin = min(me * run, experts);
  const std::int64_t end = min(begin + run, experts);
  std::int64_t sum = 0;
  for (std::int64_t e = begin; e < end; ++e) sum += padded_rows(offsets, e);
  part[me] = sum;
  __syncthreads();
  for (int step = 1; step < kPadThreads; step *= 2) {
    const std::int64_t earlier = me >= step ? part[me - step] : 0;
    __syncthreads();
    part[me] += earlier;
    __syncthreads();
  }
  std::int64_t at = part[me] - sum;
  if (me == 0) padded[0] = 0;
  for (std::int64_t e = begin; e < end; ++e) padded[e + 1] = at += padded_rows(offsets, e);
}

}  // namespace

cudaError_t check_routes(const RoutesJob& job, cudaStream_t stream) {
  PlanJob offsets = job.rows;
  offsets.index = nullptr;
  if (const cudaError_t e = make_plan(offsets, job.header, job.table, stream); e != cudaSuccess) return e;
  const std::int64_t blocks = std::min((places_of(job).end + kThreads - 1) / kThreads, kMostBlocks);
  look_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(job);
  judge_kernel<<<1, 1, 0, stream>>>(job);
  return cudaGetLastError();
}

cudaError_t launch_padded_offsets(const std::int64_t* offsets, std::int64_t experts, std::int64_t* padded,
                                  const PlanHeader* header, cudaStream_t stream) {
  pad_offsets<<<1, kPadThreads, 0, stream>>>(offsets, experts, padded, header);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
