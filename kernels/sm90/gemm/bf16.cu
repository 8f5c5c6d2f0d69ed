// The GEMM of BF16 (matmul_bf16_launch): persistent, one producer warpgroup and two consumer warpgroups, a ring of
// stages of 64 columns in shared memory.
//
// Warps of the producer:
//   0     the schedule, TMA of A and B
//   2, 3  rows of A that are gathered
// A consumer has 64 rows of the tile and one chain of mma a thread's accumulator; a stage's mma are begun
// before those of the stage before are waited for.

#include <cstdint>
#include <type_traits>

#include <cuda_bf16.h>

#include "kernels/sm90/gemm/kernel.cuh"
#include "kernels/sm90/gemm/matmul.h"
#include "kernels/sm90/gemm/ring.cuh"
#include "kernels/sm90/gemm/tiles.h"

namespace mxcheck_kernels::sm90 {

template <class Shape_, class Out>
struct Bf16Matmul : MatmulRing<Shape_, Bf16Shared<Shape_, Out>, 2, 2> {
  using Shape = Shape_;
  using Shared = Bf16Shared<Shape, Out>;
  using Ring = MatmulRing<Shape, Shared, 2, 2>;
  using Cursor = typename Ring::Cursor;
  static constexpr int kAcc = Shape::kAccumulators;
  static constexpr int kClocksBehind = 600;

  __device__ __forceinline__ void init_barriers() const { Ring::init_ring(1); }

  __device__ __forceinline__ void produce(int warp, const MatmulMaps& maps) const {
    if (warp == 0) {
      Ring::produce_codes(maps);
    } else if (warp >= 2 && Ring::job.row_index != nullptr) {
      Ring::gather_rows(warp - 2);
    }
  }

  __device__ __forceinline__ void consume(float (&acc)[kAcc], Cursor& at, const MatmulTile& tile,
                                          const MatmulConsumer& me) const {
    int before = 0;
    const auto stage = [&](int kb) {
      const std::uint64_t a = Ring::a_operand(at.stage, me.index * Shape::kConsumerM * kRowBytes);
      chain_stage(*this, acc, at, before, kb, [a](int step) { return a + step * 2; });
    };
    const int whole = tile.tail == 0 ? tile.kblocks : tile.kblocks - 1;
#pragma unroll 4
    for (int kb = 0; kb < whole; ++kb) {
      Ring::wait_full(at);
      stage(kb);
    }
    // No mma may be in flight where the last stage's columns are cleared: ptxas would wait after every one, in the loop
    // too (a third more time).
    ptx::warpgroup_wait<0>();
    ptx::warpgroup_fence_operand(acc);
    if (whole < tile.kblocks) {
      Ring::wait_full(at);
      Ring::clear_tail(at.stage, tile, me.index * 128 + me.thread);
      stage(whole);
      ptx::warpgroup_wait<0>();
      ptx::warpgroup_fence_operand(acc);
    }
    Ring::release(before);
  }

  __device__ __forceinline__ void run_consumer(const CUtensorMap* c_map, const CUtensorMap* d_map, int index) const {
    // The second consumer is delayed, so that the consumers' epilogues do not coincide: on an H200 8 groups of 4096
    // rows, 4096x7168, are 1.2 % faster for it, ragged ones of 7168x2048 0.6 % slower.
    if (index == 1) {
      ptx::mbarrier_wait_parity(Ring::full(0), 0);
      const long long from = clock64();
      while (clock64() - from < kClocksBehind) {
      }
    }
    consume_tiles<Out>(
        *this, c_map, d_map, index,
        [&](float(&acc)[1][kAcc], Cursor& at, const MatmulTile& tile, const MatmulConsumer& me, const auto& read_c) {
          read_c();
          consume(acc[0], at, tile, me);
        });
  }
};

template <class Shape, class Out>
cudaError_t matmul_bf16_start(const MatmulCall& matmul, int raster, cudaStream_t stream) {
  MatmulMaps maps;
  MatmulJob job;
  using Tile = Bf16Matmul<Shape, Out>;
  if (const auto e = matmul_prepare(matmul, 2, 2, boxes_of<Tile>(), maps, job); e != cudaSuccess) return e;
  job.raster = raster;
  return matmul_start<Tile>(maps, job, stream);
}

namespace {

template <std::size_t kRow, class Out>
using Bf16Tiles = Bf16Shape<kTilesTable[kRow].sub_n, kTilesTable[kRow].cluster,
                            std::is_same_v<Out, float> ? kTilesTable[kRow].slots_fp32 : kTilesTable[kRow].slots,
                            kTilesTable[kRow].consumers>;
constexpr int kRaster = 16;

template <class Out>
cudaError_t launch(const MatmulCall& matmul, cudaStream_t stream) {
  return with_tiles<MatmulKernel::bf16>(chosen_tiles(matmul, MatmulKernel::bf16), [&](auto row) {
    return matmul_bf16_start<Bf16Tiles<row.value, Out>, Out>(matmul, kRaster, stream);
  });
}

}  // namespace

cudaError_t matmul_bf16_launch(const MatmulCall& matmul, cudaStream_t stream) {
  if (matmul_empty(matmul)) return cudaSuccess;
  if (!matmul_valid(matmul, 8)) return cudaErrorInvalidValue;
  return matmul.output == MatmulOutput::fp32 ? launch<float>(matmul, stream) : launch<__nv_bfloat16>(matmul, stream);
}

}  // namespace mxcheck_kernels::sm90
