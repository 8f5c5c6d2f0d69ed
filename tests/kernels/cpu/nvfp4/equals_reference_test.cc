// The bytes of quantize_nvfp4 are the reference's, for every SIMD target that this machine has. The gate draws more
// kinds of data, and runs the best target alone.

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/nvfp4/quantize.h"
#include "numerics/format/codec.h"
#include "numerics/scale/recipe.h"
#include "properties/core/rng.h"
#include "reference/quantize/quantize.h"
#include "tests/kernels/cpu/simd_targets.h"

namespace mxcheck {
namespace {

namespace cpu = mxcheck_kernels::cpu;
using mxcheck_kernels::Nvfp4Recipe;
using mxcheck_kernels::Nvfp4Values;

struct NamedRecipe {
  const char* name;
  Nvfp4Recipe recipe;
};
constexpr std::array kRecipes{NamedRecipe{"nvfp4", Nvfp4Recipe::exact}, NamedRecipe{"nvfp4_te", Nvfp4Recipe::te},
                              NamedRecipe{"nvfp4_te_2_8", Nvfp4Recipe::te_2_8},
                              NamedRecipe{"nvfp4_vllm", Nvfp4Recipe::vllm},
                              NamedRecipe{"nvfp4_46", Nvfp4Recipe::four_six}};

struct Matrix {
  Format format = Format::bf16;
  std::int64_t rows = 0, cols = 0, stride = 0;
  std::vector<std::byte> bytes;

  [[nodiscard]] MatrixView view() const { return {format, bytes.data(), rows, cols, stride}; }
};

// Elements of eight binades from 2^low on, some of them few bits long, and of all bits where low is 1000.
Matrix random_matrix(Format format, std::uint64_t seed, std::int64_t rows, std::int64_t cols, int low) {
  Matrix m{format, rows, cols, cols + static_cast<std::int64_t>(seed % 3), {}};
  const std::size_t width = format == Format::fp32 ? 4 : 2;
  m.bytes.resize(static_cast<std::size_t>(rows * m.stride) * width);
  for (std::size_t i = 0; i < m.bytes.size() / width; ++i) {
    const std::uint64_t word = random_word(seed, i);
    const double fraction = 1 + static_cast<double>(word % 3 == 0 ? word >> 8 & 0xE0 : word >> 8 & 0xFF) / 256;
    const double value = std::ldexp(word >> 63 != 0 ? -fraction : fraction, low + static_cast<int>(word >> 32 & 7));
    std::uint32_t bits = encode(format, value, Rounding::nearest_even, Overflow::non_saturate);
    if (low == 1000) bits = static_cast<std::uint32_t>(word);
    std::memcpy(m.bytes.data() + i * width, &bits, width);
  }
  return m;
}

Nvfp4Values values_of(Format format) {
  return format == Format::bf16 ? Nvfp4Values::bf16 : format == Format::fp32 ? Nvfp4Values::fp32 : Nvfp4Values::fp16;
}

// The matrix whose row i is row index[i] of x.
Matrix gathered(const Matrix& x, const std::vector<std::int32_t>& index) {
  Matrix m{x.format, static_cast<std::int64_t>(index.size()), x.cols, x.stride, {}};
  const std::size_t line = static_cast<std::size_t>(x.stride) * (x.format == Format::fp32 ? 4 : 2);
  for (const std::int32_t row : index) {
    const auto from = x.bytes.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row) * line);
    m.bytes.insert(m.bytes.end(), from, from + static_cast<std::ptrdiff_t>(line));
  }
  return m;
}

