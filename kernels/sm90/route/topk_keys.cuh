#pragma once
// The order of docs/router.md as integers, and networks that sort and merge lists of them. Smaller is better.
//
// A value is negated first: y = 0 - v, which makes one zero of both and leaves NaN positive, so that in the order of
// integers that a sign-folded y gives, the largest v comes first and NaN last. With the expert's index below it a key
// is unique, and ties settle themselves: 16 bits over 16 for BF16 values, 32 over 32 for FP32.

#include <cstdint>

#ifdef __CUDACC__
  #include <cuda_runtime.h>
  #define MXCHECK_ORDER __device__ __forceinline__
  #define MXCHECK_UNROLL _Pragma("unroll")
#else
  #include <bit>
  #define MXCHECK_ORDER inline
  #define MXCHECK_UNROLL
#endif

namespace mxcheck_kernels::sm90 {

using Key16 = std::uint32_t;
using Key32 = std::uint64_t;

// After every key of an expert, those of NaN included: what fills a list.
template <class Key>
inline constexpr Key kAbsent = ~Key{0};

#ifdef __CUDACC__
MXCHECK_ORDER float negated(float v) { return __fsub_rn(0.0F, v); }  // NaN gives 0x7FFFFFFF
MXCHECK_ORDER std::uint32_t word_of(float v) { return __float_as_uint(v); }
MXCHECK_ORDER float float_of(std::uint32_t w) { return __uint_as_float(w); }
#else
inline float float_of(std::uint32_t w) { return std::bit_cast<float>(w); }
inline std::uint32_t word_of(float v) { return std::bit_cast<std::uint32_t>(v); }
inline float negated(float v) { return v == v ? 0.0F - v : float_of(0x7FFFFFFFU); }
#endif

// The bits of a number so that unsigned integers compare as numbers do; its own inverse is unfolded().
MXCHECK_ORDER std::uint32_t folded(std::uint32_t y) {
  return y ^ (static_cast<std::uint32_t>(static_cast<std::int32_t>(y) >> 31) | 0x80000000U);
}
MXCHECK_ORDER std::uint32_t unfolded(std::uint32_t f) {
  return f ^ (~static_cast<std::uint32_t>(static_cast<std::int32_t>(f) >> 31) | 0x80000000U);
}

MXCHECK_ORDER Key32 key_of(float negative, std::uint32_t index) {
  return Key32{folded(word_of(negative))} << 32 | index;
}
MXCHECK_ORDER std::uint32_t index_of(Key32 key) { return static_cast<std::uint32_t>(key); }
MXCHECK_ORDER std::uint32_t index_of(Key16 key) { return key & 0xFFFFU; }
// The value that went in, but for the sign of a zero and of a NaN.
MXCHECK_ORDER float value_of(Key32 key) { return -float_of(unfolded(static_cast<std::uint32_t>(key >> 32))); }
MXCHECK_ORDER float value_of(Key16 key) { return -float_of(unfolded(key) & 0xFFFF0000U); }

template <class Key>
MXCHECK_ORDER Key smaller(Key a, Key b) {
  return a < b ? a : b;
}

template <class Key>
MXCHECK_ORDER Key larger(Key a, Key b) {
  return a < b ? b : a;
}

template <class Key>
MXCHECK_ORDER void exchange(Key& a, Key& b) {
  const bool in_order = a < b;
  const Key low = in_order ? a : b;
  b = in_order ? b : a;
  a = low;
}

// Batcher's odd-even merge sort, ascending; 19 exchanges for 8.
template <int kFrom, int kCount, int kStep, class Key>
MXCHECK_ORDER void merge_halves(Key* keys) {
  if constexpr (kStep * 2 < kCount) {
    merge_halves<kFrom, kCount, kStep * 2>(keys);
    merge_halves<kFrom + kStep, kCount, kStep * 2>(keys);
    MXCHECK_UNROLL
    for (int i = kFrom + kStep; i + kStep < kFrom + kCount; i += kStep * 2) exchange(keys[i], keys[i + kStep]);
  } else {
    exchange(keys[kFrom], keys[kFrom + kStep]);
  }
}
template <int kFrom, int kCount, class Key>
MXCHECK_ORDER void sort(Key* keys) {
  if constexpr (kCount > 1) {
    sort<kFrom, kCount / 2>(keys);
    sort<kFrom + kCount / 2, kCount / 2>(keys);
    merge_halves<kFrom, kCount, 1>(keys);
  }
}

// Ascending, from a list that first rises and then falls, or the other way round.
template <int kCount, class Key>
MXCHECK_ORDER void sort_bitonic(Key* keys) {
  MXCHECK_UNROLL
  for (int step = kCount / 2; step > 0; step /= 2) {
    MXCHECK_UNROLL
    for (int i = 0; i < kCount; ++i) {
      if ((i & step) == 0) exchange(keys[i], keys[i + step]);
    }
  }
}

// The kList smallest of a sorted list and kMore sorted ones, sorted: what is last in the list meets what is first
// there.
template <int kList, int kMore, class Key>
MXCHECK_ORDER void insert(Key* list, const Key* more) {
  static_assert(kMore <= kList);
  MXCHECK_UNROLL
  for (int i = 0; i < kMore; ++i) list[kList - 1 - i] = smaller(list[kList - 1 - i], more[i]);
  sort_bitonic<kList>(list);
}

}  // namespace mxcheck_kernels::sm90
