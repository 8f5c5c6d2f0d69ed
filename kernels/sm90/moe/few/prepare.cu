// The first launch of a forward pass of few tokens: routes checked, experts with rows listed, rows of X copied.
//
// Every block of threads checks all routes, so that none needs another's verdict: some 10,000 numbers at most, as a
// rule, in caches. The first block says it to the report and to the launches after, and lists the experts; the others
// copy.

#include <algorithm>

#include "kernels/sm90/layer/steps/rows.cuh"
#include "kernels/sm90/moe/few/codes.cuh"
#include "kernels/sm90/moe/few/jobs.h"
#include "kernels/sm90/moe/kept/kept_layer.cuh"
#include "kernels/sm90/moe/routes.cuh"
#include "kernels/sm90/ptx/ptx.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kThreads = 512;

// By all threads; verdict is in shared memory.
__device__ bool routes_are_right(const RoutesJob& job, PlanHeader& verdict, mxcheck_device_report* report) {
  if (threadIdx.x == 0) verdict = {MXCHECK_OK, 0, kNone};
  __syncthreads();
  if (!offsets_are_right<kThreads>(job.rows.offsets, job.rows.experts, job.rows.rows, &verdict, report)) return false;
  const RoutePlaces places = route_places(job);
  for (std::int64_t i = threadIdx.x; i < places.end; i += kThreads) {
    if (is_wrong_route(job, places, i)) atomicMin(&verdict.first, static_cast<unsigned long long>(i));
  }
  __syncthreads();
  if (verdict.first == kNone) return true;
  if (threadIdx.x == 0) judge_routes(job, &verdict, report);
  return false;
}

__device__ __forceinline__ int items_of(std::int64_t rows, int each) {
  return static_cast<int>((rows + each - 1) / each);
}

// By one block; returns how many there are.
__device__ int write_items(const PlanJob& rows, const FewTable& table) {
  __shared__ int part[kThreads];
  const int me = static_cast<int>(threadIdx.x);
  const int experts = static_cast<int>(rows.experts);
  const int run = (experts + kThreads - 1) / kThreads;
  const int begin = min(me * run, experts);
  const int end = min(begin + run, experts);
  int count = 0;
  for (int e = begin; e < end; ++e) count += items_of(rows.offsets[e + 1] - rows.offsets[e], table.item_rows);
  part[me] = count;
  __syncthreads();
  for (int step = 1; step < kThreads; step *= 2) {
    const int earlier = me >= step ? part[me - step] : 0;
    __syncthreads();
    part[me] += earlier;
    __syncthreads();
  }
  int at = part[me] - count;
  for (int e = begin; e < end; ++e) {
    const auto last = static_cast<int>(rows.offsets[e + 1]);
    for (auto row = static_cast<int>(rows.offsets[e]); row < last; row += table.item_rows) {
      table.items[at++] = {e, row, min(last - row, table.item_rows), 0};
    }
  }
  return part[kThreads - 1];
}

// A thread's eight columns of a token to its rows.
template <class Copy>
__device__ __forceinline__ void each_row(const SlotsJob& slots, std::int64_t token, const Copy& copy) {
  const std::int64_t end = slots.token_offsets[token + 1];
  for (std::int64_t slot = slots.token_offsets[token]; slot < end; ++slot) {
    const std::int32_t row = slots.token_rows[slot];
    if (row >= 0) copy(row);
  }
}

// A block of threads has 4,096 columns of a token.
template <class Coder>
__device__ __forceinline__ void copy_rows(const FewPrepareJob& job, const Coder& coder, std::int64_t token,
                                          std::int64_t col) {
  const bool inside = col < job.d;
  const uint4 v = inside ? __ldg(reinterpret_cast<const uint4*>(job.x + token * job.d + col)) : uint4{};
  if constexpr (std::is_same_v<Coder, NoCoder>) {
    if (!inside) return;
    each_row(job.routes.slots, token,
             [&](std::int64_t row) { *reinterpret_cast<uint4*>(job.rows + row * job.d + col) = v; });
  } else {
    const BlockScale s = coder.scale_of(largest_of(larger_half(amax_of(v)), kFewStage / kEach));
    if (!inside) return;
    const uint2 codes = eight_codes(coder, v, s);
    const bool first = col % kFewStage == 0;
    *reinterpret_cast<uint2*>(job.kept.codes + token * job.d + col) = codes;
    if (first) coder.store_scale(job.kept.scales, token * job.kept.blocks + col / kFewStage, s);
    each_row(job.routes.slots, token, [&](std::int64_t row) {
      put_few_codes(job.codes, row * job.d, col, codes);
      if (first) job.codes.scales[row * job.kept.blocks + col / kFewStage] = few_scale<Coder>(s);
    });
  }
}

template <class Coder>
__global__ void __launch_bounds__(kThreads)
    few_prepare(const __grid_constant__ FewPrepareJob job, const __grid_constant__ Coder coder, int parts) {
  __shared__ PlanHeader verdict;
  ptx::griddepcontrol_launch_dependents();
  const bool first = blockIdx.x == 0;
  mxcheck_device_report* const report = first ? job.routes.rows.report : nullptr;
  bool right = routes_are_right(job.routes, verdict, report);
  if (right && job.weights.header != nullptr && !is_of_layer(*job.weights.header, job.weights.layer)) {
    if (threadIdx.x == 0) refuse_layer(&verdict, report);
    right = false;
  }
  if (first) {
    const int items = right ? write_items(job.routes.rows, job.table) : 0;
    if (threadIdx.x == 0) *job.table.header = {right ? MXCHECK_OK : MXCHECK_INVALID, items, kNone};
    return;
  }
  if (!right) return;
  const auto block = static_cast<int>(blockIdx.x) - 1;
  const std::int64_t step = (std::int64_t{gridDim.x} - 1) * kThreads;
  for (std::int64_t i = std::int64_t{block} * kThreads + threadIdx.x; i < job.count; i += step) job.counters[i] = 0;
  copy_rows(job, coder, block / parts, std::int64_t{block % parts} * kThreads * kEach + threadIdx.x * kEach);
}

}  // namespace

cudaError_t launch_few_prepare(const FewPrepareJob& job, cudaStream_t stream) {
  constexpr std::int64_t kPart = kThreads * kEach;
  const auto parts = static_cast<int>((job.d + kPart - 1) / kPart);
  const auto blocks = static_cast<unsigned>(1 + job.routes.slots.tokens * parts);
  const DeviceCoding& c = job.kept.coding;
  if (job.rows != nullptr) {
    few_prepare<<<blocks, kThreads, 0, stream>>>(job, NoCoder(), parts);
  } else if (c.fp32) {
    few_prepare<<<blocks, kThreads, 0, stream>>>(job, Coder128<Element::e4m3, true>{c.addend, 7}, parts);
  } else {
    few_prepare<<<blocks, kThreads, 0, stream>>>(job, Coder128<Element::e4m3, false>{c.addend, 7}, parts);
  }
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
