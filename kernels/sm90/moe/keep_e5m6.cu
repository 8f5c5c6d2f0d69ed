// SwiGLU to codes of A, and H to E5M6, in one read of H.
//
// A warp has 256 columns of n in a row, a lane 8 gates and the 8 up values of them: two groups of eight neighbours of
// H's row. A block of 128 columns of H is 16 lanes' gates or up values in halves, 8 lanes' pairs interleaved. A group's
// three words pass through shared memory, so that a warp stores 16 bytes a lane that follow one another.

#include "kernels/sm90/moe/moe_kernels.h"

#include <algorithm>
#include <cstdint>

#include "kernels/sm90/layer/steps/rows.cuh"
#include "kernels/sm90/layer/steps/words.cuh"
#include "kernels/sm90/moe/block_rounding.cuh"
#include "kernels/sm90/moe/keep_e5m6.cuh"
#include "kernels/sm90/ptx/arithmetic.cuh"
#include "kernels/sm90/ptx/ptx.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

// ---- A warp's row ----

constexpr int kGroupWords = kChunk / kEach * 3;  // of a warp's 256 columns of H
constexpr int kQuads = 2 * kGroupWords / 4;      // 16 bytes each, of a warp's row
constexpr int kGroupQuads = kQuads / 2;          // 24
using KeptWords = std::uint32_t[2 * kGroupWords];

// Where in a row a lane's two pieces of 16 bytes go, in such pieces; below 0 for none. In halves the pieces of the
// gates come first, then those of the up values.
struct Pieces {
  std::int64_t at[2];
};
template <bool kPairs>
__device__ __forceinline__ Pieces pieces_of(std::int64_t n, std::int64_t first_column, int lane) {
  const auto there = static_cast<int>(min(n - first_column, std::int64_t{kChunk})) * 3 / 32;  // of a group
  Pieces p;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int quad = i * 32 + lane;
    const bool up = !kPairs && quad >= kGroupQuads;
    const int in_group = up ? quad - kGroupQuads : quad;
    const bool real = quad < kQuads && in_group < (kPairs ? 2 * there : there);
    const std::int64_t base = (kPairs ? 2 * first_column : first_column) + (up ? n : 0);
    p.at[i] = real ? base * 3 / 32 + in_group : -1;
  }
  return p;
}

// ---- A row ----

constexpr int kTogether = 2;  // neighbouring rows of a warp, whose loads overlap
using KeepCoder = Coder<Element::e4m3, false>;

// A lane's places in a row, each of a tensor's rows at its own distance.
struct RowPlaces {
  const std::uint16_t* h;
  std::uint8_t* codes;
  std::uint8_t* code_scale;
  std::uint8_t* h_scale;
  uint4* packed;  // of the row

  __device__ __forceinline__ void skip(std::int64_t n, std::int64_t rows) {
    h += rows * (2 * n), codes += rows * n, code_scale += rows * (n / 128);
    h_scale += rows * (n / 64), packed += rows * (n * 3 / 16);
  }
};
template <bool kPairs>
__device__ __forceinline__ RowPlaces places_of(const KeepJob& job, std::int64_t row, std::int64_t j) {
  const RowsJob& r = job.rows;
  const std::int64_t col = kPairs ? 2 * j : j;
  RowPlaces at{static_cast<const std::uint16_t*>(r.h.data) + col, r.row.codes + j,
               static_cast<std::uint8_t*>(r.row.scales) + j / 128, job.scales + col / 128,
               reinterpret_cast<uint4*>(job.packed)};
  at.skip(r.n, row);
  return at;
}

// A lane's words to shared memory, and its blocks' scales.
template <bool kPairs>
__device__ __forceinline__ void encode_h(const Rounding& rule, const RawH<true>& h, std::uint8_t* scale, std::int64_t n,
                                         bool inside, KeptWords& words, int lane) {
  const KeptGroups kept = encode_groups<kPairs>(rule, h);
  std::uint32_t* const to = words + lane * (kPairs ? 6 : 3);
#pragma unroll
  for (int i = 0; i < 3; ++i) to[i] = kept.first.words[i], to[(kPairs ? 3 : kGroupWords) + i] = kept.second.words[i];
  if (lane % kBlockLanes<kPairs> != 0 || !inside) return;
  scale[0] = static_cast<std::uint8_t>(kept.byte);
  if constexpr (!kPairs) scale[n / 128] = static_cast<std::uint8_t>(kept.other);
}

