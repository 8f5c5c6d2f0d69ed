#pragma once
// How a tile of shared memory is swizzled, the same for TMA that writes it, and for mma that reads it: an XOR of bits
// of the absolute address, [4, 4 + s) with [7, 7 + s). Tiles begin at a multiple of the pattern, else every address in
// them is wrong by an XOR.

#include <cstdint>

#include "kernels/sm100/tcgen05/target.h"

namespace mxcheck::sm100 {

// The values are those of a matrix descriptor's bits 63:61 (PTX ISA, "Shared memory descriptor"); 3, 5 and 7 are none.
enum class Swizzle : std::uint8_t { none = 0, b128_atom32 = 1, b128 = 2, b64 = 4, b32 = 6 };

// Bytes along a row after which the pattern repeats; 16 without swizzle, the width of a core matrix.
MXCHECK_SM100_ANYWHERE constexpr unsigned swizzle_span(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::b128:
    case Swizzle::b128_atom32: return 128;
    case Swizzle::b64: return 64;
    case Swizzle::b32: return 32;
    case Swizzle::none: return 16;
  }
  return 0;
}
// Eight rows of a span, and what a swizzled tile's address is a multiple of: 1024, 512, 256, and 128 of unswizzled core
// matrices.
MXCHECK_SM100_ANYWHERE constexpr unsigned swizzle_pattern(Swizzle swizzle) { return 8 * swizzle_span(swizzle); }

}  // namespace mxcheck::sm100
