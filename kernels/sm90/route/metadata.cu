// "route_metadata": the stages on the device, and the call. Slots are cut into runs, one per block of threads:
//
//   count  what is wrong of the inputs; the slots of each expert in each run
//   sum    per expert, those in all runs before; of all runs
//   place  every slot's row: its expert's offset, slots of the same expert in runs before, in warps before, in lanes
//   before

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/common/report.cuh"
#include "kernels/sm90/route/block_sum.cuh"
#include "kernels/sm90/route/route_call.h"

namespace mxcheck_kernels::sm90 {
namespace {

struct MetadataJob {
  std::int64_t slots = 0;
  std::int64_t tokens = 0;
  std::int64_t width = 0;  // slots of a token; 0: given by token_offsets
  std::int64_t experts = 0;
  std::int64_t tile = 1;
  std::int64_t capacity = 0;
  std::int64_t run = 0;   // slots of a run, a multiple of kPlaceSlots
  std::int64_t runs = 0;  // at least 1
  const std::int32_t* slot_experts = nullptr;
  const std::int64_t* token_offsets = nullptr;
  mxcheck_device_report* report = nullptr;

  // Workspace.
  unsigned long long* wrong = nullptr;  // the first that is: token offsets, then slots. Begins with all bits set
  std::uint32_t* before = nullptr;      // [experts, runs] slots in the run; then in all runs before
  std::uint32_t* count = nullptr;       // [experts]

