#pragma once
// Four Over Six of a thread's blocks to nearest: both scales are tried, and the errors of their codes decide where they
// may (raised.cuh); else those of the definition do, in its order.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/common/four_over_six.cuh"
#include "kernels/sm90/nvfp4/blocks.cuh"
#include "kernels/sm90/nvfp4/encode.cuh"
#include "kernels/sm90/nvfp4/levels.cuh"
#include "kernels/sm90/nvfp4/nvfp4.h"
#include "kernels/sm90/nvfp4/raised.cuh"
#include "kernels/sm90/nvfp4/tile.cuh"

namespace mxcheck_kernels::sm90 {

// The two scales of a block.
struct SixAndFour {
  Nvfp4Scale six, four;
  bool is_ordinary = false;  // sums of errors in any order may decide
  [[nodiscard]] __device__ __forceinline__ bool is_choice() const { return six.byte != four.byte; }
};

__device__ __forceinline__ Nvfp4Scale scale_of_quotient(const Nvfp4Outer& outer, float quotient) {
  Nvfp4Scale scale;
  scale.byte = e4m3_of(quotient);
  const float step = __fmul_rn(e4m3_value(scale.byte), outer.decode);
  scale.factor = scale.byte == 0 ? 0 : outer.ordinary ? reciprocal_of_normal(step) : __frcp_rn(step);
  return scale;
}

// amax: bits of the block's largest magnitude, NaN if there is one.
__device__ __forceinline__ SixAndFour six_and_four(const Nvfp4Outer& outer, float stored, std::uint32_t amax) {
  const float a = __uint_as_float(amax);
  const float quotient = __fmul_rn(__fdiv_rn(a, 6.0F), outer.encode);
  SixAndFour s;
  s.six = scale_of_quotient(outer, quotient);
  s.four = scale_of_quotient(outer, __fmul_rn(quotient, 1.5F));
  s.is_ordinary = codes_may_decide(stored, a, s.four.factor, s.six.factor);
  return s;
}

// The codes of a block's magnitudes under a scale, all below 7, raised as raised_code() does it, and the sum of d d.
struct Tried {
  Codes raised{};
  float sum = 0;
};
template <class T>
__device__ __forceinline__ Tried tried(const Nvfp4Job& job, const Block<T>& b, float factor) {
  Tried t;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int i = 7; i >= 0; --i) {
      const float m = magnitude(b, 8 * half + i, factor);
      const std::uint32_t code = raised_code(m);
      t.raised.w[half] = t.raised.w[half] * job.sixteen + code;
      t.sum = with_error(t.sum, m, code, job.tiny_code);
    }
  }
  return t;
}

// sums: of d d over the n elements.
__device__ __forceinline__ Stretch choice_of(const SixAndFour& s, const Nvfp4Outer& outer, std::uint32_t amax,
                                             float sum_of_four, float sum_of_six, int n) {
  if (!s.is_choice()) return Stretch::six;
  if (!s.is_ordinary) return Stretch::by_definition;
  const float a = __fmul_rn(__uint_as_float(amax), outer.encode);
  return choice_by_codes(a, error_of_codes(e4m3_value(s.four.byte), sum_of_four),
                         error_of_codes(e4m3_value(s.six.byte), sum_of_six), n);
}

// Adds the squared errors of a block's first elements to a sum, in order and by the definition.
template <class T>
__device__ __noinline__ float sum_by_definition(Block<T> b, Nvfp4Scale scale, float stored, int count, float sum) {
  const float height = e4m3_value(scale.byte);
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    const float x = fabsf(element(b, i));
    const float r = value_of_raised(raised_code(fminf(__fmul_rn(x, scale.factor), 6.0F)));
    const float next = __fadd_rn(sum, squared_error(x, __fmul_rn(r, height), stored));
    sum = i < count ? next : sum;
  }
  return sum;
}

// The codes of a block under the scale that was taken.
template <class T>
__device__ __forceinline__ Codes chosen_codes(const Nvfp4Job& job, const Nvfp4Outer& outer, const SixAndFour& s,
                                              bool is_four, const Tried& six, const Tried& four, const Block<T>& b,
                                              std::uint32_t amax, int count) {
  if (!s.is_ordinary) return encode_to_nearest<false>(outer, is_four ? s.four : s.six, b, amax, job.sixteen, count);
  Codes codes;
#pragma unroll
  for (int half = 0; half < 2; ++half)
    codes.w[half] = lowered(is_four ? four.raised.w[half] : six.raised.w[half], signs_of(b, half));
  return codes;
}