// Codes of A, of blocks of 16 lanes.
template <Access kAccess>
__device__ __forceinline__ void encode_a(const KeepCoder& coder, const RawH<true>& h, const float* sigmoids,
                                         const RowPlaces& at, bool inside, int lane) {
  const GateUps v = gate_ups<kAccess>(h, sigmoids);
  float a[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) a[i] = swiglu(v.g[i], v.u[i], v.q[i]);
  const uint4 words = packed(a);
  const BlockScale s = coder.scale_of(largest_of(larger_half(amax_of(words)), 128 / kEach));
  if (!inside) return;
  if (lane % (128 / kEach) == 0) coder.store_scale(at.code_scale, 0, s);
  *reinterpret_cast<uint2*>(at.codes) = eight_codes(coder, words, s);
}

template <Access kAccess>
__global__ void __launch_bounds__(kRowThreads, 4)
    keep(const __grid_constant__ KeepJob job, std::uint32_t addend, const __grid_constant__ Rounding rule) {
  constexpr bool kPairs = kHasPairs<kAccess>;
  __shared__ alignas(16) float sigmoids[kSigmoidEntries];
  __shared__ alignas(16) KeptWords kept[kRowWarps][kTogether];
  const RowsJob& r = job.rows;
  const KeepCoder coder{addend, 7};
  if (r.header != nullptr && r.header->status != MXCHECK_OK) return;
  load_sigmoids(sigmoids);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  auto& mine = kept[threadIdx.x / 32];
  const std::int64_t j = std::int64_t{blockIdx.y} * kChunk + lane * kEach;
  const bool inside = j < r.n;
  const Pieces to = pieces_of<kPairs>(r.n, std::int64_t{blockIdx.y} * kChunk, lane);
  const std::int64_t step = std::int64_t{gridDim.x} * kRowWarps * kTogether;
  std::int64_t row = (std::int64_t{blockIdx.x} * kRowWarps + threadIdx.x / 32) * kTogether;
  RowPlaces at = places_of<kPairs>(job, row, j);
  for (; row < r.rows; row += step, at.skip(r.n, step)) {
    RawH<true> raw[kTogether];
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      if (!inside || row + k >= r.rows) continue;
      const std::uint16_t* const h = at.h + k * 2 * r.n;
      raw[k].first = __ldg(reinterpret_cast<const uint4*>(h));
      raw[k].second = __ldg(reinterpret_cast<const uint4*>(h + (kPairs ? kEach : r.n)));
    }
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      if (row + k >= r.rows) continue;
      RowPlaces here = at;
      here.skip(r.n, k);
      encode_h<kPairs>(rule, raw[k], here.h_scale, r.n, inside, mine[k], lane);
      encode_a<kAccess>(coder, raw[k], sigmoids, here, inside, lane);
      __syncwarp();
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (to.at[i] < 0) continue;
        ptx::st_global_v4(here.packed + to.at[i], reinterpret_cast<const uint4*>(mine[k])[i * 32 + lane]);
      }
    }
    __syncwarp();
  }
}

template <Access kAccess>
cudaError_t start_keep(const KeepJob& job, cudaStream_t stream) {
  dim3 grid;
  const std::int64_t parts = (job.rows.n + kChunk - 1) / kChunk;
  if (const cudaError_t e = row_grid(keep<kAccess>, job.rows.rows, parts, grid); e != cudaSuccess) return e;
  keep<kAccess>
      <<<grid, kRowThreads, 0, stream>>>(job, job.rows.row.coding.addend, rounding_of(kRoundE5m6, true, false));
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_keep(const KeepJob& job, cudaStream_t stream) {
  const RowsJob& r = job.rows;
  if (r.rows == 0 || r.n == 0) return cudaSuccess;
  const DeviceCoding& c = r.row.coding;
  if (r.n % 128 != 0 || r.h.coded || r.h.packed || r.a != nullptr) return cudaErrorInvalidValue;
  if (r.row.codes == nullptr || c.element != Element::e4m3 || c.fp32 || c.block != 128) return cudaErrorInvalidValue;
  return r.h.interleaved ? start_keep<Access::interleaved>(job, stream) : start_keep<Access::halves>(job, stream);
}

}  // namespace mxcheck_kernels::sm90
