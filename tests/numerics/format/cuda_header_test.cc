// A third opinion: NVIDIA's cuda_fp8.h, whose conversions are plain C++ on the host. Skipped where it is not installed.
//
// The header promises of NaN what numerics/ does not: 0x7F from floats, whatever its sign; from doubles the sign and
// the top payload bits are kept. So codes of NaN are compared from floats only.

#include "numerics/format/codec.h"
#include "numerics/scale/scale_rule.h"
#include "tests/testing.h"

#ifdef MXCHECK_HAS_CUDA_FP8_HEADER
  #include <cuda_fp4.h>
  #include <cuda_fp6.h>
  #include <cuda_fp8.h>

  #include <bit>
  #include <limits>
  #include <vector>
#endif

namespace mxcheck {
namespace {

using namespace test;

#ifndef MXCHECK_HAS_CUDA_FP8_HEADER

TEST(CudaHeader, agrees_with_our_conversions) {
  GTEST_SKIP() << "cuda_fp8.h is not installed; configure with a CUDA Toolkit 12.8 or later to compare with it";
}

#else

constexpr float kFloatInfinity = kInf;

// Every BF16, every value and midpoint of the format, and the neighbouring floats.
std::vector<float> inputs(Format format) {
  std::vector<float> result;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) result.push_back(std::bit_cast<float>(bits << 16));
  for (std::uint32_t m = 0; m <= spec(format).max_code; ++m) {
    const double here = decode(format, m);
    const double step = m == spec(format).max_code ? here - decode(format, m - 1) : decode(format, m + 1) - here;
    for (const double at : {here, here + step / 2, here + step}) {
      const float f = static_cast<float>(at);
      for (const float near : {f, std::nextafter(f, kFloatInfinity), std::nextafter(f, -kFloatInfinity)}) {
        result.push_back(near);
        result.push_back(-near);
      }
    }
  }
  return result;
}

void compare_fp8(Format format, __nv_fp8_interpretation_t interpretation) {
  for (const float x : inputs(format)) {
    const std::uint32_t saturated = encode(format, x, Rounding::nearest_even, Overflow::saturate);
    const std::uint32_t plain = encode(format, x, Rounding::nearest_even, Overflow::non_saturate);
    ASSERT_EQ(saturated, __nv_cvt_float_to_fp8(x, __NV_SATFINITE, interpretation)) << std::hexfloat << x;
    const std::uint32_t theirs = __nv_cvt_float_to_fp8(x, __NV_NOSAT, interpretation);
    if (std::isnan(decode(format, plain))) {
      ASSERT_TRUE(std::isnan(decode(format, theirs))) << std::hexfloat << x;
    } else {
      ASSERT_EQ(plain, theirs) << std::hexfloat << x;
    }
  }
}

TEST(CudaHeader, encodes_floats_to_e4m3_as_we_do) { compare_fp8(Format::e4m3, __NV_E4M3); }

TEST(CudaHeader, encodes_floats_to_e5m2_as_we_do) { compare_fp8(Format::e5m2, __NV_E5M2); }

TEST(CudaHeader, encodes_doubles_next_to_midpoints_as_we_do) {
  for (const Format format : {Format::e4m3, Format::e5m2}) {
    const auto interpretation = format == Format::e4m3 ? __NV_E4M3 : __NV_E5M2;
    for (std::uint32_t m = 0; m < spec(format).max_code; ++m) {
      const double middle = (decode(format, m) + decode(format, m + 1)) / 2;
      for (const double x : {middle, std::nextafter(middle, 1e300), std::nextafter(middle, -1e300), -middle})
        ASSERT_EQ(encode(format, x, Rounding::nearest_even, Overflow::saturate),
                  __nv_cvt_double_to_fp8(x, __NV_SATFINITE, interpretation))
            << std::hexfloat << x;
    }
  }
}

TEST(CudaHeader, decodes_fp8_codes_to_the_values_that_we_do) {
  for (const Format format : {Format::e4m3, Format::e5m2}) {
    const auto interpretation = format == Format::e4m3 ? __NV_E4M3 : __NV_E5M2;
    for (std::uint32_t code = 0; code < 256; ++code) {
      const __half_raw half = __nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(code), interpretation);
      const double theirs = decode(Format::fp16, half.x);
      const double ours = decode(format, code);
      if (std::isnan(ours))
        ASSERT_TRUE(std::isnan(theirs)) << code;
      else
        ASSERT_EQ(std::bit_cast<std::uint64_t>(ours), std::bit_cast<std::uint64_t>(theirs)) << code;
    }
  }
}

