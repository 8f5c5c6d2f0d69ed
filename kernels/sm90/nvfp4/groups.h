#pragma once
// Rows of experts, one after the other, whose blocks and tiles of scales begin again at each: offsets are checked on
// the device, where they are, before anything is written, and become a table of tiles of one expert's rows each.
//
// Behind the table rows have numbers of their own, as if each expert were filled up to whole tiles: tile t is rows from
// t * height on, and so is its place among the scales. A kernel works with these numbers on a job whose pointers were
// moved (job_of_part).

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/candidate.h"
#include "kernels/common/nvfp4/options.h"
#include "kernels/sm90/nvfp4/nvfp4.h"

namespace mxcheck_kernels::sm90 {

inline constexpr int kGroupRows = 16;  // of the least tile, and of those that a block of threads has

// Rows of a tile, which has a row at least; without rows it is none, and all are where offsets were refused.
struct alignas(16) GroupTile {
  std::int64_t first = 0;
  std::int64_t rows = 0;
};

struct GroupsJob {
  const std::int64_t* offsets = nullptr;  // experts + 1
  std::int64_t experts = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  bool tiled = false;         // tiles have 128 rows, else 16
  std::int64_t claimed = -1;  // bytes of scales, if tiled, else rows of them; -1: anything
  mxcheck_device_report* report = nullptr;
};

// The part of it that kernels take.
struct GroupTable {
  const GroupTile* tiles = nullptr;
  std::int64_t count = 0;  // at most
  int shift = 0;           // 2^shift parts of 16 rows are a tile
  [[nodiscard]] __host__ __device__ std::int64_t parts() const { return count << shift; }
};

// Bytes of the table; 0 where no element is.
std::uint64_t table_bytes(const GroupsJob& job);

// Enqueues the check, which no call may leave out, and the table. workspace: of table_bytes.
cudaError_t make_groups(const GroupsJob& job, void* workspace, GroupTable& table, cudaStream_t stream);

// Like quantize_nvfp4 and dequantize_nvfp4, where job.rows is that of all experts.
cudaError_t quantize_nvfp4_groups(const Nvfp4Job& job, const Nvfp4OptionJob& options, int block_rows,
                                  Nvfp4Values values, const GroupTable& groups, cudaStream_t stream);
cudaError_t dequantize_nvfp4_groups(const Nvfp4ValuesJob& job, Nvfp4Values values, bool vector,
                                    const GroupTable& groups, cudaStream_t stream);

#ifdef __CUDACC__
// moved: rows between part `number` of all tiles, 16 rows, and its place if there were no gaps: pointers of rows
// move by it. end: the first number after its rows. False: it belongs to no tile.
__device__ __forceinline__ bool find_part(const GroupTable& groups, std::int64_t number, std::int64_t& moved,
                                          std::int64_t& end) {
  const auto word = __ldg(reinterpret_cast<const longlong2*>(groups.tiles) + (number >> groups.shift));
  const GroupTile tile{word.x, word.y};
  if (tile.rows == 0) return false;
  const std::int64_t before = (number - (number >> groups.shift << groups.shift)) * kGroupRows;
  moved = tile.first + before - number * kGroupRows;
  end = number * kGroupRows + max(std::int64_t{0}, tile.rows - before);
  return true;
}
#endif

}  // namespace mxcheck_kernels::sm90
