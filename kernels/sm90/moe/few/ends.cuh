#pragma once
// Epilogue of a GEMM of few tokens: D to memory, and the work of the last block of threads that finishes a
// part of it: SwiGLU of a group of columns, or the sums of tokens in a tile of columns.
//
// Blocks of threads count themselves at the part once their D can be seen. Which one is last differs between runs; what
// it computes does not.

#include <cstdint>

#include "kernels/sm90/layer/steps/rows.cuh"
#include "kernels/sm90/layer/steps/slots.cuh"
#include "kernels/sm90/moe/few/codes.cuh"
#include "kernels/sm90/moe/few/multiply.cuh"
#include "kernels/sm90/moe/few/ring.cuh"
#include "kernels/sm90/moe/keep_e5m6.cuh"

namespace mxcheck_kernels::sm90 {

// D's rows are the item's, its columns those of weights, which are rows of the accumulators.
template <class Shape, int kN>
__device__ __forceinline__ void store_few(const FewGemmJob& job, const FewUnit& u, const float (&acc)[kN / 2],
                                          const FewPlace& me) {
  const int first = me.group * 64 + me.warp * 16 + me.lane / 4;
#pragma unroll
  for (int i = 0; i < kN / 2; i += 4) {
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      const int row = i * 2 + me.lane % 4 * 2 + b;
      if (row >= u.item.rows) continue;
      std::uint16_t* const to = job.d + (std::int64_t{u.item.row} + row) * job.columns + u.column + first;
      const std::uint32_t two = ptx::cvt_rn_bf16x2_f32(acc[i + b], acc[i + 2 + b]);
      if (first < u.columns) to[0] = static_cast<std::uint16_t>(two);
      if (first + 8 < u.columns) to[8] = static_cast<std::uint16_t>(two >> 16);
    }
  }
}

// True for the block of threads that is the last of `all` at a counter; what the others wrote can be read then.
template <class Shape>
__device__ __forceinline__ bool is_last(const FewRing<Shape>& ring, std::uint32_t* counter, std::uint32_t all) {
  const std::uint32_t flag = ring.shared + Shape::kFlag;
  __threadfence();
  ptx::bar_sync<Shape::kConsumers>(1);
  if (threadIdx.x == 0) ptx::st_shared(flag, static_cast<std::uint32_t>(atomicAdd(counter, 1U) + 1 == all));
  ptx::bar_sync<Shape::kConsumers>(1);
  const bool last = ptx::ld_shared_v2_u32(flag).x != 0;
  ptx::bar_sync<Shape::kConsumers>(1);
  if (last) __threadfence();
  return last;
}

// --- up ----

// A group of columns of A: columns of H in the group's tiles.
struct FewGroup {
  int number;
  std::uint32_t tiles;
};
template <class Shape>
__device__ __forceinline__ FewGroup group_of(const FewRing<Shape>& ring, const FewUnit& u) {
  const auto n = static_cast<int>(ring.job.swiglu.n);
  const bool halves = ring.tiles.half != 0;
  const int each = (halves ? kFewGroup : 2 * kFewGroup) / Shape::kColumns;  // tiles of a whole group
  const int in_half = halves && u.tile >= ring.tiles.half ? u.tile - ring.tiles.half : u.tile;
  const int number = in_half / each;
  const int left = halves ? n - number * kFewGroup : 2 * (n - number * kFewGroup);
  const int tiles = min((left + Shape::kColumns - 1) / Shape::kColumns, each);
  return {number, static_cast<std::uint32_t>(halves ? 2 * tiles : tiles)};
}

template <bool kPairs>
__device__ __forceinline__ RawH<true> load_finished_h(const std::uint16_t* h, std::int64_t n, std::int64_t j) {
  const auto* const first = reinterpret_cast<const uint4*>(h + (kPairs ? 2 * j : j));
  const auto* const second = reinterpret_cast<const uint4*>(h + (kPairs ? 2 * j + kEach : n + j));
  return {__ldcg(first), __ldcg(second)};
}

