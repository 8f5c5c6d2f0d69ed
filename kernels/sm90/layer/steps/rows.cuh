#pragma once
// Shared by the kernels along rows: a warp takes 256 columns of a row at a time, a lane 8 of them.

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <cuda_fp16.h>

#include "kernels/sm90/layer/steps/coder.cuh"
#include "kernels/sm90/layer/steps/steps.h"
#include "kernels/sm90/layer/steps/words.cuh"
#include "kernels/sm90/ptx/arithmetic.cuh"

namespace mxcheck_kernels::sm90 {

inline constexpr int kChunk = kRowPart;
static_assert(kChunk == 32 * kEach);
inline constexpr int kRowThreads = 256;
inline constexpr int kRowWarps = kRowThreads / 32;

__device__ __forceinline__ void unpack(const uint4& words, float (&v)[kEach]) {
  const std::uint32_t w[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) v[2 * i] = low_half(w[i]), v[2 * i + 1] = high_half(w[i]);
}
__device__ __forceinline__ uint4 packed(const float (&v)[kEach]) {
  return make_uint4(ptx::cvt_rn_bf16x2_f32(v[0], v[1]), ptx::cvt_rn_bf16x2_f32(v[2], v[3]),
                    ptx::cvt_rn_bf16x2_f32(v[4], v[5]), ptx::cvt_rn_bf16x2_f32(v[6], v[7]));
}

// --- H in E5M6 -------------------------------------------------------------------------------------------------------
//
// A lane reads eight codes in three words (words.cuh), and E8M0 scales of a row's blocks of 128. The values it makes
// are BF16 words: a code times its scale is exact in FP32, 2^-147 and up, or Inf, and is rounded once to BF16, which
// holds every value that a BF16 was rounded to.

// Codes of 8 columns of n: in halves the gates and the up values, interleaved four pairs and the next four. Scales stay
// bytes until they are used, so that no load is waited for in front of the others.
struct PackedH {
  std::uint32_t first[3] = {};
  std::uint32_t second[3] = {};
  std::uint32_t first_scale = 0;
  std::uint32_t second_scale = 0;
};

// Where a lane's 8 columns from j on lie, with n a multiple of 128.
struct PackedPlace {
  const std::uint32_t* words;
  const std::uint8_t* scale;
};
template <bool kPairs>
__device__ __forceinline__ PackedPlace packed_place(const HInput& h, std::int64_t row, std::int64_t j) {
  const std::int64_t at = row * h.stride + (kPairs ? 2 * j : j);
  return {static_cast<const std::uint32_t*>(h.data) + at / kEach * 3, h.scales + at / 128};
}

// Interleaved, six words are 24 bytes from a multiple of eight on.
template <bool kPairs>
__device__ __forceinline__ PackedH load_packed(const PackedPlace& at, std::int64_t n) {
  PackedH v;
  v.first_scale = v.second_scale = __ldg(at.scale);
  if constexpr (kPairs) {
    const auto* const two = reinterpret_cast<const uint2*>(at.words);
    const uint2 a = __ldg(two);
    const uint2 b = __ldg(two + 1);
    const uint2 c = __ldg(two + 2);
    v.first[0] = a.x, v.first[1] = a.y, v.first[2] = b.x, v.second[0] = b.y, v.second[1] = c.x, v.second[2] = c.y;
  } else {
    const std::uint32_t* const ups = at.words + n / kEach * 3;
    v.second_scale = __ldg(at.scale + n / 128);
#pragma unroll
    for (int i = 0; i < 3; ++i) v.first[i] = __ldg(at.words + i), v.second[i] = __ldg(ups + i);
  }
  return v;
}

// The first byte of a scale with which each code's product is a BF16 or beyond FP32: it has seven bits, at multiples of
// 2^(byte - 147), and BF16 has eight and multiples of 2^-133.
inline constexpr std::uint32_t kLeastExactByte = 14;

// Eight values, to be rounded to BF16 unless the scale says that they are.
__device__ __forceinline__ void decode_packed(const std::uint32_t (&words)[3], float scale, float (&v)[kEach]) {
  std::uint32_t halves[4];
  unpack_e5m6(words, halves);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 two = __half22float2(__halves2half2(__ushort_as_half(static_cast<std::uint16_t>(halves[i])),
                                                     __ushort_as_half(static_cast<std::uint16_t>(halves[i] >> 16))));
    v[2 * i] = __fmul_rn(two.x, scale), v[2 * i + 1] = __fmul_rn(two.y, scale);
  }
}
__device__ __forceinline__ void round_to_bf16(float (&v)[kEach]) {
#pragma unroll
  for (int i = 0; i < kEach; i += 2) {
    const std::uint32_t two = ptx::cvt_rn_bf16x2_f32(v[i], v[i + 1]);
    v[i] = low_half(two), v[i + 1] = high_half(two);
  }
}

