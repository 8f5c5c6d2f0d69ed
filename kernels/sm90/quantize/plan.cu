// The check of a call that only the device can make, and the row tiles of ragged experts.

#include "kernels/sm90/common/report.cuh"
#include "kernels/sm90/ptx/ptx.cuh"
#include "kernels/sm90/quantize/quantize.h"

#include <cooperative_groups.h>

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kPlanThreads = 1024;
constexpr int kPlanBlocks = 8;  // of a cluster: they share the index and the table, and know of each other's errors
constexpr std::uint64_t kTableAt = 256;
constexpr long long kNone = INT64_MAX;
constexpr unsigned kAllLanes = 0xFFFFFFFF;

// Tiles, bands of 32 rows and groups of 4 tiles of one expert, or of all before one.
struct Sums {
  std::int64_t tiles;
  std::int64_t bands;
  std::int64_t quads;
};

__device__ Sums operator+(Sums a, Sums b) { return {a.tiles + b.tiles, a.bands + b.bands, a.quads + b.quads}; }

__device__ Sums sums_of(std::int64_t rows) {
  const std::int64_t tiles = divide_up(rows, kTile);
  return {tiles, divide_up(rows, 32), divide_up(tiles, 4)};
}

__device__ Sums of_lane_before(Sums a, int lanes) {
  return {__shfl_up_sync(kAllLanes, a.tiles, lanes), __shfl_up_sync(kAllLanes, a.bands, lanes),
          __shfl_up_sync(kAllLanes, a.quads, lanes)};
}

__device__ Sums sum_in_warp(Sums mine) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const Sums before = of_lane_before(mine, step);
    if (lane >= step) mine = mine + before;
  }
  return mine;
}

__device__ void refuse(PlanHeader* header, mxcheck_device_report* report, const char* message, std::int64_t index,
                       std::int64_t value) {
  header->status = MXCHECK_INVALID;
  report_invalid(report, message, index, value);
}

// The count that the scales of a claim must have with these sums.
__device__ std::int64_t needed(const ClaimedScales& claim, Sums all, std::int64_t rows) {
  if (claim.columns == 0) {
    if (claim.block_rows == 1) return rows;
    return claim.block_rows == 32 ? all.bands : all.tiles;
  }
  return (claim.block_rows == 128 ? all.quads : all.tiles) * claim.columns * kScaleTile;
}

// Shared memory for what the blocks of the cluster tell each other, and the threads of a block.
struct PlanShared {
  long long bad_offset;  // the first of each, or kNone
  long long bad_index;
  Sums before_run[kPlanThreads];  // of each thread's run of experts
  Sums of_warp[kPlanThreads / 32];
};

// The first of 0 .. count - 1 that is wrong, by the threads of a block or of all.
template <class Wrong>
__device__ void find_first(long long* first, std::int64_t me, std::int64_t step, std::int64_t count,
                           const Wrong& wrong) {
  long long mine = kNone;
#pragma unroll 4
  for (std::int64_t i = me; i < count; i += step) {
    if (wrong(i) && i < mine) mine = i;
  }
  if (mine != kNone) atomicMin(first, mine);
}

// Each thread takes a run of experts: the sums before its own, and those of all.
__device__ Sums sum_experts(const PlanJob& job, PlanShared& shared, std::int64_t run) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t begin = min(threadIdx.x * run, job.experts);
  const std::int64_t end = min(begin + run, job.experts);
  Sums sum{};
  for (std::int64_t e = begin; e < end; ++e) sum = sum + sums_of(job.offsets[e + 1] - job.offsets[e]);
  sum = sum_in_warp(sum);
  if (lane == 31) shared.of_warp[warp] = sum;
  __syncthreads();
  const Sums warps = sum_in_warp(shared.of_warp[lane]);
  const Sums all{__shfl_sync(kAllLanes, warps.tiles, 31), __shfl_sync(kAllLanes, warps.bands, 31),
                 __shfl_sync(kAllLanes, warps.quads, 31)};
  const int from = max(warp - 1, 0);
  Sums before{__shfl_sync(kAllLanes, warps.tiles, from), __shfl_sync(kAllLanes, warps.bands, from),
              __shfl_sync(kAllLanes, warps.quads, from)};
  if (warp == 0) before = {};
  const Sums of_lanes = of_lane_before(sum, 1);
  shared.before_run[threadIdx.x] = lane == 0 ? before : before + of_lanes;
  __syncthreads();
  return all;
}

// Tile t, which is one of an expert's.
__device__ RowTile make_tile(const PlanJob& job, const PlanShared& shared, std::int64_t run, std::int64_t t) {
  int thread = 0;  // the last whose run has no more than t tiles before it
#pragma unroll
  for (int step = kPlanThreads / 2; step > 0; step /= 2) {
    if (shared.before_run[thread + step].tiles <= t) thread += step;
  }
  Sums before = shared.before_run[thread];
  std::int64_t e = min(thread * run, job.experts - 1);
  std::int64_t begin = job.offsets[e];
  std::int64_t end = job.offsets[e + 1];
  while (before.tiles + divide_up(end - begin, kTile) <= t) {
    before = before + sums_of(end - begin);
    begin = end, end = job.offsets[++e + 1];
  }
  const std::int64_t in_expert = t - before.tiles;
  RowTile tile;
  tile.first_row = begin + in_expert * kTile;
  tile.bands = before.bands + in_expert * (kTile / 32);
  tile.quads = before.quads;
  tile.rows = static_cast<std::int32_t>(min(end - tile.first_row, static_cast<std::int64_t>(kTile)));
  tile.in_expert = static_cast<std::int32_t>(in_expert);
  tile.of_expert = static_cast<std::int32_t>(divide_up(end - begin, kTile));
  return tile;
}

