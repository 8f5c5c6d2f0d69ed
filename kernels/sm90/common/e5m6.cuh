#pragma once
// Eight E5M6 codes in three words, the first in the highest bits of the first word (numerics/format/packing.h). An E5M6
// code and four zero bits are an FP16, so that codes come and go as halves: halves[i] holds codes 2 i and, above it,
// 2 i + 1, each shifted left by four.
//
//   words[0]  c0 (12 bits)  c1 (12)  c2's upper 8
//   words[1]  c2's lower 4  c3 (12)  c4 (12)  c5's upper 4
//   words[2]  c5's lower 8  c6 (12)  c7 (12)

#include <cstdint>

#include "kernels/sm90/common/words.cuh"

namespace mxcheck_kernels::sm90 {

MXCHECK_EITHER void pack_e5m6(const std::uint32_t (&halves)[4], std::uint32_t (&words)[3]) {
  words[0] = halves[0] << 16 | (halves[0] >> 12 & 0x000FFF00) | (halves[1] >> 8 & 0x000000FF);
  words[1] = halves[1] << 24 | (halves[1] >> 4 & 0x0FFF0000) | (halves[2] & 0x0000FFF0) | halves[2] >> 28;
  words[2] = (halves[2] << 4 & 0xFF000000) | (halves[3] << 8 & 0x00FFF000) | halves[3] >> 20;
}

MXCHECK_EITHER void unpack_e5m6(const std::uint32_t (&words)[3], std::uint32_t (&halves)[4]) {
  halves[0] = (words[0] >> 16 & 0x0000FFF0) | (words[0] << 12 & 0xFFF00000);
  halves[1] = (words[0] << 8 & 0x0000FF00) | (words[1] >> 24 & 0x000000F0) | (words[1] << 4 & 0xFFF00000);
  halves[2] = (words[1] & 0x0000FFF0) | words[1] << 28 | (words[2] >> 4 & 0x0FF00000);
  halves[3] = (words[2] >> 8 & 0x0000FFF0) | words[2] << 20;
}

}  // namespace mxcheck_kernels::sm90