// --- H as it is loaded -----------------------------------------------------------------------------------------------

__device__ __forceinline__ float decoded(const HInput& h, std::int64_t row, std::int64_t col) {
  if (!h.coded) {
    const auto word = static_cast<const std::uint16_t*>(h.data)[row * h.stride + col];
    return __uint_as_float(static_cast<std::uint32_t>(word) << 16);
  }
  const std::uint32_t code = static_cast<const std::uint8_t*>(h.data)[row * h.stride + col];
  const float scale = value_of(h.scales[row * ((h.stride + 31) / 32) + col / 32]);
  const float2 v = h.element == Element::e4m3 ? decode2<Element::e4m3>(code) : decode2<Element::e5m2>(code);
  return __fmul_rn(v.x, scale);
}

// How a kernel reads H: eight neighbours at a time in a known order, in BF16 or packed, or one at a time in any.
enum class Access : std::uint8_t { halves, interleaved, any, packed_halves, packed_interleaved };
template <Access kAccess>
inline constexpr bool kIsVector = kAccess != Access::any;
template <Access kAccess>
inline constexpr bool kIsPacked = kAccess == Access::packed_halves || kAccess == Access::packed_interleaved;
template <Access kAccess>
inline constexpr bool kHasPairs = kAccess == Access::interleaved || kAccess == Access::packed_interleaved;

template <Access kAccess>
__device__ __forceinline__ bool is_interleaved(const HInput& h) {
  return kHasPairs<kAccess> || (kAccess == Access::any && h.interleaved);
}

// Gates and up values of 8 columns, as they are loaded: words of BF16, or, one at a time, FP32.
template <bool kVector>
struct RawH;
template <>
struct RawH<true> {
  uint4 first = {};   // in halves the gates, interleaved the first four pairs
  uint4 second = {};  // up values, or the next four pairs
};
template <>
struct RawH<false> {
  float g[kEach] = {};
  float u[kEach] = {};
};
template <Access kAccess>
using Raw = std::conditional_t<kIsPacked<kAccess>, PackedH, RawH<kIsVector<kAccess>>>;

// Loads gates and up values of columns j .. j + 7 of a row; those past n are zeros.
template <Access kAccess>
__device__ __forceinline__ Raw<kAccess> load_h(const HInput& h, std::int64_t row, std::int64_t j, std::int64_t n) {
  Raw<kAccess> raw;
  constexpr bool kPairs = kHasPairs<kAccess>;
  if constexpr (kIsPacked<kAccess>) {
    if (j < n) raw = load_packed<kPairs>(packed_place<kPairs>(h, row, j), n);
  } else if constexpr (kIsVector<kAccess>) {
    if (j >= n) return raw;
    const auto* const at = static_cast<const std::uint16_t*>(h.data) + row * h.stride;
    raw.first = __ldg(reinterpret_cast<const uint4*>(at + (kPairs ? 2 * j : j)));
    raw.second = __ldg(reinterpret_cast<const uint4*>(at + (kPairs ? 2 * j + kEach : n + j)));
  } else {
    for (int i = 0; i < kEach; ++i) {
      if (j + i >= n) continue;
      raw.g[i] = decoded(h, row, h.interleaved ? 2 * (j + i) : j + i);
      raw.u[i] = decoded(h, row, h.interleaved ? 2 * (j + i) + 1 : n + j + i);
    }
  }
  return raw;
}

// In FP32, with the sigmoids of the gates.
struct GateUps {
  float g[kEach];
  float u[kEach];
  float q[kEach];
};

