#pragma once
// A CTA's tile shape, shared memory and tile order.

#include <cstdint>

#include <cuda.h>

#include "kernels/sm90/gemm/matmul.h"

namespace mxcheck_kernels::sm90 {

inline constexpr int kRowBytes = 128;        // of A and B in a stage
inline constexpr int kBlockK = 128;          // columns of a stage of 8-bit codes: one scale
inline constexpr int kSharedBytes = 232448;  // of a CTA, the most there are
inline constexpr int kChunkRows = 64;        // of D on its way out

// A consumer has kRowSubs x kColSubs accumulators of 64 x kSubN, one partial at a time, and takes its rows of the tile
// or, kBeside, its columns.
// kCluster CTAs, one above the other, share the loads of B. kSlots: chunks of D that a consumer has in shared memory.
// Tiles with one consumer are for GEMMs of few rows.
template <int kRowSubs_, int kColSubs_, int kSubN_, int kCluster_, int kSlots_ = 2, int kConsumers_ = 2,
          bool kBeside_ = false>
struct MatmulShape {
  static constexpr int kConsumers = kConsumers_;
  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr int kRowSubs = kRowSubs_;
  static constexpr int kColSubs = kColSubs_;
  static constexpr int kSubN = kSubN_;
  static constexpr int kCluster = kCluster_;
  static constexpr int kSlots = kSlots_;
  static constexpr int kMaxStages = kConsumers == 2 ? 8 : kSubN == 32 ? 16 : 12;
  static constexpr bool kTransposed = false;  // D is stored with B's rows as its rows
  static constexpr int kColumns = kBlockK;    // of A and B, of a stage
  static constexpr int kARowBytes = kRowBytes;
  static constexpr int kCodesInByte = 1;  // of A
  static constexpr int kBoxesOfB = 1;     // of 128 bytes a row, next to one another along k, in a stage
  static constexpr int kSubs = kRowSubs * kColSubs;
  static constexpr int kConsumerM = 64 * kRowSubs;
  static constexpr int kConsumerN = kSubN * kColSubs;
  static constexpr bool kBeside = kBeside_;
  static constexpr int kM = kBeside ? kConsumerM : kConsumers * kConsumerM;
  static constexpr int kN = kBeside ? kConsumers * kConsumerN : kConsumerN;
  static constexpr int kAccumulators = kSubN / 2;  // of a thread and sub-tile
  static constexpr int kRowsOfB = kN / kCluster;   // that one load takes
  // A consumer's first row and column in the tile.
  static __host__ __device__ constexpr int row_of(int consumer) { return kBeside ? 0 : consumer * kConsumerM; }
  static __host__ __device__ constexpr int column_of(int consumer) { return kBeside ? consumer * kConsumerN : 0; }
  static_assert(kSubN % 32 == 0 && kN <= 256 && kM <= 256 && kRowsOfB % 8 == 0);
};

// Shared memory from its start, which is aligned to 1024 bytes; with kScales floats of scales a stage.
template <class Shape, class Out, int kScales_>
struct MatmulLayout {
  static constexpr int kABytes = Shape::kM * Shape::kARowBytes;
  static constexpr int kBBytes = Shape::kBoxesOfB * Shape::kN * kRowBytes;
  static constexpr int kScaleBytes = kScales_ * 4;
  static constexpr int kHeaderBytes = 32;
  // D leaves in chunks of 64 rows of 128 bytes, or of 64 where those of a sub-tile are no multiple of 128; swizzled.
  static constexpr int kOutSize = static_cast<int>(sizeof(Out));
  static constexpr int kChunkRowBytes = Shape::kSubN * kOutSize % 128 == 0 ? 128 : 64;
  static constexpr int kChunkBytes = kChunkRows * kChunkRowBytes;
  static constexpr int kChunkColumns = kChunkRowBytes / kOutSize;
  static constexpr int kChunks = Shape::kSubs * Shape::kSubN / kChunkColumns;  // of a consumer's part of a tile
  static constexpr int kSubChunks = Shape::kSubN / kChunkColumns;
  static constexpr int kSlots = kChunks < Shape::kSlots ? kChunks : kChunks % Shape::kSlots == 0 ? Shape::kSlots : 1;
  static constexpr int kOutBytes = Shape::kConsumers * kSlots * kChunkBytes;
  static constexpr int kStageBytes = kABytes + kBBytes + kScaleBytes + kHeaderBytes + 16;
  static constexpr int kFit = (kSharedBytes - kOutBytes - Shape::kConsumers * kSlots * 8) / kStageBytes;
  static constexpr int kStages = kFit < Shape::kMaxStages ? kFit : Shape::kMaxStages;
  static_assert(kStages >= 3);

