// Shared by the SIMD kernels: BF16 and FP32 as integers, pieces of a matrix, and how elements find their block.
// Compiled once for each Highway target (no #pragma once: see the toggle).

#if defined(MXCHECK_CPU_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
  #ifdef MXCHECK_CPU_LANES_INL_H_
    #undef MXCHECK_CPU_LANES_INL_H_
  #else
    #define MXCHECK_CPU_LANES_INL_H_
  #endif

  #include <algorithm>
  #include <cstdint>

  #include "hwy/cache_control.h"
  #include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mxcheck_kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t kSubBlock = 32;  // amax is taken over 32 elements first: every block length is a multiple
constexpr std::int64_t kGranule = 256;  // runs are processed in whole multiples; the rest goes through a buffer

template <class T>
struct Bits {
  static constexpr int kWidth = 8 * static_cast<int>(sizeof(T));
  static constexpr int kMantissa = kWidth - 9;  // 7 for BF16, 23 for FP32
  static constexpr T kSign = static_cast<T>(T{1} << (kWidth - 1));
  static constexpr T kMagnitude = static_cast<T>(kSign - 1);
  static constexpr T kHidden = static_cast<T>(T{1} << kMantissa);
  static constexpr T kFraction = static_cast<T>(kHidden - 1);
  static constexpr T kInfinity = static_cast<T>(T{0xFF} << kMantissa);
};

// A piece of the matrix that is processed in one go, and where its codes go. cols is what counts; `readable` columns,
// a multiple of kGranule, may be read, and as many codes written.
template <class T>
struct Panel {
  const T* x;
  std::int64_t stride;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t readable;
  std::uint8_t* codes;
  std::int64_t codes_stride;
};

// A panel's copy, padded with zeros to kGranule columns.
template <class T, std::int64_t kRows>
struct Buffer {
  HWY_ALIGN T x[kRows * kGranule];
  HWY_ALIGN std::uint8_t codes[kRows * kGranule];

  Panel<T> fill(const T* from, std::int64_t stride, std::int64_t rows, std::int64_t cols) {
    for (std::int64_t r = 0; r < rows; ++r) {
      std::copy_n(from + r * stride, cols, x + r * kGranule);
      std::fill_n(x + r * kGranule + cols, kGranule - cols, T{0});
    }
    return {x, kGranule, rows, cols, kGranule, codes, kGranule};
  }

  // The first bytes of each row of codes.
  void drain(std::uint8_t* to, std::int64_t stride, std::int64_t rows, std::int64_t bytes) const {
    for (std::int64_t r = 0; r < rows; ++r) std::copy_n(codes + r * kGranule, bytes, to + r * stride);
  }
};

  #if HWY_TARGET != HWY_SCALAR

// Where an element finds its block's values: one block after the other along a row, or one a column.
template <int kLog2>  // block length; 62: one block for all
struct AlongRow {
  template <class D, class T>
  static HWY_INLINE auto at(D d, const T* of_block, std::int64_t i) {
    return hn::Set(d, of_block[i >> kLog2]);
  }
};

struct EachColumn {
  template <class D, class T>
  static HWY_INLINE auto at(D d, const T* of_block, std::int64_t i) {
    return hn::Load(d, of_block + i);
  }
};

// Prefetches the cache line `ahead` elements after x, past the end of a tensor too.
template <class T>
HWY_INLINE void prefetch(const T* x, std::int64_t ahead) {
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(x) + static_cast<std::uintptr_t>(ahead) * sizeof(T);
  hwy::Prefetch(reinterpret_cast<const T*>(address));
}

// True if codes or values can be written past the cache: such stores need whole, aligned vectors.
template <class D>
bool is_aligned(D d, const void* to) {
  return reinterpret_cast<std::uintptr_t>(to) % (hn::Lanes(d) * sizeof(hn::TFromD<D>)) == 0;
}

  #endif  // HWY_TARGET != HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace mxcheck_kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