// Looks up the sigmoids of two gates in BF16.
__device__ __forceinline__ void look_up(const float* table, std::uint32_t gates, float& low, float& high) {
  const std::uint32_t two = two_places(gates);
  low = table[static_cast<int>(two & 0xFFFF) - kGateFirst];
  high = table[static_cast<int>(two >> 16) - kGateFirst];
}
__device__ __forceinline__ void add_sigmoids(const float* table, const std::uint32_t (&gates)[kEach / 2], GateUps& v) {
#pragma unroll
  for (int i = 0; i < kEach / 2; ++i) {
    v.g[2 * i] = low_half(gates[i]), v.g[2 * i + 1] = high_half(gates[i]);
    look_up(table, gates[i], v.q[2 * i], v.q[2 * i + 1]);
  }
}

template <Access kAccess>
__device__ __forceinline__ GateUps gate_ups(const RawH<true>& raw, const float* table) {
  constexpr bool kPairs = kHasPairs<kAccess>;
  GateUps v;
  const std::uint32_t a[4] = {raw.first.x, raw.first.y, raw.first.z, raw.first.w};
  const std::uint32_t b[4] = {raw.second.x, raw.second.y, raw.second.z, raw.second.w};
  std::uint32_t gates[kEach / 2];
  std::uint32_t ups[kEach / 2];
#pragma unroll
  for (int i = 0; i < kEach / 2; ++i) {
    const std::uint32_t low = i < 2 ? a[2 * i % 4] : b[2 * i % 4];
    const std::uint32_t high = i < 2 ? a[2 * i % 4 + 1] : b[2 * i % 4 + 1];
    gates[i] = kPairs ? __byte_perm(low, high, 0x5410) : a[i];
    ups[i] = kPairs ? __byte_perm(low, high, 0x7632) : b[i];
    v.u[2 * i] = low_half(ups[i]), v.u[2 * i + 1] = high_half(ups[i]);
  }
  add_sigmoids(table, gates, v);
  return v;
}

template <Access kAccess>
__device__ __forceinline__ GateUps gate_ups(const RawH<false>& raw, const float* table) {
  GateUps v;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    v.g[i] = raw.g[i], v.u[i] = raw.u[i];
    v.q[i] = table[sigmoid_place(__float_as_uint(raw.g[i]))];
  }
  return v;
}

template <Access kAccess>
__device__ __forceinline__ GateUps gate_ups(const PackedH& raw, const float* table) {
  GateUps v;
  float a[kEach];
  float b[kEach];
  decode_packed(raw.first, value_of(raw.first_scale), a);
  decode_packed(raw.second, value_of(raw.second_scale), b);
  if (min(raw.first_scale, raw.second_scale) < kLeastExactByte) round_to_bf16(a), round_to_bf16(b);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int pair = 2 * i % kEach;
    v.g[i] = !kHasPairs<kAccess> ? a[i] : i < kEach / 2 ? a[pair] : b[pair];
    v.u[i] = !kHasPairs<kAccess> ? b[i] : i < kEach / 2 ? a[pair + 1] : b[pair + 1];
  }
#pragma unroll
  for (int i = 0; i < kEach; i += 2) look_up(table, ptx::cvt_rn_bf16x2_f32(v.g[i], v.g[i + 1]), v.q[i], v.q[i + 1]);
  return v;
}

// P of columns j .. j + 7, zeros past n.
template <bool kVector>
__device__ __forceinline__ void load_p(const RowsJob& job, std::int64_t row, std::int64_t j, float (&p)[kEach]) {
  const float* const at = job.p + row * job.n + j;
  if constexpr (kVector) {
    if (j < job.n) {
      const float4 low = __ldg(reinterpret_cast<const float4*>(at));
      const float4 high = __ldg(reinterpret_cast<const float4*>(at) + 1);
      p[0] = low.x, p[1] = low.y, p[2] = low.z, p[3] = low.w;
      p[4] = high.x, p[5] = high.y, p[6] = high.z, p[7] = high.w;
      return;
    }
  }
  for (int i = 0; i < kEach; ++i) p[i] = j + i < job.n ? at[i] : 0.0F;
}

