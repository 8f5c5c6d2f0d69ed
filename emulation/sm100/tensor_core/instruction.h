#pragma once
// The 32-bit instruction descriptor of tcgen05.mma: what ../descriptor.h reads, and every rule that it breaks as one
// line that says what was found, in which bits, and what would be right.
//
//   decode_instruction(MmaKind::mxf8f6f4, 1, 0x08A80000).problems      // none: E4M3 by E4M3, 128x160x32, UE8M0 scales

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

// The sum that each element of D is, by the contracts sm100_f16, sm100_f8f6f4 and sm100_mxf8f6f4.
FusedSum fused_sum_of(const Instruction& instruction);

}  // namespace mxcheck::emulation::sm100