__device__ __forceinline__ void store_row(const Nvfp4Job& job, const Place& at, int row, const Codes& codes) {
  if (at.count <= 0 || row >= at.rows) return;
  const std::int64_t row_bytes = (job.cols + 1) / 2;
  store_block(job, job.codes + (at.row + row) * row_bytes + at.block * (kElements / 2), codes, at.count);
}

// The threads of a square of 16 rows, which are lanes of one warp, kSideBlocks apart.
struct SquareOfLanes {
  [[nodiscard]] __device__ __forceinline__ int place() const {
    return static_cast<int>(threadIdx.x) % 32 / kSideBlocks;
  }
  [[nodiscard]] __device__ __forceinline__ float sum(float own) const {
    own = __fadd_rn(own, __shfl_xor_sync(kAllLanes, own, kSideBlocks));
    return __fadd_rn(own, __shfl_xor_sync(kAllLanes, own, 2 * kSideBlocks));
  }
  [[nodiscard]] __device__ __forceinline__ bool any(bool one) const { return __any_sync(kAllLanes, one); }
  // That of the thread at this place.
  [[nodiscard]] __device__ __forceinline__ float of(int place, float own) const {
    return __shfl_sync(kAllLanes, own, place * kSideBlocks + static_cast<int>(threadIdx.x) % kSideBlocks);
  }
};

// They are threads of four warps, kAcross apart.
struct SquareOfWarps {
  float (&shared)[kDown][kAcross];
  [[nodiscard]] __device__ __forceinline__ int place() const { return static_cast<int>(threadIdx.x) / kAcross; }
  __device__ __forceinline__ void share(float own) const {
    __syncthreads();
    shared[place()][threadIdx.x % kAcross] = own;
    __syncthreads();
  }
  [[nodiscard]] __device__ __forceinline__ float sum(float own) const {
    static_assert(kDown == 4);
    share(own);
    const int across = static_cast<int>(threadIdx.x) % kAcross;
    return __fadd_rn(__fadd_rn(shared[0][across], shared[1][across]), __fadd_rn(shared[2][across], shared[3][across]));
  }
  [[nodiscard]] __device__ __forceinline__ bool any(bool one) const { return __syncthreads_or(one ? 1 : 0) != 0; }
  [[nodiscard]] __device__ __forceinline__ float of(int place, float own) const {
    share(own);
    return shared[place][threadIdx.x % kAcross];
  }
};

// The sum of a square's errors by the definition, row after row, where `open`. All threads of the group take part.
template <class Square, class T>
__device__ __forceinline__ float square_by_definition(const Square& square, const Place& at, const Nvfp4Scale& scale,
                                                      float stored, bool open, const Block<T> (&x)[kRowsOfThread]) {
  float sum = 0;
#pragma unroll 1
  for (int place = 0; place < kElements / kRowsOfThread; ++place) {
    float own = sum;
    if (open && square.place() == place) {
#pragma unroll
      for (int r = 0; r < kRowsOfThread; ++r) {
        if (r < at.rows) own = sum_by_definition(x[r], scale, stored, at.count, own);
      }
    }
    sum = square.of(place, own);
  }
  return sum;
}

// Four rows of a square. amax: of the whole square. stores: this thread is its first.
template <class Square, class T>
__device__ __forceinline__ void choose_square(const Nvfp4Job& job, const Place& at, const Nvfp4Outer& outer,
                                              float stored, const Square& square, std::uint32_t amax, bool stores,
                                              const Block<T> (&x)[kRowsOfThread]) {
  const SixAndFour s = six_and_four(outer, stored, amax);
  Tried six[kRowsOfThread];
  Tried four[kRowsOfThread];
  float sum_of_six = 0;
  float sum_of_four = 0;
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r) {
    six[r] = tried(job, x[r], s.six.factor), four[r] = tried(job, x[r], s.four.factor);
    sum_of_six = __fadd_rn(sum_of_six, six[r].sum), sum_of_four = __fadd_rn(sum_of_four, four[r].sum);
  }
  const Stretch choice =
      choice_of(s, outer, amax, square.sum(sum_of_four), square.sum(sum_of_six), kElements * kElements);
  bool is_four = choice == Stretch::four;
  const bool open = choice == Stretch::by_definition;
  if (square.any(open)) {
    const float of_four = square_by_definition(square, at, s.four, stored, open, x);
    const float of_six = square_by_definition(square, at, s.six, stored, open, x);
    if (open) is_four = of_four < of_six;
  }
  if (stores && at.count > 0 && at.rows > 0) {
    job.scales[at.row / kElements * job.blocks + at.block] =
        static_cast<std::uint8_t>(is_four ? s.four.byte : s.six.byte);
  }
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r)
    store_row(job, at, r, chosen_codes(job, outer, s, is_four, six[r], four[r], x[r], amax, at.count));
}

}  // namespace mxcheck_kernels::sm90
