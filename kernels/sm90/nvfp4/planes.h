#pragma once
// Values by table, with byte permutations: under one scale of the tensor a value depends on its code and its scale byte
// alone, so a byte has the eight values of the codes 0 to 7, and a code's top bit turns the sign. Bytes of the values
// lie in planes of eight, from which one instruction takes those of four codes. Nothing is multiplied or rounded but
// when a table is made. For CUDA, and for the host, where tests decode every code under every byte.

#include <cstdint>

#include "kernels/common/nvfp4/value.h"

namespace mxcheck_kernels::sm90 {

// Four bytes of the eight of b:a, each by a nibble of which three bits count.
MXCHECK_NVFP4_BOTH inline std::uint32_t chosen_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t nibbles) {
#ifdef __CUDA_ARCH__
  return __byte_perm(a, b, nibbles);
#else
  const std::uint64_t all = std::uint64_t{b} << 32 | a;
  std::uint32_t chosen = 0;
  for (int i = 0; i < 4; ++i) chosen |= static_cast<std::uint32_t>(all >> (nibbles >> 4 * i & 7) * 8 & 0xFF) << 8 * i;
  return chosen;
#endif
}

// T: the bits of a value, uint16_t for BF16 and uint32_t for FP32. Byte k of the value of code c is byte c % 4 of word
// 2 k + c / 4.
template <class T>
struct alignas(16) ValuePlanes {
  static constexpr int kWords = 2 * static_cast<int>(sizeof(T));
  std::uint32_t word[kWords];
};

template <class T>
MXCHECK_NVFP4_BOTH inline ValuePlanes<T> value_planes(const Nvfp4TensorScale& scale, std::uint32_t byte) {
  ValuePlanes<T> planes = {};
  for (std::uint32_t code = 0; code < 8; ++code) {
    const std::uint32_t bits = nvfp4_value_bits<T>(scale, code, byte);
    for (std::uint32_t k = 0; k < sizeof(T); ++k) {
      planes.word[2 * k + code / 4] |= (bits >> 8 * k & 0xFF) << code % 4 * 8;
    }
  }
  return planes;
}

// Byte k of the values of four codes, in the low 16 bits of `codes`.
template <class T>
MXCHECK_NVFP4_BOTH inline std::uint32_t plane_of(const ValuePlanes<T>& planes, int k, std::uint32_t codes) {
  return chosen_bytes(planes.word[2 * k], planes.word[2 * k + 1], codes & 0x7777);
}

// 16 bytes of values: of eight codes as BF16, or of the lower four as FP32; the first in the lowest bits.
MXCHECK_NVFP4_BOTH inline void decode_codes(const ValuePlanes<std::uint16_t>& planes, std::uint32_t codes,
                                            std::uint32_t (&values)[4]) {
  for (int half = 0; half < 2; ++half) {
    const std::uint32_t four = codes >> 16 * half;
    const std::uint32_t low = plane_of(planes, 0, four);
    const std::uint32_t high = plane_of(planes, 1, four);
    values[2 * half] = chosen_bytes(low, high, 0x5140) ^ ((four & 0x8) << 12 | (four & 0x80) << 24);
    values[2 * half + 1] = chosen_bytes(low, high, 0x7362) ^ ((four & 0x800) << 4 | (four & 0x8000) << 16);
  }
}
MXCHECK_NVFP4_BOTH inline void decode_codes(const ValuePlanes<std::uint32_t>& planes, std::uint32_t codes,
                                            std::uint32_t (&values)[4]) {
  const std::uint32_t byte0 = plane_of(planes, 0, codes), byte1 = plane_of(planes, 1, codes);
  const std::uint32_t byte2 = plane_of(planes, 2, codes), byte3 = plane_of(planes, 3, codes);
  for (int half = 0; half < 2; ++half) {
    const std::uint32_t order = half == 0 ? 0x5140 : 0x7362;
    const std::uint32_t low = chosen_bytes(byte0, byte1, order);
    const std::uint32_t high = chosen_bytes(byte2, byte3, order);
    const std::uint32_t signs = codes >> 8 * half;
    values[2 * half] = chosen_bytes(low, high, 0x5410) ^ (signs & 0x8) << 28;
    values[2 * half + 1] = chosen_bytes(low, high, 0x7632) ^ (signs & 0x80) << 24;
  }
}

}  // namespace mxcheck_kernels::sm90
