// NVFP4 quantization, with or without a Hadamard transform of 16 before it and stochastic rounding. A block of 256
// threads takes 16 rows of 1024 columns (tile.cuh).
//
// Layout: a thread has a block of 16 columns in each of four rows, and loads all before it looks at one; groups of the
// transform are blocks. Compute: a butterfly in FP32 within the thread, rounded to BF16 if that is asked; amax by
// integers, which keep NaN and Inf; scales; codes, two elements at a time (encode.cuh). Words: Philox, once for a
// block's 16 elements by bytes where blocks begin at multiples of 16 and a recipe has a factor, else once an element.
// Store: two words of eight codes a row; of scales a word of four blocks a row, by one lane of four for each of the
// four rows.

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/common/nvfp4/options.h"
#include "kernels/sm90/nvfp4/encode.cuh"
#include "kernels/sm90/nvfp4/levels.cuh"
#include "kernels/sm90/nvfp4/nvfp4.h"
#include "kernels/sm90/nvfp4/tile.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

// How a kernel's matrix is stored.
struct Nvfp4Access {
  bool vector = false;      // nvfp4.h
  bool wide = false;        // and all blocks have 16 columns, and codes are aligned to 8
  std::int64_t blocks = 0;  // of columns
};

// Sign bits of a block of x, from the host: they lie beside the kernel's other arguments.
template <class T>
struct Nvfp4Signs {
  std::uint32_t w[Block<T>::kWords];
};

template <class T>
Nvfp4Signs<T> signs_from(std::uint32_t bits) {
  Nvfp4Signs<T> signs{};
  constexpr int kInWord = 4 / static_cast<int>(sizeof(T));
  for (int i = 0; i < kElements; ++i) {
    signs.w[i / kInWord] |= (bits >> i & 1U) << (8 * sizeof(T) * (i % kInWord + 1) - 1);
  }
  return signs;
}

// The block after the transform; To: the type whose values are quantized.
template <class To, class T>
__device__ __forceinline__ Block<To> transformed(Block<T> b, const Nvfp4Signs<T>& signs) {
#pragma unroll
  for (int i = 0; i < Block<T>::kWords; ++i) b.w[i] ^= signs.w[i];
  float v[kElements];
#pragma unroll
  for (int i = 0; i < kElements; ++i) v[i] = element(b, i);
#pragma unroll
  for (int h = 1; h < kElements; h *= 2) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      if ((i & h) != 0) continue;
      const float low = v[i];
      const float high = v[i + h];
      v[i] = __fadd_rn(low, high), v[i + h] = __fsub_rn(low, high);
    }
  }
  Block<To> to;
  if constexpr (sizeof(To) == 2) {
#pragma unroll
    for (int i = 0; i < kElements / 2; ++i) {
      const __nv_bfloat162 two = __floats2bfloat162_rn(__fmul_rn(v[2 * i], 0.25F), __fmul_rn(v[2 * i + 1], 0.25F));
      to.w[i] = static_cast<std::uint32_t>(__bfloat16_as_ushort(two.x)) |
                static_cast<std::uint32_t>(__bfloat16_as_ushort(two.y)) << 16;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kElements; ++i) to.w[i] = __float_as_uint(__fmul_rn(v[i], 0.25F));
  }
  return to;
}