// A lane's words of H in E5M6; all lanes call.
template <bool kPairs>
__device__ __forceinline__ void keep_h(const FewSwiglu& to, const Rounding& rule, const RawH<true>& h, std::int64_t row,
                                       std::int64_t j, bool inside, int lane) {
  const KeptGroups kept = encode_groups<kPairs>(rule, h);
  if (!inside) return;
  const std::int64_t at = row * 2 * to.n + (kPairs ? 2 * j : j);
  auto* const first = reinterpret_cast<std::uint32_t*>(to.packed) + at / kEach * 3;
  std::uint32_t* const second = first + (kPairs ? 3 : to.n / kEach * 3);
#pragma unroll
  for (int i = 0; i < 3; ++i) first[i] = kept.first.words[i], second[i] = kept.second.words[i];
  if (lane % kBlockLanes<kPairs> != 0) return;
  to.packed_scales[at / 128] = static_cast<std::uint8_t>(kept.byte);
  if constexpr (!kPairs) to.packed_scales[(at + to.n) / 128] = static_cast<std::uint8_t>(kept.other);
}

// Sixteen lanes have a row of the group.
template <class Shape, bool kPairs, class Coder>
__device__ __forceinline__ void finish_group(const FewGemmJob& job, const FewItem& item, int group, const Coder& coder,
                                             const Rounding& rule) {
  const FewSwiglu& to = job.swiglu;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const std::int64_t j = std::int64_t{group} * kFewGroup + thread % 16 * kEach;
  for (int first = 0; first < item.rows; first += Shape::kConsumers / 16) {
    const int in_item = first + thread / 16;
    const bool inside = in_item < item.rows && j < to.n;
    const std::int64_t row = std::int64_t{item.row} + in_item;
    RawH<true> h;
    if (inside) h = load_finished_h<kPairs>(job.d + row * 2 * to.n, to.n, j);
    const GateUps v = gate_ups < kPairs ? Access::interleaved : Access::halves > (h, kSigmoids.q);
    float a[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) a[i] = swiglu(v.g[i], v.u[i], v.q[i]);
    const uint4 words = packed(a);
    if constexpr (std::is_same_v<Coder, NoCoder>) {
      if (inside) *reinterpret_cast<uint4*>(to.a + row * to.n + j) = words;
    } else {
      if (to.packed != nullptr) keep_h<kPairs>(to, rule, h, row, j, inside, lane);
      const BlockScale s = coder.scale_of(largest_of(larger_half(amax_of(words)), 16));
      if (!inside) continue;
      put_few_codes(to.codes, row * to.n, j, eight_codes(coder, words, s));
      if (lane % 16 == 0) to.codes.scales[row * (to.n / kFewGroup) + group] = few_scale<Coder>(s);
    }
  }
}

// --- down ----

// Columns of O, of all tokens: the sums of aggregate.cu.
template <class Shape>
__device__ __forceinline__ void finish_columns(const AggregateJob& job, const FewUnit& u) {
  constexpr int kLanes = Shape::kColumns / kEach;
  const int thread = static_cast<int>(threadIdx.x);
  const int column = thread % kLanes * kEach;
  if (column >= u.columns) return;
  const std::int64_t j = u.column + column;
  for (std::int64_t token = thread / kLanes; token < job.tokens; token += Shape::kConsumers / kLanes) {
    const std::int64_t begin = __ldg(job.token_offsets + token);
    const std::int64_t end = __ldg(job.token_offsets + token + 1);
    float sum[kEach] = {};
    add_slots<true, true>(job, begin, end, j, sum, [](const uint4* from) { return __ldcg(from); });
    *reinterpret_cast<uint4*>(job.o + token * job.cols + j) = packed(sum);
  }
}

}  // namespace mxcheck_kernels::sm90