  static constexpr int kA = 0;
  static constexpr int kB = kA + kStages * kABytes;
  static constexpr int kOut = kB + kStages * kBBytes;
  static constexpr int kScales = kOut + kOutBytes;
  static constexpr int kHeaders = kScales + kStages * kScaleBytes;
  static constexpr int kFull = kHeaders + kStages * kHeaderBytes;
  static constexpr int kEmpty = kFull + kStages * 8;
  static constexpr int kLoaded = kEmpty + kStages * 8;  // of the slots, where D is read
  static constexpr int kBytes = kLoaded + Shape::kConsumers * kSlots * 8;
  static_assert(kBytes <= kSharedBytes);
  static_assert(kB % 1024 == 0 && kOut % 1024 == 0 && kHeaders % 16 == 0 && kFull % 8 == 0);
};

// Registers of a consumer's thread and of a producer's are together those of the launch, 168 for each of 384 threads.
// With one consumer there are enough for every thread.
constexpr int producer_registers(int of_a_consumer) { return 504 - 2 * of_a_consumer; }

// BF16: 64 x kN for each consumer; kN is 32, 64, 128 or 256.
template <int kN, int kCluster, int kSlots = 2, int kConsumers = 2>
struct Bf16Shape : MatmulShape<1, 1, kN, kCluster, kSlots, kConsumers> {
  static constexpr int kColumns = kRowBytes / 2;
};

template <class Shape, class Out>
struct Bf16Shared : MatmulLayout<Shape, Out, 0> {
  static constexpr int kConsumerRegs = 208;
  static constexpr int kProducerRegs = producer_registers(kConsumerRegs);
};

// Kernel parameters.
struct MatmulJob {
  MatmulKind kind = MatmulKind::dense;
  bool a_e8m0 = false;
  bool b_e8m0 = false;
  bool accumulate = false;
  bool d_tiled = false;    // TMA may read C and write D
  bool d_aligned = false;  // 16-byte accesses may
  int raster = 16;         // row tiles that are worked on side by side
  int experts = 1;
  int capacity = 0;  // rows of a masked group
  int m = 0;
  int n = 0;
  int kblocks = 0;  // stages of k; the last may have fewer columns
  // In a stage, by TMA, of A and of B's part that one CTA of a cluster loads: fewer than a tile has where the matrix
  // has fewer rows.
  int a_bytes = 0;
  int b_bytes = 0;
  int scale_columns = 0;  // of a row's scales, where a stage has one
  float alpha = 1;
  const float* alpha_at = nullptr;  // in place of alpha
  std::int64_t k = 0;
  const std::uint8_t* a = nullptr;
  const void* scale_a = nullptr;
  const void* scale_b = nullptr;
  const void* c = nullptr;
  void* d = nullptr;
  const std::int64_t* offsets = nullptr;       // experts' ends; of masked groups how many rows each has
  const std::int64_t* scale_starts = nullptr;  // an expert's first column of scales; null: its first stage
  const std::int32_t* row_index = nullptr;
  const std::int32_t* status = nullptr;
};

// Experts have rows of their own, and a matrix B each.
__device__ __forceinline__ bool has_matrices(const MatmulJob& job) {
  return job.kind == MatmulKind::rows || job.kind == MatmulKind::masked;
}

// TMA's view of A, B, C and D.
struct MatmulMaps {
  CUtensorMap a;
  CUtensorMap b;
  CUtensorMap c;
  CUtensorMap d;
};

// The tile as it travels from the producer to the consumers, with the first stage of the tile.
struct alignas(16) MatmulTile {
  int expert = 0;
  int row = 0;
  int rows = 0;  // of the expert, from `row` on; may be 0 and may be more than a tile's
  int col = 0;
  int kblock = 0;   // first column of scales, where a stage has one
  int kblocks = 0;  // kNoTile: the CTA is done
  int k = 0;        // first column of A and B
  int tail = 0;     // columns of the last stage that are the expert's, of groups along depth; 0: all are
};
static_assert(sizeof(MatmulTile) == 32);
inline constexpr int kNoTile = -1;

// A CTA's tiles, in order, from its cluster's number. Every warp that needs them has a schedule of its own; its lanes
// call together.
template <class Shape>
class MatmulSchedule {
 public:
  __device__ __forceinline__ MatmulSchedule(const MatmulJob& job, unsigned rank)
      : job_(job), rank_(rank), unit_(blockIdx.x / Shape::kCluster) {
    if (has_matrices(job_)) {
      window(0);
    } else {
      const unsigned of_expert = units(job_.m);
      end_ = job_.kind == MatmulKind::depth ? of_expert * static_cast<unsigned>(job_.experts) : of_expert;
    }
  }