// T: of x; To: of what is quantized, T or the transform's result.
template <class T, class To, bool kSquare, bool kExact, Rounding kRounding>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 4 || sizeof(To) == 4          ? 2
                                            : kExact || kRounding != Rounding::nearest ? 3
                                                                                       : 4)
    nvfp4_kernel(const __grid_constant__ Nvfp4Job job, const __grid_constant__ Nvfp4OptionJob options,
                 const __grid_constant__ Nvfp4Keys keys, const __grid_constant__ Nvfp4Signs<T> signs,
                 const __grid_constant__ Nvfp4Access access) {
  // ---- layout
  const int across = static_cast<int>(threadIdx.x) % kAcross;
  const int down = static_cast<int>(threadIdx.x) / kAcross;
  const std::int64_t tile_row = static_cast<std::int64_t>(blockIdx.z) * kMostDown + blockIdx.y;
  const std::int64_t first_row = tile_row * kTileRows + down * kRowsOfThread;
  const std::int64_t block = static_cast<std::int64_t>(blockIdx.x) * kAcross + across;  // of columns
  const std::int64_t col = block * kElements;
  const int count = static_cast<int>(min(std::int64_t{kElements}, job.cols - col));  // of elements, maybe negative
  const int rows = static_cast<int>(min(std::int64_t{kRowsOfThread}, job.rows - first_row));

  // ---- load and transform
  Block<T> raw[kRowsOfThread];
  const T* from = static_cast<const T*>(job.x) + first_row * job.stride + col;
  const bool whole = access.wide && rows == kRowsOfThread;  // but for columns that are not there at all
  if (whole) {
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) {
      raw[r] = {};
      if (count > 0) raw[r] = load_whole_block(from + r * job.stride);
    }
  } else {
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) {
      raw[r] = r < rows ? load_block(from + r * job.stride, count, access.vector) : Block<T>{};
    }
  }
  Block<To> x[kRowsOfThread];
  if (options.transforms) {
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) x[r] = transformed<To>(raw[r], signs);
  } else if constexpr (sizeof(To) == sizeof(T)) {
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) x[r] = raw[r];
  }
  const Nvfp4Outer outer = outer_of<kExact>(job.recipe, __ldg(job.tensor_scale));

  // ---- reduce
  std::uint32_t amax[kRowsOfThread];      // bits of the largest magnitude
  std::uint32_t counting[kRowsOfThread];  // of that which counts for the scale
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r) counting[r] = amax[r] = largest(x[r]);
  if (!kExact && max(max(amax[0], amax[1]), max(amax[2], amax[3])) > kInfinityBits) {
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) counting[r] = largest_number(x[r]);
  }
  Nvfp4Scale scales[kSquare ? 1 : kRowsOfThread];
  if constexpr (kSquare) {
    __shared__ std::uint32_t shared[kDown][kAcross];
    const std::uint32_t of_rows = max(max(counting[0], counting[1]), max(counting[2], counting[3]));
    const std::uint32_t of_square[] = {largest_of_rows(shared, of_rows)};
    find_scales<kExact>(job.recipe, outer, of_square, scales);
    if (down == 0 && count > 0 && rows > 0)
      job.scales[tile_row * access.blocks + block] = static_cast<std::uint8_t>(scales[0].byte);
  } else {
    find_scales<kExact>(job.recipe, outer, counting, scales);
    std::uint32_t bytes = 0;
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) bytes |= scales[r].byte << (8 * r);
    store_scales(job, first_row, block, access.blocks, bytes);
  }

  // ---- compute and store
  if (count <= 0) return;
  const std::int64_t row_bytes = (job.cols + 1) / 2;
  std::uint8_t* to = job.codes + first_row * row_bytes + col / 2;
  const auto number = static_cast<std::uint64_t>(first_row * job.cols + col) + options.words.offset;
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r) {
    if (r >= rows) break;
    const BlockWords words{options.words, keys, number + static_cast<std::uint64_t>(r * job.cols)};
    const Codes codes = encode<kExact, kRounding>(outer, scales[kSquare ? 0 : r], x[r], amax[r], words, count);
    if (access.wide) {
      __stcs(reinterpret_cast<uint2*>(to + r * row_bytes), make_uint2(codes.w[0], codes.w[1]));
    } else {
      store_codes(to + r * row_bytes, codes, count, access.vector);
    }
  }
}

struct Launch {
  Nvfp4Job job;
  Nvfp4OptionJob options;
  Nvfp4Keys keys = {};
  Nvfp4Access access;
  bool square = false;
  dim3 grid;
  cudaStream_t stream = nullptr;
};

template <class T, class To, bool kSquare, bool kExact>
cudaError_t launch(const Launch& l) {
  const auto start = [&](auto* kernel) {
    kernel<<<l.grid, kThreads, 0, l.stream>>>(l.job, l.options, l.keys, signs_from<T>(l.options.signs), l.access);
    return cudaGetLastError();
  };
  if (!l.options.stochastic) return start(nvfp4_kernel<T, To, kSquare, kExact, Rounding::nearest>);
  if (l.options.words.bytes) return start(nvfp4_kernel<T, To, kSquare, kExact, Rounding::bytes>);
  return start(nvfp4_kernel<T, To, kSquare, kExact, Rounding::words>);
}

template <class T, class To>
cudaError_t launch(const Launch& l) {
  const bool exact = l.job.recipe == Nvfp4Recipe::exact;
  if (l.square) return exact ? launch<T, To, true, true>(l) : launch<T, To, true, false>(l);
  return exact ? launch<T, To, false, true>(l) : launch<T, To, false, false>(l);
}

Nvfp4Keys keys_of(std::uint64_t seed) {
  Nvfp4Keys keys;
  auto low = static_cast<std::uint32_t>(seed);
  auto high = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    keys.k[2 * round] = low, keys.k[2 * round + 1] = high;
    low += 0x9E3779B9U, high += 0xBB67AE85U;
  }
  return keys;
}

}  // namespace

cudaError_t quantize_nvfp4(const Nvfp4Job& job, const Nvfp4OptionJob& options, int block_rows, Nvfp4Values values,
                           bool vector, cudaStream_t stream) {
  if (job.cols == 0 || job.rows == 0) return cudaSuccess;
  Launch l{.job = job, .options = options, .square = block_rows != 1, .stream = stream};
  if (!grid_of(job, l.grid)) return cudaErrorInvalidValue;
  l.keys = keys_of(options.words.seed);
  l.access.vector = vector, l.access.blocks = divide_up(job.cols, kElements);
  l.access.wide = vector && job.cols % kElements == 0 && reinterpret_cast<std::uintptr_t>(job.codes) % 8 == 0;
  const bool is_bf16 = values == Nvfp4Values::bf16;
  const bool to_bf16 = options.transforms ? options.to_bf16 : is_bf16;
  if (is_bf16) return to_bf16 ? launch<__nv_bfloat16, __nv_bfloat16>(l) : launch<__nv_bfloat16, float>(l);
  return to_bf16 ? launch<float, __nv_bfloat16>(l) : launch<float, float>(l);
}

}  // namespace mxcheck_kernels::sm90
