#pragma once
// The kernel that every GEMM is, and its launch: a consumer's tiles, the chain of BF16 mma, what is checked on the host
// and TMA's maps.
//
// A Tile has Shape, Shared, kElementBytes and, on the device, init_barriers(), produce(warp, maps) and
// run_consumer(map of C, map of D, index).

#include <cstdint>
#include <type_traits>

#include <cuda.h>

#include "kernels/sm90/gemm/output.cuh"
#include "kernels/sm90/gemm/tile.cuh"
#include "kernels/sm90/ptx/ptx.cuh"
#include "kernels/sm90/ptx/wgmma.cuh"

namespace mxcheck_kernels::sm90 {

// --- consumers -------------------------------------------------------------------------------------------------------

template <int kSubs, int kAcc>
__device__ __forceinline__ void multiply_all(float (&acc)[kSubs][kAcc], float by) {
#pragma unroll
  for (auto& one : acc) {
#pragma unroll
    for (float& value : one) value = __fmul_rn(value, by);
  }
}

// consume(acc, at, tile, me, read_c): the mma of a tile that has columns, from zeros; it calls read_c() once, after
// which C is on its way to the slots.
template <class Out, class Tile, class Consume>
__device__ __forceinline__ void consume_tiles(const Tile& matmul, const CUtensorMap* c_map, const CUtensorMap* d_map,
                                              int index, const Consume& consume) {
  using Shape = typename Tile::Shape;
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const MatmulConsumer me = {index, thread, __shfl_sync(Tile::kAllLanes, thread / 32, 0)};
  const MatmulStore<Shape, typename Tile::Shared, Out> out = {matmul.job, matmul.shared, matmul.lane, me};
  typename Tile::Cursor at;
  std::uint32_t uses = 0;
  while (true) {
    ptx::mbarrier_wait_parity(matmul.full(at.stage), at.parity);
    const MatmulTile tile = matmul.read_header(at.stage);
    if (tile.kblocks == kNoTile) break;
    const auto read_c = [&] { out.load_first(c_map, tile); };
    float acc[Shape::kSubs][Shape::kAccumulators];
#pragma unroll
    for (auto& one : acc) {
#pragma unroll
      for (float& value : one) value = 0;
    }
    if (tile.kblocks == 0) {
      read_c();
      matmul.release(at.stage);
      at.advance();
    } else {
      consume(acc, at, tile, me, read_c);
    }
    const float alpha = matmul.job.alpha_at == nullptr ? matmul.job.alpha : *matmul.job.alpha_at;
    if (alpha != 1) multiply_all(acc, alpha);
    out.store_tile(acc, c_map, d_map, tile, uses);
  }
  out.finish();
}

// mma of kSteps of 16 columns, added to the chain, or the chain's first; a(i): A of step i. Those before them are done
// when this returns.
template <int kSteps, int kAcc, class Operand>
__device__ __forceinline__ void chain_steps(float (&acc)[kAcc], std::uint64_t b, bool add, const Operand& a) {
  ptx::warpgroup_fence_operand(acc);
  ptx::warpgroup_arrive();
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    const int begun = add || i != 0 ? 1 : 0;
    if constexpr (std::is_same_v<std::decay_t<decltype(a(i))>, std::uint64_t>) {
      ptx::wgmma<Code::bf16, Code::bf16>(acc, a(i), ptx::advance_smem_desc(b, i * 2), begun);
    } else {
      ptx::wgmma_bf16(acc, a(i), ptx::advance_smem_desc(b, i * 2), begun);
    }
  }
  ptx::warpgroup_commit_batch();
  ptx::warpgroup_fence_operand(acc);
  ptx::warpgroup_wait<1>();
}

// A stage's mma, added to the chain while those of the stage `before` may still be on their way.
template <class Tile, int kAcc, class Operand>
__device__ __forceinline__ void chain_stage(const Tile& matmul, float (&acc)[kAcc], typename Tile::Cursor& at,
                                            int& before, int kb, const Operand& a) {
  chain_steps<Tile::Shape::kColumns / 16>(acc, matmul.b_operand(at.stage), kb != 0, a);
  if (kb != 0) matmul.release(before);
  before = at.stage;
  at.advance();
}

template <class Tile, int kAcc>
__device__ __forceinline__ void chain_end(const Tile& matmul, float (&acc)[kAcc], int before) {
  ptx::warpgroup_wait<0>();
  ptx::warpgroup_fence_operand(acc);
  matmul.release(before);
}

// --- the kernel ------------------------------------------------------------------------------------------------------

