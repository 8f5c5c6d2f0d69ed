#include "kernels/sm90/quantize/plan.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kPlanThreads = 1024;
constexpr std::int64_t kNone = INT64_MAX;

// Tiles, bands of 32 rows and groups of 4 tiles of one expert, or of all before one.
struct Sums {
  std::int64_t tiles = 0;
  std::int64_t bands = 0;
  std::int64_t quads = 0;
};

__device__ Sums operator+(Sums a, Sums b) { return {a.tiles + b.tiles, a.bands + b.bands, a.quads + b.quads}; }

__device__ Sums sums_of(std::int64_t rows) {
  const std::int64_t tiles = divide_up(rows, kTile);
  return {tiles, divide_up(rows, 32), divide_up(tiles, 4)};
}

std::uint64_t experts_at() { return 256; }
std::uint64_t table_at(std::int64_t experts) {
  return (experts_at() + static_cast<std::uint64_t>(experts + 1) * sizeof(Sums) + 255) / 256 * 256;
}

__device__ void refuse(PlanHeader* header, mxcheck_device_report* report, const char* message, std::int64_t index,
                       std::int64_t value) {
  header->status = MXCHECK_INVALID;
  if (report == nullptr) return;
  report->status = MXCHECK_INVALID;
  report->index = index, report->value = value;
  int i = 0;
  for (; message[i] != '\0' && i < static_cast<int>(sizeof(report->message)) - 1; ++i) report->message[i] = message[i];
  report->message[i] = '\0';
}

// What the scales of a claim come to with these sums.
__device__ std::int64_t needed(const ClaimedScales& claim, Sums all, std::int64_t rows) {
  if (claim.columns == 0) {
    if (claim.block_rows == 1) return rows;
    return claim.block_rows == 32 ? all.bands : all.tiles;
  }
  return (claim.block_rows == 128 ? all.quads : all.tiles) * claim.columns * kScaleTile;
}

// One block of threads. Begins the plan: header, offsets checked, sums, table of tiles.
__global__ void __launch_bounds__(kPlanThreads)
    plan_kernel(const __grid_constant__ PlanJob job, PlanHeader* header, Sums* before, RowTile* table) {
  __shared__ long long bad;
  __shared__ Sums part[kPlanThreads];
  const std::int64_t me = threadIdx.x;
  if (me == 0) bad = kNone, *header = {};
  __syncthreads();
  if (job.offsets == nullptr) return;
  const auto wrong = [&](std::int64_t e) {
    const std::int64_t o = job.offsets[e];
    return (e == 0 ? o != 0 : o < job.offsets[e - 1]) || (e == job.experts && o != job.rows);
  };
  for (std::int64_t e = me; e <= job.experts; e += kPlanThreads) {
    if (wrong(e)) atomicMin(&bad, static_cast<long long>(e));
  }
  __syncthreads();
  if (bad != kNone) {
    if (me == 0) {
      const char* message = "offsets[index] must be at least the one before it";
      if (bad == 0) message = "offsets[0] must be 0";
      if (bad == job.experts) message = "the last of the offsets must be the number of rows, and none may descend";
      refuse(header, job.report, message, bad, job.offsets[bad]);
    }
    return;
  }

  // Each thread takes a run of experts: its sum, the sums of all runs, then the sums before each expert.
  const std::int64_t run = divide_up(job.experts, kPlanThreads);
  const std::int64_t begin = min(me * run, job.experts);
  const std::int64_t end = min(begin + run, job.experts);
  Sums sum;
  for (std::int64_t e = begin; e < end; ++e) sum = sum + sums_of(job.offsets[e + 1] - job.offsets[e]);
  part[me] = sum;
  __syncthreads();
  for (int step = 1; step < kPlanThreads; step *= 2) {
    const Sums earlier = me >= step ? part[me - step] : Sums{};
    __syncthreads();
    part[me] = part[me] + earlier;
    __syncthreads();
  }
  sum = me == 0 ? Sums{} : part[me - 1];
  for (std::int64_t e = begin; e < end; ++e) {
    before[e] = sum;
    sum = sum + sums_of(job.offsets[e + 1] - job.offsets[e]);
  }
  const Sums all = part[kPlanThreads - 1];
  if (me == 0) before[job.experts] = all, header->tiles = all.tiles;
  for (const ClaimedScales& claim : job.claims) {
    if (claim.count < 0 || claim.count == needed(claim, all, job.rows)) continue;
    if (me == 0) {
      refuse(header, job.report, "scales have another size than the experts' blocks need (index: the size given)",
             claim.count, needed(claim, all, job.rows));
    }
    return;
  }
  __syncthreads();

  for (std::int64_t t = me; t < all.tiles; t += kPlanThreads) {
    std::int64_t e = 0;  // the last expert with before[e].tiles <= t: experts without rows are passed over
    for (std::int64_t above = job.experts; above - e > 1;) {
      const std::int64_t middle = (e + above) / 2;
      (before[middle].tiles <= t ? e : above) = middle;
    }
    const std::int64_t in_expert = t - before[e].tiles;
    RowTile tile;
    tile.first_row = job.offsets[e] + in_expert * kTile;
    tile.bands = before[e].bands + in_expert * (kTile / 32);
    tile.quads = before[e].quads;
    tile.rows = static_cast<std::int32_t>(min(job.offsets[e + 1] - tile.first_row, static_cast<std::int64_t>(kTile)));
    tile.in_expert = static_cast<std::int32_t>(in_expert);
    tile.of_expert = static_cast<std::int32_t>(before[e + 1].tiles - before[e].tiles);
    table[t] = tile;
  }
}

