// quantize_nvfp4 with options: words, codes by words and transforms of every SIMD target that this machine has.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/candidate_nvfp4.h"
#include "kernels/common/nvfp4/options.h"
#include "kernels/common/refusal.h"
#include "kernels/cpu/nvfp4/quantize.h"
#include "numerics/elementary/elementary.h"
#include "numerics/format/codec.h"
#include "properties/core/rng.h"
#include "reference/quantize/hadamard.h"
#include "reference/quantize/quantize.h"
#include "tests/kernels/cpu/simd_targets.h"

namespace mxcheck {
namespace {

namespace cpu = mxcheck_kernels::cpu;
using mxcheck_kernels::Nvfp4Options;
using mxcheck_kernels::Nvfp4Recipe;
using mxcheck_kernels::Nvfp4Values;
using mxcheck_kernels::Nvfp4Words;

TEST(CpuNvfp4Options, words_are_those_of_the_definition) {
  const Nvfp4Words words{0x123456789ABCDEFU, 0xFFFFFFFEU, {0x80000104, 3}};
  for (std::uint64_t i = 0; i < 6; ++i) {
    const std::uint64_t n = i + words.offset;
    EXPECT_EQ(nvfp4_word(words, i), philox_word(words.seed, static_cast<std::uint32_t>(n),
                                                static_cast<std::uint32_t>(n >> 32), 0x80000104, 3));
  }
}

// One call of Philox for 16 elements, a word for four, and bytes 0, 2, 1, 3 of it: as written, and as the reference has
// it.
TEST(CpuNvfp4Options, bytes_are_those_of_the_definition) {
  for (const std::uint64_t offset :
       {std::uint64_t{0}, std::uint64_t{7}, (std::uint64_t{1} << 36) - 20, ~std::uint64_t{9}}) {
    const Nvfp4Words words{0x123456789ABCDEFU, offset, {0x80000104, 3}, true};
    for (std::uint64_t i = 0; i < 40; ++i) {
      const std::uint64_t n = i + offset;
      const std::array<std::uint32_t, 4> four = philox_words(words.seed, static_cast<std::uint32_t>(n >> 4),
                                                             static_cast<std::uint32_t>(n >> 36), 0x80000104, 3);
      const mxcheck_kernels::Nvfp4FourWords same = nvfp4_four_words(words, n / 16);
      EXPECT_TRUE(std::equal(four.begin(), four.end(), same.w)) << n;
      const std::uint32_t word = four[n % 16 / 4];
      const std::array<std::uint32_t, 4> bytes{word & 0xFF, word >> 16 & 0xFF, word >> 8 & 0xFF, word >> 24};
      EXPECT_EQ(nvfp4_element_word(words, i), bytes[n % 4] << 24) << n;
      EXPECT_EQ(element_byte_word(words.seed, n, {0x80000104, 3}), bytes[n % 4] << 24) << n;
    }
  }
  const Nvfp4Words own{5, 6, {7, 8}};
  EXPECT_EQ(nvfp4_element_word(own, 9), nvfp4_word(own, 9));
}

// A library says whether it offers them; no library knows a fourth rounding.
TEST(CpuNvfp4Options, bytes_are_read_where_they_are_offered_and_refused_elsewhere) {
  const std::array groups{16};
  const auto read = [&](int rounding, bool bytes_offered, mxcheck_status* status) {
    mxcheck_nvfp4_policy p{};
    p.base.size = sizeof p, p.rounding = rounding, p.seed = 9;
    try {
      *status = MXCHECK_OK;
      return mxcheck_kernels::read_nvfp4_options(&p.base, {.groups = groups, .both = false, .bytes = bytes_offered});
    } catch (const mxcheck_kernels::Refusal& refusal) {
      *status = refusal.status();
      return Nvfp4Options{};
    }
  };
  mxcheck_status status = MXCHECK_FAILED;
  const Nvfp4Options bytes = read(MXCHECK_STOCHASTIC_BYTES, true, &status);
  EXPECT_EQ(status, MXCHECK_OK);
  EXPECT_TRUE(bytes.stochastic && bytes.words.bytes && bytes.any());
  read(MXCHECK_STOCHASTIC_BYTES, false, &status);
  EXPECT_EQ(status, MXCHECK_UNSUPPORTED);
  const Nvfp4Options words = read(MXCHECK_STOCHASTIC, false, &status);
  EXPECT_EQ(status, MXCHECK_OK);
  EXPECT_TRUE(words.stochastic && !words.words.bytes);
  for (const int unknown : {-1, 3}) {
    read(unknown, true, &status);
    EXPECT_EQ(status, MXCHECK_INVALID) << unknown;
  }
}

TEST(CpuNvfp4Options, codes_by_words_are_those_of_the_codec) {
  const auto check = [](std::uint32_t bits, std::uint32_t word) {
    const double value = static_cast<double>(std::bit_cast<float>(bits));
    ASSERT_EQ(mxcheck_kernels::nvfp4_stochastic_code(bits, word),
              encode(Format::e2m1, value, Rounding::stochastic, Overflow::saturate, word))
        << bits << ", " << word;
  };
  for (std::uint64_t i = 0; i < 200'000; ++i) {
    const std::uint64_t random = random_word(7, i);
    const auto exponent = static_cast<std::uint32_t>(80 + random % 60);  // 2^-47 to 2^12
    const std::uint32_t bits = exponent << 23 | (static_cast<std::uint32_t>(random >> 8) & 0x7FFFFF);
    const auto word = static_cast<std::uint32_t>(random >> 32);
    check(bits, word), check(bits, 0), check(bits, ~0U), check(bits & 0xFFC00000, word);
  }
  for (std::uint32_t bits = 0; bits < 4; ++bits) check(bits, ~0U), check(0x00800000U - bits, ~0U);
  check(0x7F800000U, 5);  // infinite
}

struct Asked {
  int hadamard;
  bool result_is_fp32;
  bool stochastic;
  bool bytes = false;
};

// Empty, or the target whose codes or scales are not the reference's.
std::string difference(Format from, const Asked& asked, Nvfp4Recipe kernel, const char* recipe_name,
                       std::int64_t block_rows, std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  const std::size_t width = from == Format::fp32 ? 4 : 2;
  std::vector<std::byte> x(static_cast<std::size_t>(rows * cols) * width);
  for (std::size_t i = 0; i < x.size() / width; ++i) {
    const std::uint64_t word = random_word(seed, i);
    const double value =
        std::ldexp(1 + static_cast<double>(word >> 40 & 0xFFFF) / 65536, static_cast<int>(word % 9) - 5);
    std::uint32_t bits = encode(from, word >> 63 != 0 ? -value : value, Rounding::nearest_even, Overflow::saturate);
    if (word >> 8 << 54 == 0) bits = static_cast<std::uint32_t>(word >> 20);  // one in 1024: any bits
    std::memcpy(x.data() + i * width, &bits, width);
  }
  Nvfp4Options options;
  options.stochastic = asked.stochastic, options.hadamard = asked.hadamard;
  options.result_is_fp32 = asked.result_is_fp32;
  // The counter passes into its second word, or from its last value to 0, within the matrix.
  const std::uint64_t offset = !asked.bytes    ? 0xFFFFFF80U
                               : seed % 3 == 0 ? (std::uint64_t{1} << 36) - 0x87
                               : seed % 3 == 1 ? ~std::uint64_t{0x87}
                                               : seed % 16;
  options.words = {seed * 0x9E3779B97F4A7C15U, offset, {5, 6}, asked.bytes};
  Hadamard transform{
      asked.hadamard, {}, HadamardSum::butterfly, "", asked.result_is_fp32 ? Format::fp32 : Format::bf16};
  for (int i = 0; i < asked.hadamard / 16; ++i) {
    const std::uint32_t bits = static_cast<std::uint32_t>(random_word(seed, 77) >> 4 * i) & 0xFFFF;
    options.signs[i / 2] |= bits << i % 2 * 16, transform.signs[static_cast<std::size_t>(i / 2)] |= bits << i % 2 * 16;
  }
  MatrixView view{from, x.data(), rows, cols, cols};
  Tensor y;
  if (asked.hadamard != 0) {
    y = hadamard(view, transform, Along::rows);
    view = {transform.result, y.data.data(), rows, cols, cols};
  }
  Recipe recipe = any_recipe_named(recipe_name);
  std::vector<std::uint32_t> words;
  if (asked.stochastic) {
    recipe.rounding = Rounding::stochastic;
    for (std::int64_t i = 0; i < rows * cols; ++i)
      words.push_back(nvfp4_element_word(options.words, static_cast<std::uint64_t>(i)));
  }
  const std::vector<float> outer{1.25F};
  const QuantizedTensor q = quantize(view, Format::e2m1, {block_rows, 16}, recipe, {.outer = outer, .words = words});
  const cpu::ScaleMap map(MXCHECK_COMPACT, {block_rows, 16}, {rows, cols}, {});
  const std::int64_t row_bytes = (cols + 1) / 2;
  for (const std::int64_t target : simd_targets()) {
    const UseSimdTarget use(target);
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(rows * row_bytes), 0xEE), scales(q.scales().size(), 0xEE);
    cpu::Nvfp4Job job{cpu::Levels(kernel, outer[0])};
    job.values = from == Format::fp32 ? Nvfp4Values::fp32 : Nvfp4Values::bf16;
    job.x = x.data(), job.cols = cols, job.stride = cols, job.block_rows = block_rows;
    job.codes = codes.data(), job.scales = scales.data(), job.map = &map;
    job.options = &options, job.words = options.words;
    cpu::quantize_nvfp4_bands(job, 0, map.bands());
    for (std::size_t i = 0; i < scales.size(); ++i) {
      if (scales[i] != q.scales().code(i)) return simd_target_name(target) + ": scale " + std::to_string(i);
    }
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      const int code = codes[static_cast<std::size_t>(i / cols * row_bytes + i % cols / 2)] >> (i % cols % 2 * 4) & 0xF;
      if (code != static_cast<int>(q.codes.code(static_cast<std::size_t>(i))))
        return simd_target_name(target) + ": code " + std::to_string(i);
    }
  }
  return {};
}

TEST(CpuNvfp4Options, equal_the_reference_on_every_target) {
  std::uint64_t seed = 0;
  for (const Format from : {Format::bf16, Format::fp32}) {
    for (const Asked& asked :
         {Asked{0, false, true}, Asked{16, false, false}, Asked{16, true, true}, Asked{32, false, true},
          Asked{64, true, false}, Asked{128, false, true}, Asked{0, false, true, true}, Asked{16, false, true, true}}) {
      for (const std::int64_t block_rows : {1, 16}) {
        for (const std::int64_t cols : {128, 1280, 1301}) {
          if (asked.hadamard != 0 && cols % asked.hadamard != 0) continue;
          EXPECT_EQ(difference(from, asked, Nvfp4Recipe::te, "nvfp4_te", block_rows, 19, cols, ++seed), "") << seed;
          EXPECT_EQ(difference(from, asked, Nvfp4Recipe::exact, "nvfp4", block_rows, 19, cols, ++seed), "") << seed;
        }
      }
    }
  }
}

}  // namespace
}  // namespace mxcheck
