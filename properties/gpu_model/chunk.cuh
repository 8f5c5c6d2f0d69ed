#pragma once
// 32 of k of a tile's lines: loaded, decoded into shared memory, and read from there.

#include <cstdint>

#include "properties/gpu_model/element.cuh"
#include "properties/gpu_model/job.cuh"

namespace mxcheck::gpu_model {

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

}  // namespace mxcheck::gpu_model