  __device__ __forceinline__ bool next(MatmulTile& tile) {
    unsigned id = unit_;
    unit_ += gridDim.x / Shape::kCluster;
    int first_row = 0;
    int rows = job_.m;
    tile.expert = 0;
    tile.kblock = tile.k = tile.tail = 0;
    tile.kblocks = job_.kblocks;
    if (has_matrices(job_)) {
      while (id >= end_) {
        if (window_ + 32 >= job_.experts) return false;
        window(window_ + 32);
      }
      const int at = __ffs(static_cast<int>(__ballot_sync(kAllLanes, id < lane_end_))) - 1;
      rows = __shfl_sync(kAllLanes, lane_rows_, at);
      first_row = __shfl_sync(kAllLanes, lane_row_, at);
      id -= __shfl_sync(kAllLanes, lane_end_, at) - units(rows);
      tile.expert = window_ + at;
    } else {
      if (id >= end_) return false;
      if (job_.kind == MatmulKind::depth) {
        const unsigned of_expert = units(rows);
        tile.expert = static_cast<int>(id / of_expert);
        id %= of_expert;
        const std::int64_t first = tile.expert == 0 ? 0 : job_.offsets[tile.expert - 1];
        const int depth = static_cast<int>(job_.offsets[tile.expert] - first);
        tile.k = static_cast<int>(first);
        tile.kblock =
            job_.scale_starts == nullptr ? tile.k / Shape::kColumns : static_cast<int>(job_.scale_starts[tile.expert]);
        tile.kblocks = depth / Shape::kColumns + (depth % Shape::kColumns != 0 ? 1 : 0);  // depth may be 2^31 - 1
        tile.tail = depth % Shape::kColumns;
      }
    }
    // Bands of job.raster row tiles, column by column.
    const unsigned band = static_cast<unsigned>(job_.raster) / Shape::kCluster;
    const unsigned of_band = cols() * band;
    const unsigned before = id / of_band * band;
    const unsigned in_band = id % of_band;
    const unsigned high = min(band, row_units(rows) - before);
    const unsigned row = (before + in_band % high) * Shape::kCluster + rank_;
    const std::int64_t offset = std::int64_t{row} * Shape::kM;
    tile.rows = static_cast<int>(max(std::int64_t{rows} - offset, std::int64_t{0}));
    // A CTA whose row tile is past the end only keeps its cluster's loads and barriers going: it multiplies zeros,
    // another expert's rows or what a stage held before, and stores nothing.
    tile.row = tile.rows > 0 ? first_row + static_cast<int>(offset) : first_row;
    tile.col = static_cast<int>(in_band / high * Shape::kN);
    return true;
  }

 private:
  static constexpr unsigned kAllLanes = 0xFFFFFFFF;

  __device__ __forceinline__ unsigned cols() const {
    return (static_cast<unsigned>(job_.n) + Shape::kN - 1) / Shape::kN;
  }
  static __device__ __forceinline__ unsigned row_units(int rows) {
    constexpr unsigned kUnit = Shape::kM * Shape::kCluster;
    return (static_cast<unsigned>(rows) + kUnit - 1) / kUnit;
  }
  __device__ __forceinline__ unsigned units(int rows) const { return row_units(rows) * cols(); }

  // A lane for each of 32 experts from `first` on: its rows, and the number of the unit after its last.
  __device__ __forceinline__ void window(int first) {
    window_ = first;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int expert = first + lane;
    const bool inside = expert < job_.experts;
    if (job_.kind == MatmulKind::masked) {
      lane_row_ = inside ? expert * job_.capacity : 0;
      lane_rows_ = inside ? static_cast<int>(job_.offsets[expert]) : 0;
    } else {
      lane_row_ = inside && expert > 0 ? static_cast<int>(job_.offsets[expert - 1]) : 0;
      lane_rows_ = inside ? static_cast<int>(job_.offsets[expert]) - lane_row_ : 0;
    }
    lane_end_ = units(lane_rows_);
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
      const unsigned below = __shfl_up_sync(kAllLanes, lane_end_, by);
      if (lane >= by) lane_end_ += below;
    }
    lane_end_ += end_;
    end_ = __shfl_sync(kAllLanes, lane_end_, 31);
  }

  const MatmulJob& job_;
  unsigned rank_;
  unsigned unit_;     // of kCluster row tiles; the host checks that it fits 32 bits
  unsigned end_ = 0;  // units before the end of the window, or of everything
  int window_ = 0;
  int lane_row_ = 0;
  int lane_rows_ = 0;
  unsigned lane_end_ = 0;
};

}  // namespace mxcheck_kernels::sm90
