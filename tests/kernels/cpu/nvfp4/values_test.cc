// The bytes of dequantize_nvfp4 are the reference's, for every SIMD target that this machine has: of every code under
// every scale byte, and of shapes that no vector divides. The same of Hopper's tables, which the host can read.

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cpu/nvfp4/quantize.h"
#include "kernels/sm90/nvfp4/planes.h"
#include "numerics/scale/recipe.h"
#include "properties/core/rng.h"
#include "reference/quantize/quantize.h"
#include "tests/kernels/cpu/simd_targets.h"

namespace mxcheck {
namespace {

namespace cpu = mxcheck_kernels::cpu;
namespace sm90 = mxcheck_kernels::sm90;
using mxcheck_kernels::Nvfp4Recipe;

struct StoredAs {
  const char* name;
  Nvfp4Recipe recipe;
};
constexpr std::array kStored{StoredAs{"nvfp4", Nvfp4Recipe::exact}, StoredAs{"nvfp4_te", Nvfp4Recipe::te},
                             StoredAs{"nvfp4_te_2_8", Nvfp4Recipe::te_2_8}, StoredAs{"nvfp4_vllm", Nvfp4Recipe::vllm},
                             StoredAs{"nvfp4_46", Nvfp4Recipe::four_six}};

// Ends of FP32, a power of two, ties of BF16 (257 / 9 and its neighbours), and any.
const std::vector<float>& scales_of_tensors() {
  static const std::vector<float> all = [] {
    std::vector<float> values{1, 0x1p-149F, 0x1.8p-140F, 0x1p-126F, 0x1.fffffep127F, 0x1p120F, 2688, 17};
    for (const float of : {257.0F / 9, 301.0F / 11, 383.0F / 45, 2688.0F * 259 / 15})
      for (const float value : {std::nextafter(of, 0.0F), of, std::nextafter(of, 1e9F)}) values.push_back(value);
    for (std::uint64_t i = 0; i < 32; ++i)
      values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(1 + random_word(9, i) % 0x7F7FFFFF)));
    return values;
  }();
  return all;
}

QuantizedTensor tensor(const StoredAs& as, BlockShape block, std::int64_t rows, std::int64_t cols, float stored) {
  const TwoLevel levels = any_recipe_named(as.name).two_level;
  QuantizedTensor q = make_quantized(Format::e2m1, rows, cols, block, Format::e4m3,
                                     (rows + block.rows - 1) / block.rows, (cols + 15) / 16);
  ScaleLevel outer{{0, 0}, ScaleRule::fp32, make_tensor(Format::fp32, {1, 1}, "outer scale"), levels.stored};
  outer.scales.set_code(0, std::bit_cast<std::uint32_t>(stored));
  if (levels.stored == StoredScale::amax) outer.unit = levels.limit * 6;
  q.levels.push_back(outer);
  return q;
}

std::uint32_t without_nan_bits(std::uint32_t fp32) { return (fp32 & 0x7FFFFFFF) > 0x7F800000 ? 0x7FC00000 : fp32; }

// Empty where the library's values are the reference's on every target.
std::string difference_of_values(const QuantizedTensor& q, Nvfp4Recipe recipe, float stored) {
  const std::int64_t rows = q.rows(), cols = q.cols(), line = (cols + 1) / 2;
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(rows * line), 0x90);
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    std::uint8_t& byte = codes[static_cast<std::size_t>(i / cols * line + i % cols / 2)];
    const std::uint32_t code = q.codes.code(static_cast<std::size_t>(i));
    byte = static_cast<std::uint8_t>(i % cols % 2 == 0 ? (byte & 0xF0) | code : (byte & 0xF) | code << 4);
  }
  const std::vector<float> fp32 = dequantize(q);
  const std::vector<std::uint16_t> bf16 = dequantize_bf16(q);
  const cpu::ScaleMap map(MXCHECK_COMPACT, {q.block().rows, 16}, {rows, cols}, {});
  const std::vector<std::uint8_t> scales(q.scales().as<std::uint8_t>().begin(), q.scales().as<std::uint8_t>().end());
  for (const std::int64_t target : simd_targets()) {
    const UseSimdTarget use(target);
    for (const bool stream : {false, true}) {
      std::vector<std::uint32_t> wide(fp32.size(), 0xEEEEEEEE);
      std::vector<std::uint16_t> narrow(fp32.size(), 0xEEEE);
      cpu::Nvfp4ValuesJob job;
      job.scale = mxcheck_kernels::nvfp4_tensor_scale(recipe, stored);
      job.codes = codes.data(), job.scales = scales.data(), job.map = &map, job.cols = cols, job.stream = stream;
      job.y = narrow.data();
      cpu::dequantize_nvfp4_bands(job, 0, map.bands());
      job.values = mxcheck_kernels::Nvfp4Values::fp32, job.y = wide.data();
      cpu::dequantize_nvfp4_bands(job, 0, map.bands());
      for (std::size_t i = 0; i < wide.size(); ++i) {
        if (without_nan_bits(wide[i]) != std::bit_cast<std::uint32_t>(fp32[i]))
          return simd_target_name(target) + ": FP32 " + std::to_string(i);
        if (narrow[i] != bf16[i]) return simd_target_name(target) + ": BF16 " + std::to_string(i);
      }
    }
  }
  return {};
}

