#include "kernels/sm90/layer/steps/plan.h"

#include <algorithm>

#include "kernels/sm90/layer/steps/offsets.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kPlanThreads = 1024;
constexpr int kLookThreads = 256;

__host__ __device__ constexpr std::int64_t divide_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

struct Sums {
  std::int64_t tiles = 0;
  std::int64_t bands = 0;
};
__device__ Sums operator+(Sums a, Sums b) { return {a.tiles + b.tiles, a.bands + b.bands}; }
__device__ Sums sums_of(std::int64_t rows, int block) { return {divide_up(rows, kTileRows), divide_up(rows, block)}; }

__device__ void write_tiles(RowTile* table, std::int64_t begin, std::int64_t end, Sums before, int block) {
  for (std::int64_t row = begin; row < end; row += kTileRows) {
    table[before.tiles++] = {static_cast<std::int32_t>(row),
                             static_cast<std::int32_t>(min(end - row, std::int64_t{kTileRows})),
                             static_cast<std::int32_t>(before.bands)};
    before.bands += kTileRows / block;
  }
}

// One block of threads: header, offsets checked, table. Each thread takes a run of experts.
__global__ void __launch_bounds__(kPlanThreads)
    plan_kernel(const __grid_constant__ PlanJob job, PlanHeader* header, RowTile* table) {
  __shared__ Sums part[kPlanThreads];
  const std::int64_t me = threadIdx.x;
  if (me == 0) *header = {MXCHECK_OK, 0, kNone};
  __syncthreads();
  if (job.offsets == nullptr ||
      !offsets_are_right<kPlanThreads>(job.offsets, job.experts, job.rows, header, job.report))
    return;
  const std::int64_t run = divide_up(job.experts, kPlanThreads);
  const std::int64_t begin = min(me * run, job.experts);
  const std::int64_t end = min(begin + run, job.experts);
  Sums sum;
  for (std::int64_t e = begin; e < end; ++e) sum = sum + sums_of(job.offsets[e + 1] - job.offsets[e], job.block);
  part[me] = sum;
  __syncthreads();
  for (int step = 1; step < kPlanThreads; step *= 2) {
    const Sums earlier = me >= step ? part[me - step] : Sums{};
    __syncthreads();
    part[me] = part[me] + earlier;
    __syncthreads();
  }
  const Sums all = part[kPlanThreads - 1];
  if (job.bands >= 0 && job.bands != all.bands) {
    if (me == 0) {
      refuse(header, job.report,
             "scales of transposed codes have other columns than the experts' blocks (index: given)", job.bands,
             all.bands);
    }
    return;
  }
  if (me == 0) header->tiles = static_cast<std::int32_t>(all.tiles);
  sum = me == 0 ? Sums{} : part[me - 1];
  for (std::int64_t e = begin; e < end; ++e) {
    write_tiles(table, job.offsets[e], job.offsets[e + 1], sum, job.block);
    sum = sum + sums_of(job.offsets[e + 1] - job.offsets[e], job.block);
  }
}

// The first value outside [least, most], by an atomic minimum: the same one in every run.
__global__ void look_kernel(const std::int32_t* values, std::int64_t count, std::int64_t least, std::int64_t most,
                            PlanHeader* header) {
  const std::int64_t step = std::int64_t{gridDim.x} * kLookThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kLookThreads + threadIdx.x; i < count; i += step) {
    if (values[i] < least || values[i] > most) atomicMin(&header->first, static_cast<unsigned long long>(i));
  }
}

enum class Looked : std::uint8_t { index, slots };
__global__ void judge_kernel(const std::int32_t* values, Looked what, PlanHeader* header,
                             mxcheck_device_report* report) {
  if (header->status != MXCHECK_OK || header->first == kNone) return;
  const auto at = static_cast<std::int64_t>(header->first);
  refuse(header, report,
         what == Looked::index ? "the row index must be 0 or more and less than the rows of x"
                               : "token_rows must be -1 or a row of y",
         at, values[at]);
}

cudaError_t look(const std::int32_t* values, std::int64_t count, std::int64_t least, std::int64_t most, Looked what,
                 PlanHeader* header, mxcheck_device_report* report, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(divide_up(count, kLookThreads), 1024));
  look_kernel<<<blocks, kLookThreads, 0, stream>>>(values, count, least, most, header);
  judge_kernel<<<1, 1, 0, stream>>>(values, what, header, report);
  return cudaGetLastError();
}

__global__ void __launch_bounds__(kPlanThreads) slots_kernel(const __grid_constant__ SlotsJob job, PlanHeader* header) {
  if (threadIdx.x == 0) *header = {MXCHECK_OK, 0, kNone};
  __syncthreads();
  offsets_are_right<kPlanThreads>(job.token_offsets, job.tokens, job.slots, header, job.report);
}

}  // namespace

std::int64_t most_tiles(const PlanJob& job) {
  return job.offsets == nullptr ? divide_up(job.rows, kTileRows) : job.rows / kTileRows + job.experts;
}

std::uint64_t table_bytes(const PlanJob& job) {
  return job.offsets == nullptr ? 0 : static_cast<std::uint64_t>(most_tiles(job)) * sizeof(RowTile);
}

cudaError_t make_plan(const PlanJob& job, PlanHeader* header, RowTile* table, cudaStream_t stream) {
  plan_kernel<<<1, kPlanThreads, 0, stream>>>(job, header, table);
  if (const cudaError_t e = cudaGetLastError(); e != cudaSuccess || job.index == nullptr) return e;
  return look(job.index, job.rows, 0, job.source_rows - 1, Looked::index, header, job.report, stream);
}

cudaError_t check_slots(const SlotsJob& job, PlanHeader* header, cudaStream_t stream) {
  slots_kernel<<<1, kPlanThreads, 0, stream>>>(job, header);
  if (const cudaError_t e = cudaGetLastError(); e != cudaSuccess) return e;
  return look(job.token_rows, job.slots, -1, job.y_rows - 1, Looked::slots, header, job.report, stream);
}

}  // namespace mxcheck_kernels::sm90
