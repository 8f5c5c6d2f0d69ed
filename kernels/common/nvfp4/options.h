#pragma once
// The options of a policy of quantize_nvfp4 (kernels/candidate_nvfp4.h), and Philox's words, for the host and for CUDA.

#include <cstdint>
#include <span>

#include "kernels/candidate_nvfp4.h"

#ifdef __CUDACC__
  #define MXCHECK_NVFP4_OPTIONS_BOTH __host__ __device__
#else
  #define MXCHECK_NVFP4_OPTIONS_BOTH
#endif

namespace mxcheck_kernels {

// Random words of a matrix: its element number i has that of i + offset.
struct Nvfp4Words {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  std::uint32_t counter[2] = {0, 0};
  bool bytes = false;  // stochastic rounding by bytes: a byte of a word for each element
};

struct Nvfp4Options {
  bool stochastic = false;
  int hadamard = 0;             // the group, of a butterfly; 0: no transform
  bool result_is_fp32 = false;  // else BF16
  bool both = false;            // directions
  std::uint32_t signs[4] = {0, 0, 0, 0};
  Nvfp4Words words;
  std::uint32_t column_counter[2] = {0, 0};

  [[nodiscard]] bool any() const { return stochastic || hadamard != 0 || both; }
};

struct OfferedNvfp4Options {
  std::span<const int> groups;  // of the transform
  bool both = false;            // directions
  bool bytes = false;           // stochastic rounding by bytes
};

// The fields of a policy that has them, by its size; of another none. rows and cols are those of the policy. Throws
// Refusal: INVALID for what no call may have, UNSUPPORTED for another sum than "butterfly", and what is not offered.
Nvfp4Options read_nvfp4_options(const mxcheck_policy* policy, const OfferedNvfp4Options& offered);

struct Nvfp4FourWords {
  std::uint32_t w[4];
};

// The outputs of Philox4x32-10 under the counter of this number, to which the offset is already added.
MXCHECK_NVFP4_OPTIONS_BOTH inline Nvfp4FourWords nvfp4_four_words(const Nvfp4Words& words, std::uint64_t number) {
  std::uint32_t c0 = static_cast<std::uint32_t>(number), c1 = static_cast<std::uint32_t>(number >> 32);
  std::uint32_t c2 = words.counter[0], c3 = words.counter[1];
  std::uint32_t k0 = static_cast<std::uint32_t>(words.seed), k1 = static_cast<std::uint32_t>(words.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c0;
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0, c1 = static_cast<std::uint32_t>(p1);
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1, c3 = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9U, k1 += 0xBB67AE85U;
  }
  return {{c0, c1, c2, c3}};
}

// An element's word of its own: the first output.
MXCHECK_NVFP4_OPTIONS_BOTH inline std::uint32_t nvfp4_word(const Nvfp4Words& words, std::uint64_t element) {
  return nvfp4_four_words(words, element + words.offset).w[0];
}

// Element `place` of four: its byte of their word, on top of a word.
MXCHECK_NVFP4_OPTIONS_BOTH inline std::uint32_t nvfp4_byte_word(std::uint32_t word_of_four, std::uint32_t place) {
  const std::uint32_t byte = (place & 1U) << 1 | place >> 1;  // 0, 2, 1, 3
  return word_of_four >> 8 * byte << 24;
}

// The word that is added to the fraction of an element, of either kind.
MXCHECK_NVFP4_OPTIONS_BOTH inline std::uint32_t nvfp4_element_word(const Nvfp4Words& words, std::uint64_t element) {
  if (!words.bytes) return nvfp4_word(words, element);
  const std::uint64_t number = element + words.offset;
  const Nvfp4FourWords four = nvfp4_four_words(words, number / 16);
  return nvfp4_byte_word(four.w[number / 4 % 4], static_cast<std::uint32_t>(number % 4));
}

// RN(1 / sqrt(group)) of 16, 32, 64, 128.
MXCHECK_NVFP4_OPTIONS_BOTH inline float nvfp4_hadamard_factor(int group) {
  return group == 16 ? 0.25F : group == 32 ? 0x1.6a09e6p-3F : group == 64 ? 0.125F : 0x1.6a09e6p-4F;
}

// The E2M1 code of the magnitude whose FP32 bits these are, at most 7: the word is added to the first 32 bits of the
// fraction that is discarded. From 1 on a code is the bits above the last 22; below 1 codes are halves.
MXCHECK_NVFP4_OPTIONS_BOTH inline std::uint32_t nvfp4_stochastic_code(std::uint32_t magnitude, std::uint32_t word) {
  if (magnitude >= 0x3F800000U) {
    const std::uint32_t code = ((magnitude + (word >> 10)) >> 22) - 252;
    return code < 7 ? code : 7;
  }
  const int field = static_cast<int>(magnitude >> 23);
  const std::uint32_t significand = (magnitude & 0x7FFFFFU) | (field == 0 ? 0U : 0x800000U);
  const bool is_half = field == 126;  // 0.5 or more
  const int drop = 125 - field;
  const std::uint32_t fraction = is_half ? significand << 9 : drop > 31 ? 0U : significand << 8 >> drop;
  return (is_half ? 1U : 0U) + (fraction + word < word ? 1U : 0U);
}

}  // namespace mxcheck_kernels