template <bool kVector>
__device__ __forceinline__ void store_eight(std::uint16_t* to, const uint4& words, std::int64_t count) {
  if constexpr (kVector) {
    *reinterpret_cast<uint4*>(to) = words;
  } else {
    const std::uint32_t w[4] = {words.x, words.y, words.z, words.w};
    for (int i = 0; i < kEach; ++i) {
      if (i < count) to[i] = static_cast<std::uint16_t>(w[i / 2] >> 16 * (i % 2));
    }
  }
}
template <bool kVector>
__device__ __forceinline__ void store_eight(std::uint8_t* to, uint2 codes, std::int64_t count) {
  if constexpr (kVector) {
    *reinterpret_cast<uint2*>(to) = codes;
  } else {
    const std::uint32_t w[2] = {codes.x, codes.y};
    for (int i = 0; i < kEach; ++i) {
      if (i < count) to[i] = static_cast<std::uint8_t>(w[i / 4] >> 8 * (i % 4));
    }
  }
}

template <class Coder>
__device__ __forceinline__ uint2 eight_codes(const Coder& coder, const uint4& words, const BlockScale& s) {
  return {coder.codes_of_neighbours(words.x, words.y, s), coder.codes_of_neighbours(words.z, words.w, s)};
}

// A lane's 8 columns in BF16, from `col` of a row, `count` of which exist: codes, and the scale by the first lane of
// its block. Columns of neighbouring lanes are neighbours, and the first lane's start a block; all lanes call. Lanes
// past the end hold zeros.
template <bool kVector, class Coder>
__device__ __forceinline__ void encode_eight(const RowCodes& out, const Coder& coder, const uint4& words,
                                             std::int64_t row, std::int64_t col, std::int64_t cols, std::int64_t count,
                                             int lane) {
  const int lanes = coder.block() / kEach;
  const BlockScale s = coder.scale_of(largest_of(larger_half(amax_of(words)), lanes));
  if (count <= 0) return;
  if ((lane & (lanes - 1)) == 0) coder.store_scale(out.scales, row * out.blocks + (col >> coder.log2_block), s);
  store_eight<kVector>(out.codes + row * cols + col, eight_codes(coder, words, s), count);
}

// Sixteen neighbours of a row in BF16. Two lanes exchange halves, so that each of the two stores writes whole sectors
// of 32 bytes; all lanes call. `to` is the lane's, `count` of its columns exist.
__device__ __forceinline__ void store_sixteen(std::uint16_t* to, const uint4& first, const uint4& second,
                                              std::int64_t count, int lane) {
  const bool odd = lane % 2 != 0;
  const uint4 send = odd ? first : second;
  const uint4 got = make_uint4(__shfl_xor_sync(kAllLanes, send.x, 1), __shfl_xor_sync(kAllLanes, send.y, 1),
                               __shfl_xor_sync(kAllLanes, send.z, 1), __shfl_xor_sync(kAllLanes, send.w, 1));
  const bool mine = count > 0;
  const bool beside = odd ? count + 2 * kEach > 0 : count > 2 * kEach;  // whether the other lane has columns
  auto* const at = reinterpret_cast<uint4*>(to);
  if (odd ? beside : mine) at[odd ? -1 : 0] = odd ? got : first;
  if (odd ? mine : beside) at[odd ? 1 : 2] = odd ? second : got;
}

// The same of 16 columns, of which a block has half as many lanes.
template <bool kVector, class Coder>
__device__ __forceinline__ void encode_sixteen(const RowCodes& out, const Coder& coder, const uint4& first,
                                               const uint4& second, std::int64_t row, std::int64_t col,
                                               std::int64_t cols, std::int64_t count, int lane) {
  const int lanes = coder.block() / (2 * kEach);
  const std::uint32_t amax = __vmaxu2(amax_of(first), amax_of(second));
  const BlockScale s = coder.scale_of(largest_of(larger_half(amax), lanes));
  if (count <= 0) return;
  if ((lane & (lanes - 1)) == 0) coder.store_scale(out.scales, row * out.blocks + (col >> coder.log2_block), s);
  std::uint8_t* const to = out.codes + row * cols + col;
  if constexpr (kVector) {
    const uint2 low = eight_codes(coder, first, s);
    const uint2 high = eight_codes(coder, second, s);
    *reinterpret_cast<uint4*>(to) = make_uint4(low.x, low.y, high.x, high.y);
    return;
  }
  store_eight<kVector>(to, eight_codes(coder, first, s), count);
  if (count > kEach) store_eight<kVector>(to + kEach, eight_codes(coder, second, s), count - kEach);
}

