#pragma once
// The reference's answer, in the shape in which a candidate returns it, and the comparison of the two.

#include <immintrin.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/candidate.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {

// x as bits: BF16 or FP32 by the width of T, rows x cols with a row stride.
template <class T>
struct Sample {
  std::vector<T> bits;
  std::int64_t rows = 0, cols = 0, stride = 0;

  MatrixView view() const {
    return {sizeof(T) == 2 ? Format::bf16 : Format::fp32, reinterpret_cast<const std::byte*>(bits.data()), rows, cols,
            stride};
  }
};

template <class T>
Sample<T> sample_of(std::int64_t rows, std::int64_t cols, std::vector<T> bits) {
  return {std::move(bits), rows, cols, cols};
}

struct Case {
  Format format = Format::e4m3;
  std::string recipe = "rceil";
  BlockShape block;
  mxcheck_layout layout = MXCHECK_COMPACT;
  std::vector<std::int64_t> offsets;
  std::int32_t threads = 1;
  std::uint32_t mxcsr = 0;  // floating-point control bits set while the candidate runs: rounding, flush to zero
  std::vector<std::int32_t> also_threads;  // of quantize: the best target runs with each of these counts too

  std::string text() const;
};

// Empty if the candidate's bytes equal the reference's, otherwise where and how they differ first. The reference is
// computed once, the candidate run once for each SIMD target that the machine has, and for each of also_threads.
template <class T>
std::string quantize_difference(const Case& c, const Sample<T>& x);
template <class T>
std::string quantize_dual_difference(const Case& c, const Sample<T>& x);
std::string dequantize_difference(const Case& c, const QuantizedTensor& q, Format wide);
std::string scale_layout_difference(const Case& c, std::int64_t rows, std::int64_t cols);

// The mode of arithmetic that a caller may have set.
class UseControlBits {
 public:
  explicit UseControlBits(std::uint32_t bits) : before_(_mm_getcsr()) { _mm_setcsr(before_ | bits); }
  ~UseControlBits() { _mm_setcsr(before_); }
  UseControlBits(const UseControlBits&) = delete;
  UseControlBits& operator=(const UseControlBits&) = delete;

 private:
  std::uint32_t before_;
};

// Reproducible random words.
class Words {
 public:
  explicit Words(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();  // splitmix64
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(bound));
  }

 private:
  std::uint64_t state_;
};

// Bits whose exponents lie within a few of a common one, with zeros, both signs, ties and, now and then, specials.
template <class T>
Sample<T> random_sample(std::uint64_t seed, std::int64_t rows, std::int64_t cols, std::int64_t stride = 0);

}  // namespace mxcheck