// Empty if every target gives the reference's codes and scales; the first that does not, otherwise. The rows are those
// of `source` that the index names, if there is one.
std::string difference(const Matrix& source, const NamedRecipe& recipe, std::int64_t block_rows, float tensor_scale,
                       const std::vector<std::int32_t>& index = {}) {
  const Matrix x = index.empty() ? source : gathered(source, index);
  const std::vector<float> outer{tensor_scale};
  const QuantizedTensor q =
      quantize(x.view(), Format::e2m1, {block_rows, 16}, any_recipe_named(recipe.name), {.outer = outer});
  const std::int64_t row_bytes = (x.cols + 1) / 2;
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(x.rows * row_bytes));
  for (std::int64_t i = 0; i < x.rows; ++i) {
    for (std::int64_t j = 0; j < x.cols; ++j) {
      const std::uint32_t code = q.codes.code(static_cast<std::size_t>(i * x.cols + j));
      codes[static_cast<std::size_t>(i * row_bytes + j / 2)] |= static_cast<std::uint8_t>(code << (j % 2 * 4));
    }
  }
  const cpu::ScaleMap map(MXCHECK_COMPACT, {block_rows, 16}, {x.rows, x.cols}, {});
  for (const std::int64_t target : simd_targets()) {
    const UseSimdTarget use(target);
    std::vector<std::uint8_t> own_codes(codes.size(), 0xEE);
    std::vector<std::uint8_t> own_scales(q.scales().size(), 0xEE);
    cpu::Nvfp4Job job{cpu::Levels(recipe.recipe, tensor_scale)};
    job.values = values_of(x.format), job.x = source.bytes.data(), job.cols = x.cols, job.stride = x.stride;
    job.block_rows = block_rows, job.codes = own_codes.data(), job.scales = own_scales.data(), job.map = &map;
    if (!index.empty()) job.index = index.data();
    cpu::quantize_nvfp4_bands(job, 0, map.bands());
    for (std::size_t i = 0; i < own_scales.size(); ++i) {
      if (own_scales[i] != q.scales().code(i)) return simd_target_name(target) + ": scale " + std::to_string(i);
    }
    for (std::size_t i = 0; i < codes.size(); ++i) {
      if (own_codes[i] != codes[i]) return simd_target_name(target) + ": byte of codes " + std::to_string(i);
    }
  }
  return {};
}

TEST(CpuNvfp4, equals_the_reference_on_every_target) {
  std::uint64_t seed = 0;
  for (const Format format : {Format::bf16, Format::fp32, Format::fp16}) {
    for (const NamedRecipe& recipe : kRecipes) {
      for (const std::int64_t block_rows : {1, 16}) {
        for (const int low : {-4, -14, 1000}) {
          for (const std::int64_t cols : {1, 31, 272, 1300}) {
            const Matrix x = random_matrix(format, ++seed, 19, cols, low);
            const float scale = std::ldexp(1 + static_cast<float>(seed % 64) / 64, static_cast<int>(seed % 5) - 2);
            ASSERT_EQ(difference(x, recipe, block_rows, scale), "") << recipe.name << ", seed " << seed;
            const std::vector<std::int32_t> index{18, 0, 3, 3, 7, 18, 1, 2, 5, 4, 17, 16, 0, 9, 8, 7, 6, 5, 18, 10, 12};
            ASSERT_EQ(difference(x, recipe, block_rows, scale, index), "") << recipe.name << ", seed " << seed;
          }
        }
      }
    }
  }
}

TEST(CpuNvfp4, equals_the_reference_on_every_bf16_pattern) {
  Matrix x{Format::bf16, 64, 1024, 1024, std::vector<std::byte>(std::size_t{2} << 16)};
  for (std::uint32_t i = 0; i < 1U << 16; ++i) {
    const auto bits = static_cast<std::uint16_t>(i % 16 * 4096 + i / 16);  // a block has all exponents
    std::memcpy(x.bytes.data() + std::size_t{2} * i, &bits, 2);
  }
  for (const NamedRecipe& recipe : kRecipes) {
    for (const float scale : {1.0F, 0x1p-140F, 0x1.fffffep127F, 3e-5F})
      ASSERT_EQ(difference(x, recipe, 1, scale), "") << recipe.name << ", " << scale;
  }
}

// Quotients next to midpoints of E4M3, which a division that is rounded to FP32 first takes for them.
TEST(CpuNvfp4, rounds_the_exact_quotient_once) {
  Matrix x{Format::bf16, 1, 4096, 4096, std::vector<std::byte>(std::size_t{2} * 4096)};
  for (std::uint32_t i = 0; i < 4096; ++i) {
    const auto bits = static_cast<std::uint16_t>(i % 16 == 5 ? 0x3E80 + i / 16 : 0);
    std::memcpy(x.bytes.data() + std::size_t{2} * i, &bits, 2);
  }
  for (std::uint32_t numerator = 17; numerator < 32; numerator += 2) {
    for (std::uint32_t amax = 128; amax < 256; amax += 5) {
      const float tie = static_cast<float>(amax) / static_cast<float>(6 * numerator);
      for (const float scale : {std::nextafter(tie, 0.0F), tie, std::nextafter(tie, 1e9F)})
        ASSERT_EQ(difference(x, kRecipes[0], 1, scale), "") << numerator << ", " << amax << ", " << scale;
    }
  }
}

}  // namespace
}  // namespace mxcheck
