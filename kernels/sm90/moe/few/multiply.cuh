#pragma once
// A tile of a GEMM of few tokens: D^T in a warpgroup's accumulators, 64 columns of weights by an item's rows, under the
// contract of its recipe (gemm/matmul.h).

#include <cstdint>

#include "kernels/sm90/layer/steps/coder.cuh"
#include "kernels/sm90/moe/few/ring.cuh"
#include "kernels/sm90/ptx/ptx.cuh"
#include "kernels/sm90/ptx/wgmma.cuh"

namespace mxcheck_kernels::sm90 {

// A thread that multiplies.
struct FewPlace {
  int group;  // its warpgroup
  int warp;   // in its warpgroup
  int lane;
};

// --- BF16: one chain over k. Columns of weights lie with k from row to row. ----

template <class Shape, int kN>
__device__ __forceinline__ void multiply_bf16(const FewRing<Shape>& ring, typename FewRing<Shape>::Cursor& at,
                                              float (&acc)[kN / 2], const FewPlace& me) {
  constexpr std::uint32_t kBlockBytes = kFewStage * kRowBytes;  // of 64 columns
  int before = 0;
#pragma unroll 1
  for (int kb = 0; kb < ring.tiles.kblocks; ++kb) {
    ring.wait_full(at);
    const std::uint64_t w = ptx::make_smem_desc_mn_major(ring.w_stage(at.stage) + me.group * kBlockBytes, kBlockBytes);
    const std::uint64_t x = ptx::make_smem_desc(ring.x_stage(at.stage));
    ptx::warpgroup_fence_operand(acc);
    ptx::warpgroup_arrive();
#pragma unroll
    for (int i = 0; i < kFewStage / 16; ++i) {
      const int half = i / 4;
      ptx::wgmma<Code::bf16, Code::bf16, true, false>(
          acc, ptx::advance_smem_desc(w, i * 128), ptx::advance_smem_desc(x, half * (Shape::kXPart / 16) + i % 4 * 2),
          kb + i != 0);
    }
    ptx::warpgroup_commit_batch();
    ptx::warpgroup_fence_operand(acc);
    ptx::warpgroup_wait<1>();
    if (kb != 0) ring.release(before);
    before = at.stage;
    at.advance();
  }
  ptx::warpgroup_wait<0>();
  ptx::warpgroup_fence_operand(acc);
  ring.release(before);
}

// --- FP8: a partial of four steps for each stage, promoted. Codes of weights are rows of 128 bytes. ----

template <int kCount>
__device__ __forceinline__ void multiply_stage(float (&partial)[kCount], std::uint32_t w, std::uint32_t x) {
  const std::uint64_t a = ptx::make_smem_desc(w);
  const std::uint64_t b = ptx::make_smem_desc(x);
  ptx::warpgroup_fence_operand(partial);
  ptx::warpgroup_arrive();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    ptx::wgmma<Code::e4m3, Code::e4m3>(partial, ptx::advance_smem_desc(a, i * 2), ptx::advance_smem_desc(b, i * 2),
                                       i != 0);
  }
  ptx::warpgroup_commit_batch();
  ptx::warpgroup_wait<0>();
  ptx::warpgroup_fence_operand(partial);
}

// A thread's accumulators are of two of every eight rows: `scales` of the first eight begin at them.
template <int kCount>
__device__ __forceinline__ void promote(float (&acc)[kCount], const float (&partial)[kCount], std::uint32_t scales,
                                        float of_weights, int lane) {
#pragma unroll
  for (int i = 0; i < kCount; i += 4) {
    const float2 s = ptx::ld_shared_v2_f32(scales + (i * 2 + lane % 4 * 2) * 4);
    const float s0 = __fmul_rn(s.x, of_weights);
    const float s1 = __fmul_rn(s.y, of_weights);
    acc[i + 0] = __fmaf_rn(partial[i + 0], s0, acc[i + 0]);
    acc[i + 1] = __fmaf_rn(partial[i + 1], s1, acc[i + 1]);
    acc[i + 2] = __fmaf_rn(partial[i + 2], s0, acc[i + 2]);
    acc[i + 3] = __fmaf_rn(partial[i + 3], s1, acc[i + 3]);
  }
}

template <class Shape, int kN>
__device__ __forceinline__ void multiply_codes(const FewRing<Shape>& ring, typename FewRing<Shape>::Cursor& at,
                                               float (&acc)[kN / 2], const FewPlace& me) {
#pragma unroll 1
  for (int kb = 0; kb < ring.tiles.kblocks; ++kb) {
    ring.wait_full(at);
    float partial[kN / 2];
    multiply_stage(partial, ring.w_stage(at.stage) + me.group * 64 * kRowBytes, ring.x_stage(at.stage));
    const float of_weights = ptx::ld_shared_f32(ring.scales(at.stage) + Shape::kRows * 4);
    promote(acc, partial, ring.scales(at.stage), of_weights, me.lane);
    ring.release(at.stage);
    at.advance();
  }
}

