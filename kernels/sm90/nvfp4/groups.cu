// The check of offsets and the table of tiles. Every block of threads checks and sums up all experts for itself, which
// takes less time than to wait for another, and has a part of the table. Of a row index each block of a cluster checks
// a part, and they tell one another what they found.

#include "kernels/sm90/nvfp4/groups.h"

#include <algorithm>

#include <cooperative_groups.h>

#include "kernels/sm90/nvfp4/gather.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kPlanThreads = 1024;
constexpr int kWarps = kPlanThreads / 32;
constexpr unsigned kPlanBlocks = 8;
constexpr unsigned kAll = 0xFFFFFFFF;
constexpr long long kNone = INT64_MAX;
constexpr int kTallShift = 3;
constexpr std::int64_t kTallRows = kGroupRows << kTallShift;
constexpr std::int64_t kTileBytes = 512;  // 128 x 4 scales

__host__ __device__ std::int64_t height_of(const GroupsJob& job) { return job.tiled ? kTallRows : kGroupRows; }

// The scales of one tile, as `claimed` counts them.
__device__ std::int64_t scales_of_tile(const GroupsJob& job) {
  return job.tiled ? divide_up(divide_up(job.cols, 16), 4) * kTileBytes : 1;
}

struct Shared {
  long long bad;                   // the first offset that is wrong, or kNone
  long long before[kPlanThreads];  // tiles before each thread's run of experts
  long long of_warp[kWarps];
};

__device__ void refuse(mxcheck_device_report* report, const char* message, std::int64_t index, std::int64_t value) {
  if (report == nullptr) return;
  report->status = MXCHECK_INVALID, report->index = index, report->value = value;
  int i = 0;
  for (; message[i] != '\0' && i < static_cast<int>(sizeof(report->message)) - 1; ++i) report->message[i] = message[i];
  report->message[i] = '\0';
}

__device__ long long sum_in_warp(long long mine) {
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const long long lower = __shfl_up_sync(kAll, mine, step);
    if (static_cast<int>(threadIdx.x % 32) >= step) mine += lower;
  }
  return mine;
}

// Tiles before each thread's run of experts, and those of all.
__device__ std::int64_t sum_tiles(const GroupsJob& job, Shared& shared, std::int64_t run) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t end = min(job.experts, (threadIdx.x + 1) * run);
  long long own = 0;
  for (std::int64_t e = threadIdx.x * run; e < end; ++e)
    own += divide_up(job.offsets[e + 1] - job.offsets[e], height_of(job));
  const long long up_to = sum_in_warp(own);
  if (lane == 31) shared.of_warp[warp] = up_to;
  __syncthreads();
  const long long warps = sum_in_warp(shared.of_warp[lane]);
  const long long below = __shfl_sync(kAll, warps, max(warp - 1, 0));
  shared.before[threadIdx.x] = (warp == 0 ? 0 : below) + up_to - own;
  __syncthreads();
  return __shfl_sync(kAll, warps, 31);
}

// Tile t, which is one of an expert's.
__device__ GroupTile tile_of(const GroupsJob& job, const Shared& shared, std::int64_t run, std::int64_t t) {
  int thread = 0;  // the last that has no more than t tiles before it
#pragma unroll
  for (int step = kPlanThreads / 2; step > 0; step /= 2) {
    if (shared.before[thread + step] <= t) thread += step;
  }
  std::int64_t left = t - shared.before[thread];
  for (std::int64_t e = thread * run;; ++e) {
    const std::int64_t begin = job.offsets[e];
    const std::int64_t rows = job.offsets[e + 1] - begin;
    const std::int64_t tiles = divide_up(rows, height_of(job));
    if (left < tiles) {
      const std::int64_t before = left * height_of(job);
      return {begin + before, min(rows - before, height_of(job))};
    }
    left -= tiles;
  }
}

// True if offsets are right and scales as large as they say. speaks: this thread reports what is wrong.
__device__ bool check(const GroupsJob& job, Shared& shared, std::int64_t run, bool speaks, std::int64_t& tiles) {
  if (threadIdx.x == 0) shared.bad = kNone;
  __syncthreads();
  for (std::int64_t e = threadIdx.x; e <= job.experts; e += kPlanThreads) {
    const std::int64_t o = job.offsets[e];
    const bool is_wrong = (e == 0 ? o != 0 : o < job.offsets[e - 1]) || (e == job.experts && o != job.rows);
    if (!is_wrong) continue;
    atomicMin(&shared.bad, static_cast<long long>(e));
    break;
  }
  __syncthreads();
  const long long bad = shared.bad;
  if (bad != kNone) {
    const char* message = "offsets[index] must be at least the one before it";
    if (bad == 0) message = "offsets[0] must be 0";
    if (bad == job.experts) message = "the last of the offsets must be the number of rows, and none may descend";
    if (speaks) refuse(job.report, message, bad, job.offsets[bad]);
    return false;
  }
  tiles = sum_tiles(job, shared, run);
  const std::int64_t needed = tiles * scales_of_tile(job);
  if (job.claimed < 0 || job.claimed == needed) return true;
  if (speaks) {
    refuse(job.report, "scales have another size than the experts' blocks need (index: the size given)", job.claimed,
           needed);
  }
  return false;
}