TEST(CudaHeader, encodes_e8m0_toward_zero_and_upward_as_we_do) {
  for (const float x : inputs(Format::e8m0)) {
    for (const Overflow overflow : {Overflow::saturate, Overflow::non_saturate}) {
      const auto saturation = overflow == Overflow::saturate ? __NV_SATFINITE : __NV_NOSAT;
      ASSERT_EQ(encode(Format::e8m0, x, Rounding::toward_zero, overflow),
                __nv_cvt_float_to_e8m0(x, saturation, cudaRoundZero))
          << std::hexfloat << x;
      ASSERT_EQ(encode(Format::e8m0, x, Rounding::upward, overflow),
                __nv_cvt_float_to_e8m0(x, saturation, cudaRoundPosInf))
          << std::hexfloat << x;
    }
    ASSERT_EQ(e8m0_round_up(std::fabs(x)), __nv_cvt_float_to_e8m0(std::fabs(x), __NV_NOSAT, cudaRoundPosInf))
        << std::hexfloat << x;
  }
}

TEST(CudaHeader, encodes_doubles_to_e8m0_with_one_rounding_as_we_do) {
  for (const double x : {1e39, 1e-46, 1 + 0x1p-52, 0x1p-127 + 0x1p-170, 0x1.fffffffffffffp127, 3.0, -3.0}) {
    for (const Overflow overflow : {Overflow::saturate, Overflow::non_saturate}) {
      const auto saturation = overflow == Overflow::saturate ? __NV_SATFINITE : __NV_NOSAT;
      EXPECT_EQ(encode(Format::e8m0, x, Rounding::toward_zero, overflow),
                __nv_cvt_double_to_e8m0(x, saturation, cudaRoundZero))
          << std::hexfloat << x;
      EXPECT_EQ(encode(Format::e8m0, x, Rounding::upward, overflow),
                __nv_cvt_double_to_e8m0(x, saturation, cudaRoundPosInf))
          << std::hexfloat << x;
    }
  }
}

TEST(CudaHeader, encodes_fp4_and_fp6_as_we_do) {
  for (const float x : inputs(Format::e2m1)) {
    if (std::isnan(x)) continue;
    ASSERT_EQ(encode(Format::e2m1, x, Rounding::nearest_even, Overflow::saturate),
              __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest))
        << std::hexfloat << x;
  }
  for (const float x : inputs(Format::e2m3))
    ASSERT_EQ(encode(Format::e2m3, x, Rounding::nearest_even, Overflow::saturate),
              __nv_cvt_float_to_fp6(x, __NV_E2M3, cudaRoundNearest))
        << std::hexfloat << x;
  for (const float x : inputs(Format::e3m2))
    ASSERT_EQ(encode(Format::e3m2, x, Rounding::nearest_even, Overflow::saturate),
              __nv_cvt_float_to_fp6(x, __NV_E3M2, cudaRoundNearest))
        << std::hexfloat << x;
}

TEST(CudaHeader, writes_the_positive_nan_for_floats_of_either_sign) {
  const float nan = kNaN;
  for (const float x : {nan, -nan}) {
    EXPECT_EQ(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3), spec(Format::e4m3).nan_code);
    EXPECT_EQ(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2), spec(Format::e5m2).nan_code);
    EXPECT_EQ(__nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest), spec(Format::e2m1).nan_code);
  }
}

#endif

}  // namespace
}  // namespace mxcheck
