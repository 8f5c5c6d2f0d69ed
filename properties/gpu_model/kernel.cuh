#pragma once
// The comparison: a tile of 64 x 64 outputs a block, 4 x 4 a thread, 32 of k at a time through shared memory.

#include <cstdint>

#include "properties/gpu_model/element.cuh"
#include "properties/gpu_model/step.cuh"

namespace mxcheck::gpu_model {

inline constexpr int kTile = 64;
inline constexpr int kThreads = 256;
inline constexpr int kDepth = 32;         // of k in shared memory
inline constexpr int kLines = 2 * kTile;  // rows of A, then rows of B
inline constexpr int kHalf = kDepth / 2;  // of k that one thread loads of one line

// A call whose strides are filled in and whose arguments are checked.
struct KernelCall {
  MxcheckGpuModelCall call;
  std::int64_t tiles_n;
  bool extract;  // one block, for the two words at report->first
};

struct Job {
  bool valid;
  int count;            // rows of the tile
  std::int64_t first;   // row, or place in the list
  std::int64_t column;  // the tile's first
  std::int64_t expert;  // 0 when dense
  std::int64_t low;     // rows of this group
  std::int64_t high;
  std::int64_t k_begin;
  std::int64_t k_end;
};

struct Shared {
  float value[kDepth][kLines];
  std::uint32_t exponents[kDepth / 2][kLines];  // two of k a word
  Job job;
  std::int64_t row[kTile];    // of D; -1: none
  std::int64_t a_row[kTile];  // of A
  std::int64_t tiles[kThreads];
  unsigned long long first;
  unsigned int differing;
  unsigned int compared;
};

__device__ inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// The first place in the ascending list that is not below `row`.
__device__ inline std::int64_t place_of(const MxcheckGpuModelCall& c, std::int64_t row) {
  std::int64_t low = 0;
  std::int64_t high = c.row_count;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (c.rows[middle] < row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Rows of the call, as rows or as places in the list.
__device__ inline void rows_within(const MxcheckGpuModelCall& c, std::int64_t low, std::int64_t high,
                                   std::int64_t* begin, std::int64_t* end) {
  if (c.rows != nullptr) {
    *begin = place_of(c, low);
    *end = place_of(c, high);
    return;
  }
  *begin = low > c.row_begin ? low : c.row_begin;
  *end = high < c.row_end ? high : c.row_end;
  if (*end < *begin) *end = *begin;
}

// Whether expert e's offsets are usable; its range.
__device__ inline bool group_of(const MxcheckGpuModelCall& c, std::int64_t e, std::int64_t* low, std::int64_t* high) {
  *low = e == 0 ? 0 : c.offsets[e - 1];
  *high = c.offsets[e];
  const std::int64_t limit = c.groups == MXCHECK_GPU_MODEL_ALONG_M ? c.m : c.k;
  if (*low < 0 || *high < *low || *high > limit) return false;
  const bool splits = c.groups == MXCHECK_GPU_MODEL_ALONG_K && c.promotion != 0 && *high > *low;
  return !splits || *low % c.promotion == 0;
}

__device__ inline void set_tile(Job& job, std::int64_t begin, std::int64_t end, std::int64_t tile) {
  job.first = begin + tile * kTile;
  const std::int64_t left = end - job.first;
  job.count = left < kTile ? static_cast<int>(left) : kTile;
  job.valid = job.count > 0;
}

// What this block computes. All threads call it.
__device__ inline void find_job(const KernelCall& p, Shared& s) {
  const MxcheckGpuModelCall& c = p.call;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t block = blockIdx.x;
  std::int64_t tile = block / p.tiles_n;
  if (thread == 0) {
    s.job.valid = false;
    s.job.column = block % p.tiles_n * kTile;
    s.job.expert = 0;
    s.job.low = 0;
    s.job.high = c.m;
    s.job.k_begin = 0;
    s.job.k_end = c.k;
    s.first = ~0ULL;
    s.differing = 0;
    s.compared = 0;
  }
  __syncthreads();
  if (p.extract) {
    if (thread != 0 || c.report->first == ~0ULL) return;
    const auto at = static_cast<std::int64_t>(c.report->first);
    s.job.column = at % c.n / kTile * kTile;
    s.job.first = at / c.n % c.m;
    s.job.count = 1;
    s.job.valid = true;
    if (c.groups == MXCHECK_GPU_MODEL_ALONG_K) {
      s.job.expert = at / c.n / c.m;
      group_of(c, s.job.expert, &s.job.k_begin, &s.job.k_end);
    } else if (c.groups == MXCHECK_GPU_MODEL_ALONG_M) {
      while (!group_of(c, s.job.expert, &s.job.low, &s.job.high) || s.job.first >= s.job.high) ++s.job.expert;
    }
    return;
  }
  if (c.groups != MXCHECK_GPU_MODEL_ALONG_M) {
    if (thread != 0) return;
    const std::int64_t begin = c.rows != nullptr ? 0 : c.row_begin;
    const std::int64_t end = c.rows != nullptr ? c.row_count : c.row_end;
    const std::int64_t tiles = divide_up(end - begin, kTile);
    set_tile(s.job, begin, end, tile % tiles);
    if (c.groups == MXCHECK_GPU_MODEL_ALONG_K) {
      s.job.expert = tile / tiles;
      if (!group_of(c, s.job.expert, &s.job.k_begin, &s.job.k_end)) {
        s.job.valid = false;
        c.report->bad_offsets = 1;
      }
    }
    return;
  }
  // Along M: the experts' tiles follow one another, none crosses an end.
  for (std::int64_t base = 0; base < c.experts; base += kThreads) {
    const std::int64_t e = base + thread;
    std::int64_t low = 0;
    std::int64_t high = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
    if (e < c.experts) {
      if (group_of(c, e, &low, &high)) {
        rows_within(c, low, high, &begin, &end);
      } else if (block == 0) {
        c.report->bad_offsets = 1;
      }
    }
    s.tiles[thread] = divide_up(end - begin, kTile);
    __syncthreads();
    std::int64_t before = 0;  // tiles of the experts before this one
    std::int64_t all = 0;
    for (int i = 0; i < kThreads; ++i) {
      if (i < thread) before += s.tiles[i];
      all += s.tiles[i];
    }
    if (tile >= before && tile < before + s.tiles[thread]) {
      s.job.expert = e;
      s.job.low = low;
      s.job.high = high;
      set_tile(s.job, begin, end, tile - before);
    }
    __syncthreads();
    if (tile < all) return;
    tile -= all;
  }
}

// Rows of D and of A for this tile.
__device__ inline void find_rows(const KernelCall& p, Shared& s) {
  const MxcheckGpuModelCall& c = p.call;
  const int i = static_cast<int>(threadIdx.x);
  if (i >= kTile) return;
  std::int64_t row = -1;
  std::int64_t a_row = -1;
  if (i < s.job.count) {
    const std::int64_t at = s.job.first + i;
    row = c.rows != nullptr && !p.extract ? c.rows[at] : at;
    bool good = row >= s.job.low && row < s.job.high;
    if (good) {
      a_row = c.row_index != nullptr ? c.row_index[row] : row;
      good = a_row >= 0 && (c.row_index == nullptr || a_row < c.a_rows);
    }
    if (!good) {
      row = a_row = -1;
      c.report->bad_rows = 1;
    }
  }
  s.row[i] = row;
  s.a_row[i] = a_row;
}

// kHalf codes of one line; zeros past `end` and for a line that is not there.
template <class Code>
struct Codes {
  static constexpr int kWords = kHalf * static_cast<int>(sizeof(Code)) / 4;
  static constexpr int kPerWord = 4 / static_cast<int>(sizeof(Code));
  std::uint32_t words[kWords];

  __device__ void load(const Code* line, std::int64_t k, std::int64_t end) {
    const bool there = line != nullptr && k < end;
    if (there && k + kHalf <= end && reinterpret_cast<std::uintptr_t>(line + k) % 16 == 0) {
      const auto* from = reinterpret_cast<const uint4*>(line + k);
#pragma unroll
      for (int i = 0; i < kWords / 4; ++i) {
        const uint4 v = from[i];
        words[4 * i] = v.x, words[4 * i + 1] = v.y, words[4 * i + 2] = v.z, words[4 * i + 3] = v.w;
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      words[i] = 0;
#pragma unroll
      for (int j = 0; j < kPerWord; ++j) {
        const std::int64_t at = k + i * kPerWord + j;
        if (there && at < end) words[i] |= static_cast<std::uint32_t>(line[at]) << (j * 32 / kPerWord);
      }
    }
  }
  [[nodiscard]] __device__ std::uint32_t code(int i) const {
    const std::uint32_t word = words[i / kPerWord] >> (i % kPerWord * 32 / kPerWord);
    return kPerWord == 1 ? word : word & ((1U << (32 / kPerWord % 32)) - 1);
  }
};

// Decoded into shared memory, k = first .. first + kHalf - 1 of the chunk.
template <class F>
__device__ void store(const Codes<typename F::Code>& codes, Shared& s, int line, int first) {
#pragma unroll
  for (int i = 0; i < kHalf; i += 2) {
    const Element x = decode<F>(codes.code(i));
    const Element y = decode<F>(codes.code(i + 1));
    s.value[first + i][line] = x.value;
    s.value[first + i + 1][line] = y.value;
    s.exponents[(first + i) / 2][line] =
        (static_cast<std::uint32_t>(x.exponent) & 0xFFFF) | static_cast<std::uint32_t>(y.exponent) << 16;
  }
}

struct Four {
  float at[4];
};

__device__ inline Four load_four(const float* from) {
  const float4 v = *reinterpret_cast<const float4*>(from);
  return {{v.x, v.y, v.z, v.w}};
}

struct FourPairs {
  std::uint32_t at[4];
};

__device__ inline FourPairs load_four(const std::uint32_t* from) {
  const uint4 v = *reinterpret_cast<const uint4*>(from);
  return {{v.x, v.y, v.z, v.w}};
}

// One step of 4 x 4 outputs: lines `row` .. of A and `column` .. of B, from k of the chunk.
template <class F>
__device__ __forceinline__ void step(const Shared& s, int k, int row, int column, std::uint32_t (&chain)[4][4]) {
  // Window. -28000 is no exponent of a product.
  std::uint32_t inverse[4][4];
#pragma unroll
  for (int i = 0; i < 16; ++i) inverse[i / 4][i % 4] = 0x92A092A0;
#pragma unroll 4
  for (int pair = k / 2; pair < (k + F::kStep) / 2; ++pair) {
    const FourPairs a = load_four(&s.exponents[pair][row]);
    const FourPairs b = load_four(&s.exponents[pair][column]);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      inverse[i / 4][i % 4] = __viaddmax_s16x2(a.at[i / 4], b.at[i % 4], inverse[i / 4][i % 4]);
    }
  }
  bool slow = false;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    std::uint32_t& x = inverse[i / 4][i % 4];
    x = inverse_unit(x, chain[i / 4][i % 4], F::kFraction);
    slow = slow || x == kSlow;
  }

  // Sums of units: int32 for 8 products with 25 fraction bits (2^30), for all with 13.
  constexpr int kPart = F::kFraction == 13 ? F::kStep : 8;
  std::int32_t sums[F::kStep / kPart][4][4] = {};
#pragma unroll
  for (int part = 0; part < F::kStep / kPart; ++part) {
#pragma unroll 4
    for (int i = 0; i < kPart; ++i) {
      const Four a = load_four(&s.value[k + part * kPart + i][row]);
      const Four b = load_four(&s.value[k + part * kPart + i][column]);
#pragma unroll
      for (int o = 0; o < 16; ++o) {
        sums[part][o / 4][o % 4] += units(a.at[o / 4], b.at[o % 4], inverse[o / 4][o % 4]);
      }
    }
  }
  if (slow) {
#pragma unroll
    for (int o = 0; o < 16; ++o) {
      if (inverse[o / 4][o % 4] != kSlow) continue;
      std::uint32_t& c = chain[o / 4][o % 4];
      c = slow_step<F, kLines>(&s.value[k][row + o / 4], &s.value[k][column + o % 4], &s.exponents[k / 2][row + o / 4],
                               &s.exponents[k / 2][column + o % 4], c);
      inverse[o / 4][o % 4] = kKept;
    }
  }
#pragma unroll
  for (int o = 0; o < 16; ++o) {
    std::uint32_t& c = chain[o / 4][o % 4];
    const std::uint32_t x = inverse[o / 4][o % 4];
    std::uint32_t word;
    if constexpr (F::kFraction == 13) {
      word = word_of<F>(sums[0][o / 4][o % 4] + units_of_c(c, x), x);
    } else {
      std::int64_t sum = units_of_c(c, x);
#pragma unroll
      for (int part = 0; part < F::kStep / kPart; ++part) sum += sums[part][o / 4][o % 4];
      word = word_of<F>(sum, x);
    }
    c = x == kKept ? c : word;
  }
}

__device__ inline float load_scale(const MxcheckGpuModelCall& c, const void* scales, std::int64_t at) {
  if (c.scale_format == MXCHECK_GPU_MODEL_SCALE_FP32) return static_cast<const float*>(scales)[at];
  return decode_e8m0(static_cast<const std::uint8_t*>(scales)[at]);
}

// The end of an interval that began at column k: chain into total, chain to +0.
__device__ __forceinline__ void promote(const MxcheckGpuModelCall& c, const Shared& s, std::int64_t k, int row,
                                        int column, std::uint32_t (&chain)[4][4], float (&total)[4][4]) {
  float scale_a[4];
  float scale_b[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    scale_a[i] = scale_b[i] = 1.0F;
    if (c.scale_format == MXCHECK_GPU_MODEL_NO_SCALE) continue;
    const std::int64_t a_row = s.a_row[row + i];
    const std::int64_t b_row = s.job.column + column + i;
    if (a_row >= 0) {
      scale_a[i] = load_scale(c, c.scale_a, a_row * divide_up(c.k, c.scale_a_block) + k / c.scale_a_block);
    }
    if (b_row < c.n) {
      const std::int64_t expert = c.groups == MXCHECK_GPU_MODEL_ALONG_M ? s.job.expert : 0;
      const std::int64_t line = expert * divide_up(c.n, c.scale_b_rows) + b_row / c.scale_b_rows;
      scale_b[i] = load_scale(c, c.scale_b, line * divide_up(c.k, c.scale_b_block) + k / c.scale_b_block);
    }
  }
#pragma unroll
  for (int o = 0; o < 16; ++o) {
    total[o / 4][o % 4] =
        __fmaf_rn(__uint_as_float(chain[o / 4][o % 4]), __fmul_rn(scale_a[o / 4], scale_b[o % 4]), total[o / 4][o % 4]);
    chain[o / 4][o % 4] = 0;
  }
}

// The output's word.
__device__ inline std::uint32_t finish(const MxcheckGpuModelCall& c, float value, std::int64_t line,
                                       std::int64_t column) {
  if (c.alpha != 1.0F) value = __fmul_rn(c.alpha, value);
  if (c.c != nullptr) value = __fadd_rn(value, c.c[line * c.ldc + column]);
  if (c.output == MXCHECK_GPU_MODEL_OUT_BF16) return bf16_word(value);
  const std::uint32_t bits = __float_as_uint(value);
  return (bits & 0x7FFFFFFF) > 0x7F800000 ? kNan : bits;
}

__device__ inline bool is_nan(const MxcheckGpuModelCall& c, std::uint32_t word) {
  return c.output == MXCHECK_GPU_MODEL_OUT_BF16 ? (word & 0x7FFF) > 0x7F80 : (word & 0x7FFFFFFF) > 0x7F800000;
}

__device__ inline void settle(const KernelCall& p, Shared& s, const float (&value)[4][4], int row, int column) {
  const MxcheckGpuModelCall& c = p.call;
  const bool strict = c.output == MXCHECK_GPU_MODEL_OUT_FP32 && c.promotion == 0 && c.alpha == 1.0F && c.c == nullptr;
  unsigned int compared = 0;
  unsigned int differing = 0;
  unsigned long long first = ~0ULL;
#pragma unroll
  for (int o = 0; o < 16; ++o) {
    const std::int64_t d_row = s.row[row + o / 4];
    const std::int64_t d_column = s.job.column + column + o % 4;
    if (d_row < 0 || d_column >= c.n) continue;
    const std::int64_t line = (c.groups == MXCHECK_GPU_MODEL_ALONG_K ? s.job.expert * c.m : 0) + d_row;
    const std::uint32_t expected = finish(c, value[o / 4][o % 4], line, d_column);
    const std::int64_t at = line * c.ldd + d_column;
    ++compared;
    if (c.mode == MXCHECK_GPU_MODEL_WRITE) {
      if (c.output == MXCHECK_GPU_MODEL_OUT_BF16) {
        static_cast<std::uint16_t*>(c.d)[at] = static_cast<std::uint16_t>(expected);
      } else {
        static_cast<std::uint32_t*>(c.d)[at] = expected;
      }
      continue;
    }
    const std::uint32_t observed = c.output == MXCHECK_GPU_MODEL_OUT_BF16 ? static_cast<const std::uint16_t*>(c.d)[at]
                                                                          : static_cast<const std::uint32_t*>(c.d)[at];
    const auto index = static_cast<unsigned long long>(line * c.n + d_column);
    if (p.extract) {
      if (index == c.report->first) {
        c.report->expected = expected;
        c.report->observed = observed;
      }
      continue;
    }
    const bool equal = expected == observed || (!strict && is_nan(c, expected) && is_nan(c, observed));
    if (!equal) {
      ++differing;
      first = index < first ? index : first;
    }
  }
  if (p.extract) return;
  atomicAdd(&s.compared, compared);
  if (differing != 0) {
    atomicAdd(&s.differing, differing);
    atomicMin(&s.first, first);
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  auto* report = c.report;
  atomicAdd(reinterpret_cast<unsigned long long*>(&report->compared), static_cast<unsigned long long>(s.compared));
  if (s.differing == 0) return;
  atomicAdd(reinterpret_cast<unsigned long long*>(&report->differing), static_cast<unsigned long long>(s.differing));
  atomicMin(reinterpret_cast<unsigned long long*>(&report->first), s.first);
}

template <int kA, int kB>
__global__ __launch_bounds__(kThreads, 2) void compare_kernel(const __grid_constant__ KernelCall p) {
  using A = FormatOf<kA>;
  using B = FormatOf<kB>;
  static_assert(A::kStep == B::kStep && A::kFraction == B::kFraction &&
                sizeof(typename A::Code) == sizeof(typename B::Code));
  static_assert(kDepth % A::kStep == 0 && kThreads == 2 * kLines && kTile * kTile == 16 * kThreads);
  __shared__ __align__(16) Shared s;
  const MxcheckGpuModelCall& c = p.call;
  const int thread = static_cast<int>(threadIdx.x);

  find_job(p, s);
  __syncthreads();
  if (!s.job.valid) return;
  find_rows(p, s);
  __syncthreads();

  // Load: two threads a line. Compute: 4 x 4 outputs a thread.
  const int line = thread % kLines;
  const int half = thread / kLines * kHalf;
  const int row = thread / 16 * 4;
  const int column = thread % 16 * 4;
  const typename A::Code* from = nullptr;
  if (line < kTile) {
    if (s.a_row[line] >= 0) from = static_cast<const typename A::Code*>(c.a) + s.a_row[line] * c.lda;
  } else if (s.job.column + line - kTile < c.n) {
    const std::int64_t expert = c.groups == MXCHECK_GPU_MODEL_ALONG_M ? s.job.expert : 0;
    from = static_cast<const typename A::Code*>(c.b) + (expert * c.n + s.job.column + line - kTile) * c.ldb;
  }

  const std::int64_t k_end = s.job.k_end;
  std::int64_t interval = s.job.k_begin;
  std::uint32_t chain[4][4] = {};
  float total[4][4] = {};
  Codes<typename A::Code> codes;
  codes.load(from, interval + half, k_end);
  for (std::int64_t k = s.job.k_begin; k < k_end; k += kDepth) {
    if (line < kTile) {
      store<A>(codes, s, line, half);
    } else {
      store<B>(codes, s, line, half);
    }
    __syncthreads();
    codes.load(from, k + kDepth + half, k_end);
#pragma unroll 1
    for (int at = 0; at < kDepth && k + at < k_end; at += A::kStep) {
      step<A>(s, at, row, kTile + column, chain);
      const std::int64_t next = k + at + A::kStep;
      if (c.promotion == 0 || (next - interval < c.promotion && next < k_end)) continue;
      promote(c, s, interval, row, column, chain, total);
      interval = next;
    }
    __syncthreads();
  }
  if (c.promotion == 0) {
#pragma unroll
    for (int o = 0; o < 16; ++o) total[o / 4][o % 4] = __uint_as_float(chain[o / 4][o % 4]);
  }
  settle(p, s, total, row, column);
}

static __global__ void begin_report(MxcheckGpuModelReport* report) { *report = {0, 0, ~std::uint64_t{0}, 0, 0, 0, 0}; }

static __global__ void decode_mx_kernel(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t rows,
                                        std::int64_t k, std::uint16_t* out) {
  const std::int64_t threads = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < rows * k; at += threads) {
    const std::uint8_t scale = scales[at / k * divide_up(k, 32) + at % k / 32];
    out[at] = static_cast<std::uint16_t>(mx_as_bf16(codes[at], scale));
  }
}

}  // namespace mxcheck::gpu_model