__global__ void __launch_bounds__(kPlanThreads)
    groups_kernel(const __grid_constant__ GroupsJob job, GroupTile* table, std::int64_t count) {
  __shared__ Shared shared;
  const std::int64_t run = divide_up(job.experts, kPlanThreads);
  std::int64_t tiles = 0;
  const bool is_right = check(job, shared, run, blockIdx.x == 0 && threadIdx.x == 0, tiles);
  constexpr std::int64_t kStep = std::int64_t{kPlanBlocks} * kPlanThreads;
  for (std::int64_t t = std::int64_t{blockIdx.x} * kPlanThreads + threadIdx.x; t < count; t += kStep)
    table[t] = is_right && t < tiles ? tile_of(job, shared, run, t) : GroupTile{};
}

// The first row, of every kPlanBlocks * kPlanThreads-th from this thread's own on, that comes from none of x.
__device__ long long first_wrong_index(const GatherJob& job) {
  constexpr std::int64_t kStep = std::int64_t{kPlanBlocks} * kPlanThreads;
  long long first = kNone;
#pragma unroll 4
  for (std::int64_t i = std::int64_t{blockIdx.x} * kPlanThreads + threadIdx.x; i < job.groups.rows; i += kStep) {
    const std::int64_t row = job.index[i];
    if ((row < 0 || row >= job.source_rows) && i < first) first = i;
  }
  return first;
}

__global__ void __cluster_dims__(kPlanBlocks) __launch_bounds__(kPlanThreads)
    gather_kernel(const __grid_constant__ GatherJob job, GroupTile* table, std::int64_t count) {
  __shared__ Shared shared;
  __shared__ long long bad_index;
  __shared__ std::int64_t all_rows[2];  // offsets of one expert
  const auto cluster = cooperative_groups::this_cluster();
  if (threadIdx.x == 0) bad_index = kNone, all_rows[0] = 0, all_rows[1] = job.groups.rows;
  __syncthreads();
  const long long mine = first_wrong_index(job);
  if (mine != kNone) atomicMin(&bad_index, mine);
  const GroupsJob groups{.offsets = job.groups.offsets != nullptr ? job.groups.offsets : all_rows,
                         .experts = job.groups.experts,
                         .rows = job.groups.rows,
                         .cols = job.groups.cols,
                         .tiled = job.groups.tiled,
                         .claimed = job.groups.claimed,
                         .report = job.groups.report};
  const std::int64_t run = divide_up(groups.experts, kPlanThreads);
  const bool speaks = blockIdx.x == 0 && threadIdx.x == 0;
  std::int64_t tiles = 0;
  bool is_right = check(groups, shared, run, speaks, tiles);
  cluster.sync();
  long long bad = kNone;
  for (unsigned b = 0; b < kPlanBlocks; ++b) bad = min(bad, *cluster.map_shared_rank(&bad_index, b));
  if (is_right && bad != kNone) {
    if (speaks) {
      refuse(job.groups.report, "the row index must be 0 or more and less than the rows of x", bad, job.index[bad]);
    }
    is_right = false;
  }
  constexpr std::int64_t kStep = std::int64_t{kPlanBlocks} * kPlanThreads;
  for (std::int64_t t = std::int64_t{blockIdx.x} * kPlanThreads + threadIdx.x; t < count; t += kStep)
    table[t] = is_right && t < tiles ? tile_of(groups, shared, run, t) : GroupTile{};
  cluster.sync();  // a block's shared memory stays until all have read it
}

// Each expert with rows has one tile that is not full, at most.
std::int64_t most_tiles(const GroupsJob& job) {
  return job.cols == 0 ? 0 : job.rows / height_of(job) + std::min(job.experts, job.rows);
}

}  // namespace

std::uint64_t table_bytes(const GroupsJob& job) {
  return static_cast<std::uint64_t>(most_tiles(job)) * sizeof(GroupTile);
}

cudaError_t make_groups(const GroupsJob& job, void* workspace, GroupTable& table, cudaStream_t stream) {
  table.count = most_tiles(job), table.shift = job.tiled ? kTallShift : 0;
  auto* tiles = static_cast<GroupTile*>(workspace);
  table.tiles = tiles;
  groups_kernel<<<kPlanBlocks, kPlanThreads, 0, stream>>>(job, tiles, table.count);
  return cudaGetLastError();
}

cudaError_t make_gather(const GatherJob& job, void* workspace, GroupTable& table, cudaStream_t stream) {
  table.count = most_tiles(job.groups), table.shift = job.groups.tiled ? kTallShift : 0;
  auto* tiles = static_cast<GroupTile*>(workspace);
  table.tiles = tiles;
  gather_kernel<<<kPlanBlocks, kPlanThreads, 0, stream>>>(job, tiles, table.count);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