// Checks the offsets, and the scales that were claimed for them. False: refused.
__device__ bool check_experts(const PlanJob& job, PlanShared& shared, std::int64_t run, PlanHeader* header,
                              std::int64_t& tiles) {
  const long long bad = shared.bad_offset;
  if (bad != kNone) {
    const char* message = "offsets[index] must be at least the one before it";
    if (bad == 0) message = "offsets[0] must be 0";
    if (bad == job.experts) message = "the last of the offsets must be the number of rows, and none may descend";
    if (header != nullptr) refuse(header, job.report, message, bad, job.offsets[bad]);
    return false;
  }
  const Sums all = sum_experts(job, shared, run);
  tiles = all.tiles;
  for (const ClaimedScales& claim : job.claims) {
    if (claim.count < 0 || claim.count == needed(claim, all, job.rows)) continue;
    if (header != nullptr) {
      refuse(header, job.report, "scales have another size than the experts' blocks need (index: the size given)",
             claim.count, needed(claim, all, job.rows));
    }
    return false;
  }
  return true;
}

// One cluster: header, offsets and index checked, table of tiles. Every block sums up the experts for itself, which
// takes less time than to wait for another's.
__global__ void __cluster_dims__(kPlanBlocks) __launch_bounds__(kPlanThreads)
    plan_kernel(const __grid_constant__ PlanJob job, PlanHeader* header, RowTile* table, std::int64_t entries) {
  __shared__ PlanShared shared;
  ptx::griddepcontrol_launch_dependents();
  const auto cluster = cooperative_groups::this_cluster();
  const std::int64_t me = threadIdx.x;
  const std::int64_t of_all = blockIdx.x * kPlanThreads + me;
  constexpr std::int64_t kStep = kPlanBlocks * kPlanThreads;
  if (me == 0) shared.bad_offset = shared.bad_index = kNone;
  PlanHeader* speaker = of_all == 0 ? header : nullptr;  // one thread writes header and report
  if (speaker != nullptr) *header = {};
  __syncthreads();
  if (job.index != nullptr) {
    find_first(&shared.bad_index, of_all, kStep, job.rows, [&](std::int64_t i) {
      const std::int64_t row = job.index[i];
      if (row < 0 || row >= job.source_rows) return true;
      return false;
    });
  }
  if (job.offsets != nullptr) {
    find_first(&shared.bad_offset, me, kPlanThreads, job.experts + 1, [&](std::int64_t e) {
      const std::int64_t o = job.offsets[e];
      return (e == 0 ? o != 0 : o < job.offsets[e - 1]) || (e == job.experts && o != job.rows);
    });
  }
  cluster.sync();
  const std::int64_t run = divide_up(job.experts, kPlanThreads);
  std::int64_t tiles = 0;
  bool good = job.offsets == nullptr || check_experts(job, shared, run, speaker, tiles);
  long long bad = kNone;
  for (int b = 0; b < kPlanBlocks; ++b) bad = min(bad, *cluster.map_shared_rank(&shared.bad_index, b));
  if (good && bad != kNone) {
    if (speaker != nullptr) {
      refuse(header, job.report, "the row index must be 0 or more and less than the rows of x", bad, job.index[bad]);
    }
    good = false;
  }
  for (std::int64_t t = of_all; t < entries; t += kStep) {
    table[t] = good && t < tiles ? make_tile(job, shared, run, t) : RowTile{};
  }
  cluster.sync();  // a block's shared memory stays until all have read it
}

}  // namespace

std::int64_t most_tiles(const PlanJob& job) {
  return job.offsets == nullptr ? divide_up(job.rows, kTile) : job.rows / kTile + job.experts;
}

std::uint64_t plan_bytes(const PlanJob& job) {
  if (job.offsets == nullptr) return job.index == nullptr ? 0 : kTableAt;
  return kTableAt + static_cast<std::uint64_t>(most_tiles(job)) * sizeof(RowTile);
}

cudaError_t make_plan(const PlanJob& job, void* workspace, Rows& rows, cudaStream_t stream) {
  rows = {job.rows, most_tiles(job), nullptr, nullptr};
  if (job.offsets == nullptr && job.index == nullptr) return cudaSuccess;
  auto* base = static_cast<std::uint8_t*>(workspace);
  auto* header = reinterpret_cast<PlanHeader*>(base);
  auto* table = job.offsets != nullptr ? reinterpret_cast<RowTile*>(base + kTableAt) : nullptr;
  plan_kernel<<<kPlanBlocks, kPlanThreads, 0, stream>>>(job, header, table, table != nullptr ? rows.tiles : 0);
  rows.header = header, rows.table = table;
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