  std::int32_t* counts = nullptr;
  std::int64_t* offsets = nullptr;
  std::int32_t* row_slot = nullptr;
  std::int32_t* row_token = nullptr;
  std::int32_t* row_expert = nullptr;
  std::int32_t* slot_row = nullptr;
};

inline constexpr std::int64_t kPlaceSlots = 512;  // of a block of threads at a time
inline constexpr std::int64_t kMostRuns = 1024;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kSteps = static_cast<int>(kPlaceSlots) / kThreads;  // slots of a lane
constexpr unsigned long long kNone = ~0ULL;

__device__ __forceinline__ std::int64_t offsets_given(const MetadataJob& job) {
  return job.token_offsets == nullptr ? 0 : job.tokens + 1;
}

__device__ void tell(const MetadataJob& job, std::int64_t at) {
  const std::int64_t offsets = offsets_given(job);
  const char* message = "slot_experts[index] must be -1 or an expert: less than there are";
  std::int64_t index = at - offsets;
  if (at < offsets) {
    index = at;
    message = "token_offsets[index] must be at least the one before it";
    if (at == job.tokens) message = "the last of token_offsets must be the number of slots, and none may descend";
    if (at == 0) message = "token_offsets[0] must be 0";
  }
  report_invalid(job.report, message, index, at < offsets ? job.token_offsets[index] : job.slot_experts[index]);
}

__global__ void __launch_bounds__(kThreads) count_kernel(const __grid_constant__ MetadataJob job) {
  __shared__ std::uint32_t count[kMostExperts];
  for (std::int64_t e = threadIdx.x; e < job.experts; e += kThreads) count[e] = 0;
  __syncthreads();
  unsigned long long wrong = kNone;
  const std::int64_t offsets = offsets_given(job);
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < offsets; i += step) {
    const std::int64_t o = job.token_offsets[i];
    const bool descends = i == 0 ? o != 0 : o < job.token_offsets[i - 1];
    if (descends || (i == job.tokens && o != job.slots)) wrong = min(wrong, static_cast<unsigned long long>(i));
  }
  const std::int64_t end = min((std::int64_t{blockIdx.x} + 1) * job.run, job.slots);
  for (std::int64_t slot = blockIdx.x * job.run + threadIdx.x; slot < end; slot += kThreads) {
    const std::int32_t e = job.slot_experts[slot];
    if (e < -1 || e >= job.experts) {
      wrong = min(wrong, static_cast<unsigned long long>(offsets + slot));
    } else if (e >= 0) {
      atomicAdd(&count[e], 1U);
    }
  }
  if (wrong != kNone) atomicMin(job.wrong, wrong);
  __syncthreads();
  for (std::int64_t e = threadIdx.x; e < job.experts; e += kThreads) job.before[e * job.runs + blockIdx.x] = count[e];
}

// One warp an expert. Rows begin as padding here: the first kernel that may write outputs.
__global__ void __launch_bounds__(kThreads) sum_kernel(const __grid_constant__ MetadataJob job) {
  if (*job.wrong != kNone) {
    if (blockIdx.x == 0 && threadIdx.x == 0) tell(job, static_cast<std::int64_t>(*job.wrong));
    return;
  }
  const std::int64_t thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  for (std::int64_t r = thread; r < job.capacity; r += std::int64_t{gridDim.x} * kThreads) {
    job.row_slot[r] = -1, job.row_token[r] = -1, job.row_expert[r] = -1;
  }
  const std::int64_t e = thread / 32;
  if (e >= job.experts) return;
  std::uint32_t* before = job.before + e * job.runs;
  std::uint32_t sum = 0;
#pragma unroll 8
  for (std::int64_t base = 0; base < job.runs; base += 32) {
    const std::int64_t run = base + lane_of_thread();
    const std::uint32_t mine = run < job.runs ? before[run] : 0;
    const std::uint32_t to_here = warp_prefix(mine);
    if (run < job.runs) before[run] = sum + to_here - mine;
    sum += __shfl_sync(kAllLanes, to_here, 31);
  }
  if (lane_of_thread() == 0) job.count[e] = sum;
}

// The first row of each expert to `row`, which ends with what this run begins at; block 0 writes counts and offsets.
__device__ void begin_rows(const MetadataJob& job, std::int32_t* row, std::int64_t* part) {
  std::int64_t before = 0;
  for (std::int64_t base = 0; base < job.experts; base += kThreads) {
    const std::int64_t e = base + threadIdx.x;
    const bool is = e < job.experts;
    const std::uint32_t count = is ? job.count[e] : 0;
    const std::uint32_t inside = is ? job.before[e * job.runs + blockIdx.x] : 0;
    // Counts are below 2^31 and the tile is at most that.
    const auto tile = static_cast<std::uint32_t>(job.tile);
    const BlockSum<std::int64_t> sum = block_prefix<kThreads>(std::int64_t{(count + tile - 1) / tile * tile}, part);
    const std::int64_t first = before + sum.before;
    before += sum.all;
    if (!is) continue;
    row[e] = static_cast<std::int32_t>(first + inside);
    if (blockIdx.x == 0) job.counts[e] = static_cast<std::int32_t>(count), job.offsets[e] = first;
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) job.offsets[job.experts] = before;
}

// The last token whose slots begin at or before this one: tokens without slots are passed over.
__device__ __forceinline__ std::int64_t token_of(const MetadataJob& job, std::int64_t slot) {
  if (job.token_offsets == nullptr) {
    return static_cast<std::uint32_t>(slot) / static_cast<std::uint32_t>(job.width);  // both below 2^31
  }
  std::int64_t token = 0;
  for (std::int64_t above = job.tokens; above - token > 1;) {
    const std::int64_t middle = (token + above) / 2;
    (job.token_offsets[middle] <= slot ? token : above) = middle;
  }
  return token;
}

__global__ void __launch_bounds__(kThreads, 4) place_kernel(const __grid_constant__ MetadataJob job) {
  extern __shared__ std::int32_t next_row[];  // [experts] of the block, then [kWarps][experts] of each warp
  __shared__ std::int64_t part[kWarps];
  if (*job.wrong != kNone) return;
  const auto experts = static_cast<int>(job.experts);
  const int lane = lane_of_thread();
  std::int32_t* const of_warps = next_row + experts;
  std::int32_t* const mine = of_warps + warp_of_thread() * experts;
  const std::int64_t begin = blockIdx.x * job.run;
  const std::int64_t end = min(begin + job.run, job.slots);
  std::int32_t expert[kSteps];
  const auto read_from = [&](std::int64_t first) {
#pragma unroll
    for (int i = 0; i < kSteps; ++i) expert[i] = first + i * 32 < end ? job.slot_experts[first + i * 32] : -1;
  };
  const int own = warp_of_thread() * (32 * kSteps) + lane;
  read_from(begin + own);  // under way while the rows begin
  begin_rows(job, next_row, part);
  for (std::int64_t base = begin; base < end; base += kPlaceSlots) {
    const std::int64_t first = base + own;
    if (base != begin) read_from(first);
    for (int e = lane; e < experts; e += 32) mine[e] = 0;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      if (expert[i] >= 0) atomicAdd(&mine[expert[i]], 1);
    }
    __syncthreads();
    for (int e = static_cast<int>(threadIdx.x); e < experts; e += kThreads) {
      std::int32_t row = next_row[e];
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        const std::int32_t count = of_warps[w * experts + e];
        of_warps[w * experts + e] = row;
        row += count;
      }
      next_row[e] = row;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const std::int64_t slot = first + i * 32;
      const std::int32_t e = expert[i];
      const unsigned same = __match_any_sync(kAllLanes, e);
      const int rank = __popc(same & ((1U << lane) - 1));
      const std::int32_t row = e >= 0 ? mine[e] + rank : -1;
      __syncwarp();
      if (e >= 0 && rank == 0) mine[e] += __popc(same);
      __syncwarp();
      if (slot < end) job.slot_row[slot] = row;
      if (row < 0) continue;
      job.row_slot[row] = static_cast<std::int32_t>(slot);
      job.row_token[row] = static_cast<std::int32_t>(token_of(job, slot));
      job.row_expert[row] = e;
    }
    __syncthreads();
  }
}