// The first index outside the source, by an atomic minimum: the same one in every run.
__global__ void index_kernel(const __grid_constant__ PlanJob job, unsigned long long* first) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < job.rows; i += step) {
    const std::int64_t row = job.index[i];
    if (row < 0 || row >= job.source_rows) atomicMin(first, static_cast<unsigned long long>(i));
  }
}

__global__ void judge_index_kernel(const __grid_constant__ PlanJob job, PlanHeader* header,
                                   const unsigned long long* first) {
  if (*first < static_cast<unsigned long long>(job.rows) && header->status == MXCHECK_OK) {
    refuse(header, job.report, "the row index must be 0 or more and less than the rows of x",
           static_cast<std::int64_t>(*first), job.index[*first]);
  }
}

}  // namespace

std::int64_t most_tiles(const PlanJob& job) {
  return job.offsets == nullptr ? divide_up(job.rows, kTile) : job.rows / kTile + job.experts;
}

std::uint64_t plan_bytes(const PlanJob& job) {
  if (job.offsets == nullptr) return job.index == nullptr ? 0 : experts_at();
  return table_at(job.experts) + static_cast<std::uint64_t>(most_tiles(job)) * sizeof(RowTile);
}

cudaError_t make_plan(const PlanJob& job, void* workspace, Rows& rows, cudaStream_t stream) {
  rows = {job.rows, most_tiles(job), nullptr, nullptr};
  if (job.offsets == nullptr && job.index == nullptr) return cudaSuccess;
  auto* base = static_cast<std::uint8_t*>(workspace);
  auto* header = reinterpret_cast<PlanHeader*>(base);
  auto* table = reinterpret_cast<RowTile*>(base + table_at(job.experts));
  plan_kernel<<<1, kPlanThreads, 0, stream>>>(job, header, reinterpret_cast<Sums*>(base + experts_at()), table);
  rows.header = header;
  if (job.offsets != nullptr) rows.table = table;
  if (job.index != nullptr && job.rows > 0) {
    auto* first = reinterpret_cast<unsigned long long*>(base + 128);
    const cudaError_t error = cudaMemsetAsync(first, 0xFF, sizeof(*first), stream);
    if (error != cudaSuccess) return error;
    const std::int64_t blocks = min(divide_up(job.rows, 256), static_cast<std::int64_t>(1024));
    index_kernel<<<static_cast<unsigned>(blocks), 256, 0, stream>>>(job, first);
    judge_index_kernel<<<1, 1, 0, stream>>>(job, header, first);
  }
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