QuantizedTensor every_pair(const StoredAs& as, float stored) {
  QuantizedTensor q = tensor(as, {1, 16}, 16, 256, stored);
  for (std::size_t i = 0; i < q.codes.size(); ++i) q.codes.set_code(i, static_cast<std::uint32_t>(i % 16));
  for (std::size_t i = 0; i < 256; ++i) q.scales().set_code(i, static_cast<std::uint32_t>(i));
  return q;
}

TEST(CpuNvfp4Values, equal_the_reference_for_every_code_under_every_scale_byte) {
  for (const StoredAs& as : kStored) {
    for (const float stored : scales_of_tensors())
      ASSERT_EQ(difference_of_values(every_pair(as, stored), as.recipe, stored), "") << as.name << ", " << stored;
  }
}

TEST(CpuNvfp4Values, equal_the_reference_for_every_number_of_columns) {
  std::uint64_t seed = 0;
  for (const BlockShape block : {BlockShape{1, 16}, BlockShape{16, 16}}) {
    for (const std::int64_t cols : {1, 2, 15, 16, 17, 31, 33, 48, 1023, 1024, 1025, 1057, 2080}) {
      QuantizedTensor q = tensor(kStored[seed % 5], block, 19, cols, 3.7F);
      for (std::size_t i = 0; i < q.codes.size(); ++i)
        q.codes.set_code(i, static_cast<std::uint32_t>(random_word(seed, i) % 16));
      for (std::size_t i = 0; i < q.scales().size(); ++i)
        q.scales().set_code(i, static_cast<std::uint32_t>(random_word(seed + 77, i) % 256));
      ASSERT_EQ(difference_of_values(q, kStored[seed % 5].recipe, 3.7F), "") << cols;
      ++seed;
    }
  }
}

// True if the 16 bytes that Hopper's tables give for eight codes, of FP32 for the first four, are these values.
bool decodes_to(const std::uint32_t (&words)[4], int width, std::uint32_t i, std::uint32_t expected, bool is_nan) {
  const std::uint32_t word = width == 4 ? words[i] : words[i / 2] >> i % 2 * 16 & 0xFFFF;
  const std::uint32_t infinity = width == 4 ? 0x7F800000 : 0x7F80, sign = width == 4 ? 0x80000000 : 0x8000;
  return is_nan ? (word & ~sign) > infinity : word == expected;
}

TEST(Sm90Nvfp4Values, decode_to_the_reference_for_every_code_under_every_scale_byte) {
  for (const StoredAs& as : kStored) {
    for (const float stored : scales_of_tensors()) {
      const QuantizedTensor q = every_pair(as, stored);
      const std::vector<float> fp32 = dequantize(q);
      const std::vector<std::uint16_t> bf16 = dequantize_bf16(q);
      const auto scale = mxcheck_kernels::nvfp4_tensor_scale(as.recipe, stored);
      for (std::uint32_t byte = 0; byte < 256; ++byte) {
        const auto wide = sm90::value_planes<std::uint32_t>(scale, byte);
        const auto narrow = sm90::value_planes<std::uint16_t>(scale, byte);
        for (std::uint32_t first = 0; first < 16; ++first) {
          std::uint32_t codes = 0;  // each code is at each place once
          for (std::uint32_t i = 0; i < 8; ++i) codes |= (first + 3 * i) % 16 << 4 * i;
          std::uint32_t of_fp32[4], of_bf16[4];
          sm90::decode_codes(wide, codes, of_fp32);
          sm90::decode_codes(narrow, codes, of_bf16);
          for (std::uint32_t i = 0; i < 8; ++i) {
            const std::size_t at = byte * 16 + (first + 3 * i) % 16;
            const bool is_nan = std::isnan(fp32[at]);
            ASSERT_TRUE(decodes_to(of_bf16, 2, i, bf16[at], is_nan)) << as.name << " " << byte << " " << i;
            ASSERT_TRUE(i > 3 || decodes_to(of_fp32, 4, i, std::bit_cast<std::uint32_t>(fp32[at]), is_nan)) << byte;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace mxcheck
