#pragma once
// The 32-bit instruction descriptor of tcgen05.mma: what ../descriptor.h reads, and every rule that it breaks as one
// line that says what was found, in which bits, and what would be right.
//
//   decode_instruction(MmaKind::mxf8f6f4, 1, 0x08A80000).problems      // none: E4M3 by E4M3, 128x160x32, UE8M0 scales

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "emulation/sm100/descriptor.h"
#include "numerics/accumulate/fused_sum.h"

namespace mxcheck::emulation::sm100 {

struct Decoded {
  Instruction instruction;
  std::vector<std::string> problems;
};

// Error{usage} for another cta_group than 1 or 2.
Decoded decode_instruction(MmaKind kind, int cta_group, std::uint32_t bits);

const char* to_text(MmaKind kind);  // "kind::f16"

// "bits 22:17", "bit 3", as the PTX ISA names them.
std::string name_of(Field field);

// The sum that each element of D is, by the contracts sm100_f16, sm100_f8f6f4, sm100_mxf8f6f4, sm100_mxf4 and
// sm100_nvf4.
FusedSum fused_sum_of(const Instruction& instruction);

// One MMA of a tensor core on codes: D = A * B (+ D), each element one fused sum (numerics/accumulate/fused_sum.h) of
// the instruction's K products and the element before, to the bit.
//
//   multiply(instruction, a, b, scales_a, scales_b, d, 256, 128, true);
//
// A second implementation of those sums beside fused_sum(), which it is tested against: its own decoding, alignment,
// conversion and rules for infinities and NaNs.
//
// Errors: Error{usage} for an instruction that decode_instruction() has problems with, no rows, or missing scales.
//
// Does not promise: threads of its own. One call is one core's work, around 10^6 products.

// `a` holds m_rows rows and `b` instruction.n rows of instruction.k codes: two bytes each, little-endian, for
// kind::f16; half a byte of the FP4 kinds, the even k low. `scales_a` and `scales_b` hold scales_of_row(kind) bytes a
// row of either, UE4M3 of mxf4nvf4_block16 and else E8M0, and are not read for the kinds without scales. `d` holds
// m_rows rows of instruction.n words, `d_stride` words apart: FP32, or FP16 in the low half (the high half is not read,
// and written 0). Without `accumulate` the sums start from +0 and the old words do not count.
void multiply(const Instruction& instruction, const std::uint8_t* a, const std::uint8_t* b,
              const std::uint8_t* scales_a, const std::uint8_t* scales_b, std::uint32_t* d, std::size_t d_stride,
              int m_rows, bool accumulate);

namespace detail {
// The part of multiply() that has the FP4 kinds; what it is given has been checked.
void multiply_fp4(const Instruction& instruction, const std::uint8_t* a, const std::uint8_t* b,
                  const std::uint8_t* scales_a, const std::uint8_t* scales_b, std::uint32_t* d, std::size_t d_stride,
                  int m_rows, bool accumulate);
}  // namespace detail

}  // namespace mxcheck::emulation::sm100