// --- BF16 to codes on their way ----
//
// A square of 128 x 128 comes as two blocks of 64 columns, rows of k. A warpgroup has 64 columns, a warp 32 of k of
// them. ldmatrix hands a thread, of column lane / 4 of each eight, the pairs 8 m + 2 q and the next of k, with
// q = lane % 4 and m = 0 to 3: eight codes that are stored as neighbours (FewCodes::permuted). Once every warp has its
// numbers in registers, which the exchange of the amax says, the codes go where the numbers were.

constexpr int kEights = 8;  // of columns, of a warpgroup

struct SquareValues {
  std::uint32_t words[kEights][4];
};

__device__ __forceinline__ SquareValues load_square_part(std::uint32_t block, const FewPlace& me) {
  SquareValues v;
  const int row = me.warp * 32 + me.lane;  // k
  const std::uint32_t at = block + row * kRowBytes;
#pragma unroll
  for (int c = 0; c < kEights; ++c) ptx::ldmatrix_x4_trans(at + ((c ^ row % 8) << 4), v.words[c]);
  return v;
}

// The largest magnitude of a square, by both warpgroups; `exchange`: 8 words in shared memory.
template <int kThreads>
__device__ __forceinline__ std::uint32_t largest_of_both(const SquareValues& v, std::uint32_t exchange,
                                                         const FewPlace& me) {
  std::uint32_t two = 0;
#pragma unroll
  for (const auto& words : v.words) {
#pragma unroll
    for (const std::uint32_t word : words) two = larger_halves(two, word);
  }
  const std::uint32_t of_warp = __reduce_max_sync(kAllLanes, larger_half(two));
  if (me.lane == 0) ptx::st_shared(exchange + (me.group * 4 + me.warp) * 4, of_warp);
  ptx::bar_sync<kThreads>(1);
  const uint4 a = ptx::ld_shared_v4_u32(exchange);
  const uint4 b = ptx::ld_shared_v4_u32(exchange + 16);
  return max(max(max(a.x, a.y), max(a.z, a.w)), max(max(b.x, b.y), max(b.z, b.w)));
}

template <bool kDivides, class Coder>
__device__ __forceinline__ void store_square_codes(const Coder& coder, const BlockScale& s, const SquareValues& v,
                                                   std::uint32_t block, const FewPlace& me) {
  const int column = me.lane / 4;  // of eight
  const int q = me.lane % 4;
  const std::uint32_t to = block + column * kRowBytes + (((me.warp * 2 + q / 2) ^ column) << 4) + q % 2 * 8;
#pragma unroll
  for (int c = 0; c < kEights; ++c) {
    const auto& w = v.words[c];
    uint2 codes;
    codes.x = coder.template codes_by<kDivides>(low_half(w[0]), high_half(w[0]), low_half(w[1]), high_half(w[1]), s);
    codes.y = coder.template codes_by<kDivides>(low_half(w[2]), high_half(w[2]), low_half(w[3]), high_half(w[3]), s);
    ptx::st_shared(to + c * 8 * kRowBytes, codes);
  }
}

template <class Shape, int kN, class Coder>
__device__ __forceinline__ void multiply_blocks(const FewRing<Shape>& ring, typename FewRing<Shape>::Cursor& at,
                                                float (&acc)[kN / 2], const Coder& coder, const FewPlace& me) {
#pragma unroll 1
  for (int kb = 0; kb < ring.tiles.kblocks; ++kb) {
    ring.wait_full(at);
    const std::uint32_t block = ring.w_stage(at.stage) + me.group * kFewStage * kRowBytes;
    const SquareValues v = load_square_part(block, me);
    const std::uint32_t exchange = ring.shared + Shape::kAmax + kb % 2 * 32;
    const BlockScale s = coder.scale_of(largest_of_both<Shape::kConsumers>(v, exchange, me));
    if (Coder::divides(s)) {
      store_square_codes<true>(coder, s, v, block, me);
    } else {
      store_square_codes<false>(coder, s, v, block, me);
    }
    ptx::fence_proxy_async();
    if (me.group == 0) {  // constants: of a number in a register the compiler takes all barriers to be used
      ptx::bar_sync<128>(2);
    } else {
      ptx::bar_sync<128>(3);
    }
    float partial[kN / 2];
    multiply_stage(partial, block, ring.x_stage(at.stage));
    const float of_weights = Coder::kFp32 ? __uint_as_float(s.stored) : value_of(s.stored);
    promote(acc, partial, ring.scales(at.stage), of_weights, me.lane);
    ring.release(at.stage);
    at.advance();
  }
}

}  // namespace mxcheck_kernels::sm90