template <class Tile>
__global__ void __launch_bounds__(Tile::Shape::kThreads, 1)
    matmul_kernel(const __grid_constant__ MatmulMaps maps, const __grid_constant__ MatmulJob job) {
  using Shape = typename Tile::Shape;
  extern __shared__ __align__(1024) std::uint8_t memory[];
  const int warp = __shfl_sync(0xFFFFFFFF, static_cast<int>(threadIdx.x) / 32, 0);
  const Tile matmul = {{job, ptx::shared_address(memory), Shape::kCluster == 1 ? 0 : ptx::cluster_ctarank(),
                        static_cast<int>(threadIdx.x) % 32}};
  if (threadIdx.x == 0) matmul.init_barriers();
  __syncthreads();
  if constexpr (Shape::kCluster > 1) ptx::barrier_cluster();
  // The launch and what is above run under the end of the kernel before: 0.4 us of 12 for 128 rows.
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  if (job.status != nullptr && *job.status != 0) return;
  if (warp < 4) {
    if constexpr (Shape::kConsumers > 1) ptx::setmaxnreg_dec<Tile::Shared::kProducerRegs>();
    matmul.produce(warp, maps);
  } else {
    if constexpr (Shape::kConsumers > 1) ptx::setmaxnreg_inc<Tile::Shared::kConsumerRegs>();
    matmul.run_consumer(&maps.c, &maps.d, warp / 4 - 1);
  }
  // Shared memory that a neighbour may still write or signal stays.
  if constexpr (Shape::kCluster > 1) {
    __syncwarp();
    ptx::barrier_cluster();
  }
}

// --- its launch ------------------------------------------------------------------------------------------------------

// True if a kernel may be launched for the call; `multiple` is what k must be one of.
bool matmul_valid(const MatmulCall& matmul, int multiple);
// Nothing is to be done.
bool matmul_empty(const MatmulCall& matmul);

// Matrices of rows x cols elements one after the other, in boxes of 128, 64 or 32 bytes by `box_rows`, swizzled;
// launch.cu.
cudaError_t encode_map(CUtensorMap& map, CUtensorMapDataType type, int bytes, const void* data, std::int64_t cols,
                       std::int64_t rows, std::int64_t matrices, int box_rows, int box_bytes = kRowBytes);

// Rows of a box of `tile_rows`: no more than the matrix has, rounded up to 8. Boxes that reach past it are slow.
int box_rows_of(std::int64_t rows, int tile_rows);

// The boxes that TMA moves at a time: columns and rows of A and of B, and bytes of a row of C and D.
struct MatmulBoxes {
  int columns = 0;  // of a stage
  int a_rows = 0;
  int b_rows = 0;
  int d_row_bytes = kRowBytes;
  int a_codes_in_byte = 1;
};

template <class Tile>
constexpr MatmulBoxes boxes_of() {
  return {Tile::Shape::kColumns, Tile::Shape::kM, Tile::Shape::kRowsOfB, Tile::Shared::kChunkRowBytes,
          Tile::Shape::kCodesInByte};
}

// The maps of C and D, and the job but for its scales; those of A and B are left empty. stage_columns: of k.
cudaError_t matmul_prepare_output(const MatmulCall& matmul, int stage_columns, int d_row_bytes, MatmulMaps& maps,
                                  MatmulJob& job);

// Maps for a shape's boxes, and the job but for its scales; launch.cu. a_bytes, b_bytes: of an element. Not for
// m, n = 0.
cudaError_t matmul_prepare(const MatmulCall& matmul, int a_bytes, int b_bytes, const MatmulBoxes& boxes,
                           MatmulMaps& maps, MatmulJob& job);

template <class Tile>
cudaError_t matmul_start(const MatmulMaps& maps, const MatmulJob& job, cudaStream_t stream) {
  constexpr int kCluster = Tile::Shape::kCluster;
  const auto kernel = matmul_kernel<Tile>;
  int device = 0;
  int processors = 0;
  if (const auto e = cudaGetDevice(&device); e != cudaSuccess) return e;
  if (const auto e = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device); e != cudaSuccess) {
    return e;
  }
  if (const auto e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::Shared::kBytes);
      e != cudaSuccess) {
    return e;
  }
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = kCluster;
  attributes[1].val.clusterDim.y = 1;
  attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(processors / kCluster * kCluster));
  config.blockDim = dim3(Tile::Shape::kThreads);
  config.dynamicSmemBytes = Tile::Shared::kBytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = kCluster > 1 ? 2 : 1;
  return cudaLaunchKernelEx(&config, kernel, maps, job);
}

}  // namespace mxcheck_kernels::sm90
