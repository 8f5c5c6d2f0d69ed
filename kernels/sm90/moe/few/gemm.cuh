#pragma once
// The GEMM of few tokens: persistent, as many blocks of threads as are resident, each with every so many'th tile; one
// or two warpgroups multiply, one or two warps fill the ring (ring.cuh).

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/sm90/common/processors.h"
#include "kernels/sm90/gemm/kernel.cuh"
#include "kernels/sm90/moe/few/ends.cuh"

namespace mxcheck_kernels::sm90 {

// Coder makes the codes of A, and of weights on their way; NoCoder for BF16.
template <class Shape, class Coder>
struct FewGemm {
  const FewRing<Shape>& ring;
  const Coder& coder;
  const Rounding& rule;

  template <int kN>
  __device__ __forceinline__ void tile(typename FewRing<Shape>::Cursor& at, const FewUnit& u,
                                       const FewPlace& me) const {
    float acc[kN / 2];
#pragma unroll
    for (float& value : acc) value = 0;
    if constexpr (Shape::kWeights == FewWeights::bf16) {
      multiply_bf16<Shape, kN>(ring, at, acc, me);
    } else if constexpr (Shape::kWeights == FewWeights::blocks) {
      multiply_blocks<Shape, kN>(ring, at, acc, coder, me);
    } else {
      multiply_codes<Shape, kN>(ring, at, acc, me);
    }
    store_few<Shape, kN>(ring.job, u, acc, me);
  }

  __device__ __forceinline__ void finish(const FewUnit& u, int items) const {
    const FewGemmJob& job = ring.job;
    if (!job.up) {
      if (is_last(ring, job.counters + u.tile, static_cast<std::uint32_t>(items))) {
        finish_columns<Shape>(job.aggregate, u);
      }
      return;
    }
    const FewGroup group = group_of(ring, u);
    const auto groups = static_cast<std::int64_t>((job.swiglu.n + kFewGroup - 1) / kFewGroup);
    if (!is_last(ring, job.counters + u.number * groups + group.number, group.tiles)) return;
    if (job.swiglu.interleaved) {
      finish_group<Shape, true>(job, u.item, group.number, coder, rule);
    } else {
      finish_group<Shape, false>(job, u.item, group.number, coder, rule);
    }
  }

  __device__ __forceinline__ void consume() const {
    const int thread = static_cast<int>(threadIdx.x);
    const FewPlace me{thread / 128, __shfl_sync(kAllLanes, thread / 32 % 4, 0), thread % 32};
    ptx::griddepcontrol_wait();
    ptx::griddepcontrol_launch_dependents();
    const int items = ring.items();
    const unsigned all = ring.units(items);
    typename FewRing<Shape>::Cursor at;
    for (unsigned i = blockIdx.x; i < all; i += gridDim.x) {
      const FewUnit u = ring.unit(i);
      if constexpr (Shape::kRows == 128) {
        if (u.item.rows <= 32) {
          tile<32>(at, u, me);
        } else if (u.item.rows <= 64) {
          tile<64>(at, u, me);
        } else {
          tile<128>(at, u, me);
        }
      } else {
        tile<Shape::kRows>(at, u, me);
      }
      finish(u, items);
    }
  }
};

template <class Shape, class Coder>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kPerProcessor)
    few_gemm(const __grid_constant__ FewMaps maps, const __grid_constant__ FewGemmJob job,
             const __grid_constant__ FewTiles tiles, const __grid_constant__ Coder coder,
             const __grid_constant__ Rounding rule) {
  extern __shared__ __align__(1024) std::uint8_t memory[];
  const FewRing<Shape> ring{job, tiles, ptx::shared_address(memory)};
  if (threadIdx.x == 0) ring.init();
  __syncthreads();
  const int warp = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp < Shape::kConsumers / 32) {
    FewGemm<Shape, Coder>{ring, coder, rule}.consume();
  } else if (warp == Shape::kConsumers / 32) {
    if (threadIdx.x % 32 == 0) ring.produce(maps);
  } else if constexpr (Shape::kFp8) {
    ring.produce_scales();
  }
}

// --- the launch ----

// Weights in boxes of a stage, or of 64 columns of one.
template <class Shape>
cudaError_t encode_weights_map(CUtensorMap& map, const void* w, std::int64_t k, std::int64_t columns,
                               std::int64_t experts) {
  if constexpr (Shape::kWeights == FewWeights::codes) {
    return encode_map(map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 1, w, k, columns, experts, Shape::kColumns);
  } else {
    return encode_map(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, w, columns, k, experts, kFewStage);
  }
}

template <class Shape>
cudaError_t few_maps(const FewGemmJob& job, FewMaps& maps) {
  const cudaError_t e = encode_weights_map<Shape>(maps.w, job.w, job.k, job.columns, job.experts);
  if (e != cudaSuccess) return e;
  const auto x_type = Shape::kFp8 ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  return encode_map(maps.x, x_type, Shape::kFp8 ? 1 : 2, job.x, job.k, job.rows + kFewSlack, 1, Shape::kBox);
}

template <class Shape>
FewTiles few_tiles(const FewGemmJob& job) {
  const auto up = [](std::int64_t a, std::int64_t b) { return static_cast<int>((a + b - 1) / b); };
  FewTiles tiles;
  tiles.kblocks = up(job.k, kFewStage);
  const bool halves = job.up && !job.swiglu.interleaved;
  tiles.half = halves ? up(job.columns / 2, Shape::kColumns) : 0;
  tiles.tiles = halves ? 2 * tiles.half : up(job.columns, Shape::kColumns);
  return tiles;
}

template <class Shape, class Coder>
cudaError_t start_few(const FewGemmJob& job, const Coder& coder, const Rounding& rule, cudaStream_t stream) {
  const auto kernel = few_gemm<Shape, Coder>;
  FewMaps maps;
  int processors = 0;
  cudaError_t e = few_maps<Shape>(job, maps);
  if (e == cudaSuccess) e = count_processors(processors);
  if (e == cudaSuccess) e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::kBytes);
  if (e != cudaSuccess) return e;
  const FewTiles tiles = few_tiles<Shape>(job);
  const std::int64_t most = job.most_items * tiles.tiles;
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(std::min<std::int64_t>(processors * Shape::kPerProcessor, most)));
  config.blockDim = dim3(Shape::kThreads);
  config.dynamicSmemBytes = Shape::kBytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, maps, job, tiles, coder, rule);
}

}  // namespace mxcheck_kernels::sm90
