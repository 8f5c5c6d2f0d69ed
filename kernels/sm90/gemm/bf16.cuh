#pragma once
// The GEMM kernel of bf16.h: persistent, one producer warpgroup and two consumer warpgroups, a ring of stages of 64
// columns in shared memory.
//
// Warps of the producer:
//   0     the schedule, TMA of A and B
//   2, 3  rows of A that are gathered
// A consumer has 64 rows of the tile and one chain of products a thread's accumulator; a stage's products are begun
// before those of the stage before are waited for.

#include <cstdint>

#include <cuda_bf16.h>

#include "kernels/sm90/gemm/bf16.h"
#include "kernels/sm90/gemm/bf16_wgmma.cuh"
#include "kernels/sm90/gemm/launch.cuh"
#include "kernels/sm90/gemm/output.cuh"
#include "kernels/sm90/gemm/ring.cuh"

namespace mxcheck_sm90 {

// 128 x kN; kN is 128 or 256.
template <int kN, int kCluster, int kSlots = 2>
struct Bf16Shape : GemmShape<1, 1, kN, kCluster, false, false, kSlots> {
  static constexpr int kColumns = kRowBytes / 2;
};

template <class Shape, class Out>
struct Bf16Shared : GemmLayout<Shape, Out, 0> {
  static constexpr int kConsumerRegs = 208;
  static constexpr int kProducerRegs = producer_registers(kConsumerRegs);
};

template <class Shape_, class Out>
struct Bf16Gemm : GemmRing<Shape_, Bf16Shared<Shape_, Out>, 2, 2> {
  using Shape = Shape_;
  using Shared = Bf16Shared<Shape, Out>;
  using Ring = GemmRing<Shape, Shared, 2, 2>;
  using Cursor = typename Ring::Cursor;
  static constexpr int kAcc = Shape::kAccumulators;
  static constexpr int kSteps = Shape::kColumns / 16;

  __device__ __forceinline__ void init_barriers() const { Ring::init_ring(1); }

  __device__ __forceinline__ void produce(int warp, const CUtensorMap* a_map, const CUtensorMap* b_map) const {
    if (warp == 0) {
      Ring::produce_codes(a_map, b_map);
    } else if (warp >= 2 && Ring::job.row_index != nullptr) {
      Ring::gather_rows(warp - 2);
    }
  }

  // A tile's products, one group of steps in flight while the next is begun.
  __device__ __forceinline__ void consume(float (&acc)[kAcc], Cursor& at, int kblocks, int consumer) const {
    int before = 0;
    for (int kb = 0; kb < kblocks; ++kb) {
      ptx::barrier_wait(Ring::full(at.stage), at.parity);
      const std::uint64_t a = ptx::wgmma_operand(Ring::a_stage(at.stage) + consumer * Shape::kConsumerM * kRowBytes);
      const std::uint64_t b = ptx::wgmma_operand(Ring::b_stage(at.stage));
      ptx::wgmma_hold(acc);
      ptx::wgmma_fence();
#pragma unroll
      for (int i = 0; i < kSteps; ++i) ptx::wgmma_bf16(acc, a + i * 2, b + i * 2, kb + i != 0);
      ptx::wgmma_commit();
      ptx::wgmma_hold(acc);
      ptx::wgmma_wait<1>();
      if (kb != 0) Ring::release(before);
      before = at.stage;
      at.advance();
    }
    ptx::wgmma_wait<0>();
    ptx::wgmma_hold(acc);
    Ring::release(before);
  }

  __device__ __forceinline__ void run_consumer(const CUtensorMap* c_map, const CUtensorMap* d_map, int index) const {
    const int thread = static_cast<int>(threadIdx.x) % 128;
    const GemmConsumer me = {index, thread, __shfl_sync(Ring::kAllLanes, thread / 32, 0)};
    const GemmStore<Shape, Shared, Out> out = {Ring::job, Ring::shared, Ring::lane, me};
    Cursor at;
    std::uint32_t uses = 0;
    while (true) {
      ptx::barrier_wait(Ring::full(at.stage), at.parity);
      const GemmTile tile = Ring::read_header(at.stage);
      if (tile.kblocks == kNoTile) break;
      out.load_first(c_map, tile);
      float acc[1][kAcc];
#pragma unroll
      for (float& value : acc[0]) value = 0;
      if (tile.kblocks == 0) {
        Ring::release(at.stage);
        at.advance();
      } else {
        consume(acc[0], at, tile.kblocks, index);
      }
      out.store_tile(acc, c_map, d_map, tile, uses);
    }
    out.finish();
  }
};

template <class Shape, class Out>
cudaError_t gemm_bf16_start(const GemmCall& gemm, int raster, cudaStream_t stream) {
  GemmMaps maps;
  GemmJob job;
  if (const auto e = gemm_prepare(gemm, 2, 2, Shape::kM, Shape::kN / Shape::kCluster, maps, job); e != cudaSuccess) {
    return e;
  }
  job.raster = raster;
  return gemm_start<Bf16Gemm<Shape, Out>>(maps, job, stream);
}

}  // namespace mxcheck_sm90