cudaError_t launch_metadata(const MetadataJob& job, cudaStream_t stream) {
  const auto shared = static_cast<int>((kWarps + 1) * job.experts * 4);
  static_assert((kWarps + 1) * kMostExperts * 4 + 256 <= 227 * 1024);
  cudaError_t e = cudaFuncSetAttribute(place_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  if (e == cudaSuccess) e = cudaMemsetAsync(job.wrong, 0xFF, sizeof(*job.wrong), stream);
  if (e != cudaSuccess) return e;
  const auto runs = static_cast<unsigned>(job.runs);
  count_kernel<<<runs, kThreads, 0, stream>>>(job);
  const std::int64_t sums = (job.experts + kWarps - 1) / kWarps;
  const std::int64_t fills = min((job.capacity + 4 * kThreads - 1) / (4 * kThreads), std::int64_t{1024});
  sum_kernel<<<static_cast<unsigned>(max(sums, fills)), kThreads, 0, stream>>>(job);
  place_kernel<<<runs, kThreads, static_cast<std::size_t>(shared), stream>>>(job);
  return cudaGetLastError();
}

// ---- The call ----

constexpr std::int64_t kMostRows = INT32_MAX;

void check_range(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return;
  invalid(std::string(name) + " is " + std::to_string(value) + ": must be " + std::to_string(least) + " to " +
          std::to_string(most));
}

std::int64_t up_to(std::int64_t value, std::int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// Sizes, from the policy and, where token_offsets are given, the shape of slot_experts.
MetadataJob read_job(const mxcheck_call& call) {
  const mxcheck_route_policy& p = route_policy(call.policy);
  require_no_blocks(p.policy);
  MetadataJob job;
  check_range("policy.rows", p.policy.rows, 0, kMostRows);
  check_range("policy.top_k", p.top_k, 0, kMostRows);
  check_range("policy.cols", p.policy.cols, 0, kMostRows);
  if (p.policy.cols > kMostExperts) {
    unsupported(std::to_string(p.policy.cols) + " experts are not offered: at most " + std::to_string(kMostExperts));
  }
  job.tokens = p.policy.rows, job.experts = p.policy.cols, job.width = p.top_k, job.tile = p.tile;
  check_call(call, job.width == 0 ? 2 : 1, job.width == 0 ? 2 : 1, 6);
  job.slots = job.tokens * job.width;
  if (job.width == 0) {
    const DLTensor& slots = call.inputs[0];
    if (slots.ndim != 1 || slots.shape == nullptr) invalid("slot_experts must have one dimension");
    job.slots = slots.shape[0];
  }
  check_range("the number of slots", job.slots, 0, kMostRows);
  // With a tile of at most 2^31 the product is below 2^44.
  check_range("policy.tile", job.tile, 1, std::int64_t{1} << 31);
  job.capacity = job.slots + job.experts * (job.tile - 1);
  if (job.capacity > kMostRows) invalid(std::to_string(job.capacity) + " rows: at most 2^31 - 1 are possible");
  job.run = std::max(kPlaceSlots, up_to((job.slots + kMostRuns - 1) / kMostRuns, kPlaceSlots));
  job.runs = std::max(std::int64_t{1}, (job.slots + job.run - 1) / job.run);
  return job;
}

constexpr std::int64_t kPiece = 256;

std::uint64_t lay_out(MetadataJob& job, void* memory) {
  const std::int64_t count_at = kPiece;
  const std::int64_t before_at = count_at + up_to(job.experts * 4, kPiece);
  const std::int64_t bytes = before_at + up_to(job.experts * job.runs * 4, kPiece);
  if (memory != nullptr) {
    auto* base = static_cast<std::byte*>(memory);
    job.wrong = reinterpret_cast<unsigned long long*>(base);
    job.count = reinterpret_cast<std::uint32_t*>(base + count_at);
    job.before = reinterpret_cast<std::uint32_t*>(base + before_at);
  }
  return static_cast<std::uint64_t>(bytes);
}

Checked read(const char* name, const DLTensor& tensor, DLDataType type, std::int64_t count) {
  const Checked checked = check_tensor(name, tensor, type, 1, Strides::contiguous);
  require_shape(name, checked, 1, count);
  return checked;
}

std::int32_t* words(const Checked& tensor) { return static_cast<std::int32_t*>(tensor.data); }

}  // namespace

void metadata_supports(const mxcheck_policy* policy, DLDataType /*type*/) {
  require_no_blocks(route_policy(policy).policy);
}

std::uint64_t metadata_workspace(const mxcheck_call& call) {
  MetadataJob job = read_job(call);
  return lay_out(job, nullptr);
}

void metadata_run(const mxcheck_call& call) {
  MetadataJob job = read_job(call);
  std::array<Checked, 2> inputs{read("slot_experts", call.inputs[0], kInt32Type, job.slots)};
  if (job.width == 0) inputs[1] = read("token_offsets", call.inputs[1], kInt64Type, job.tokens + 1);
  const std::array outputs{
      read("counts", call.outputs[0], kInt32Type, job.experts),
      read("offsets", call.outputs[1], kInt64Type, job.experts + 1),
      read("row_slot", call.outputs[2], kInt32Type, job.capacity),
      read("row_token", call.outputs[3], kInt32Type, job.capacity),
      read("row_expert", call.outputs[4], kInt32Type, job.capacity),
      read("slot_row", call.outputs[5], kInt32Type, job.slots),
  };
  require_disjoint(inputs, outputs);
  require_workspace(call, lay_out(job, call.workspace));
  job.slot_experts = words(inputs[0]);
  job.token_offsets = static_cast<const std::int64_t*>(inputs[1].data);
  job.report = report_of(call);
  job.counts = words(outputs[0]);
  job.offsets = static_cast<std::int64_t*>(outputs[1].data);
  job.row_slot = words(outputs[2]), job.row_token = words(outputs[3]), job.row_expert = words(outputs[4]);
  job.slot_row = words(outputs[5]);
  require_success(launch_metadata(job, stream_of(call)));
}

}  // namespace mxcheck_kernels::sm90