// Gradients of eight gates and up values in BF16, in the order of interleaved columns.
__device__ __forceinline__ void interleave(const uint4& dg, const uint4& du, uint4& first, uint4& second) {
  first = make_uint4(__byte_perm(dg.x, du.x, 0x5410), __byte_perm(dg.x, du.x, 0x7632), __byte_perm(dg.y, du.y, 0x5410),
                     __byte_perm(dg.y, du.y, 0x7632));
  second = make_uint4(__byte_perm(dg.z, du.z, 0x5410), __byte_perm(dg.z, du.z, 0x7632), __byte_perm(dg.w, du.w, 0x5410),
                      __byte_perm(dg.w, du.w, 0x7632));
}

// The results for eight columns of a row: A' and gradients in BF16, and the terms of dS. Columns from `count` on are
// +0, whatever the weight makes of them.
struct RowGradient {
  uint4 a;
  uint4 dg;
  uint4 du;
  float products[kEach];
};
template <bool kVector>
__device__ __forceinline__ RowGradient differentiate(const GateUps& v, const float (&p)[kEach], float weight,
                                                     std::int64_t count) {
  RowGradient d;
  float a[kEach];
  float dg[kEach];
  float du[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    a[i] = swiglu(v.g[i], v.u[i], v.q[i]);
    const Gradient of = swiglu_gradient(v.g[i], v.u[i], v.q[i], __fmul_rn(weight, p[i]));
    dg[i] = of.dg, du[i] = of.du;
  }
  unpack(packed(a), a);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    d.products[i] = __fmul_rn(p[i], a[i]);
    a[i] = __fmul_rn(weight, a[i]);
  }
  // Whole or absent columns, whose values and weight are zeros, need no look.
  if (!kVector && count < kEach) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (i >= count) a[i] = 0, dg[i] = 0, du[i] = 0, d.products[i] = 0;
    }
  }
  d.a = packed(a), d.dg = packed(dg), d.du = packed(du);
  return d;
}

// Blocks for `rows` rows times `columns` parts of them: as many as the device holds at once, if there is work for them.
// A second wave of a few blocks would leave most processors idle.
template <class Kernel>
cudaError_t row_grid(Kernel* kernel, std::int64_t rows, std::int64_t columns, dim3& grid) {
  int device = 0;
  int processors = 0;
  int each = 0;
  cudaError_t e = cudaGetDevice(&device);
  if (e == cudaSuccess) e = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  if (e == cudaSuccess) e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, kRowThreads, 0);
  const std::int64_t resident = std::int64_t{processors} * each;
  const std::int64_t needed = (rows + kRowWarps - 1) / kRowWarps;
  grid = dim3(static_cast<unsigned>(std::clamp<std::int64_t>(needed, 1, std::max<std::int64_t>(resident / columns, 1))),
              static_cast<unsigned>(columns));
  return e;
}

// A kernel of rows started on such a grid.
template <class Kernel, class Job, class Coder>
cudaError_t start_rows(Kernel* kernel, std::int64_t rows, std::int64_t columns, const Job& job, const Coder& coder,
                       cudaStream_t stream) {
  dim3 grid;
  if (const cudaError_t e = row_grid(kernel, rows, columns, grid); e != cudaSuccess) return e;
  kernel<<<grid, kRowThreads, 0, stream>>>(job, coder);
  return cudaGetLastError();
}

// launch(access) with the way that H is read, as a constant.
template <class Launch>
cudaError_t with_access(const HInput& h, bool vector, const Launch& launch) {
  if (!vector) return launch(std::integral_constant<Access, Access::any>());
  return h.interleaved ? launch(std::integral_constant<Access, Access::interleaved>())
                       : launch(std::integral_constant<Access, Access::halves>());
}

// Packed H is offered where codes are E4M3 in blocks of 128 with E8M0 scales, and every load is a vector's:
// launch(access, coder).
template <class Launch>
cudaError_t with_packed(const RowsJob& job, const DeviceCoding& c, bool vector, const Launch& launch) {
  if (!vector || job.n % 128 != 0 || job.h.stride != 2 * job.n) return cudaErrorInvalidValue;
  if (c.element != Element::e4m3 || c.fp32 || c.block != 128) return cudaErrorInvalidValue;
  const Coder128<Element::e4m3, false> coder{c.addend, 7};
  return job.h.interleaved ? launch(std::integral_constant<Access, Access::packed_interleaved>(), coder)
                           : launch(std::integral_constant<Access, Access::packed_halves>(), coder);
}

}  // namespace mxcheck_kernels::sm90
