#pragma once
// The 32-bit instruction descriptor of tcgen05.mma, decoded: which formats, shape and signs an MMA has.
//
//   decode_instruction(MmaKind::mxf8f6f4, 1, 0x08A80000).problems      // none: E4M3 by E4M3, 128x160x32, UE8M0 scales
//
// Every rule that a descriptor breaks is a problem: one line that says what was found, in which bits, and what would be
// right. The instruction is meaningful only where there are none. A form that the PTX ISA has and this emulation has
// not (FP6 and FP4 elements, sparsity, .ws) is a problem too: it is refused, never passed.
//
// Sources: PTX ISA 9.0, section 9.7.16, tables of shapes and of instruction descriptors; the steps of N are those that
// CUTLASS asserts, which are the stricter ones.

#include <cstdint>
#include <string>
#include <vector>

#include "emulation/sm100/instructions.h"
#include "numerics/accumulate/fused_sum.h"
#include "numerics/format/format.h"

namespace mxcheck::emulation::sm100 {

struct Instruction {
  MmaKind kind = MmaKind::mxf8f6f4;
  int cta_group = 1;
  Format a = Format::e4m3;
  Format b = Format::e4m3;
  bool negate_a = false;
  bool negate_b = false;
  bool a_mn_major = false;
  bool b_mn_major = false;
  int m = 0;  // of the pair, where cta_group is 2
  int n = 0;
  int k = 0;            // 32 of 8-bit elements, 16 of 16-bit elements
  bool d_fp16 = false;  // D is FP16, in the low halves of its words; else FP32
  int scale_a_id = 0;   // byte of the scales' words; of mxf8f6f4
  int scale_b_id = 0;

  friend bool operator==(const Instruction&, const Instruction&) = default;
};

struct Decoded {
  Instruction instruction;
  std::vector<std::string> problems;
};

Decoded decode_instruction(MmaKind kind, int cta_group, std::uint32_t bits);

const char* to_text(MmaKind kind);  // "kind::f16"
int element_bytes(MmaKind kind);    // of A and B: 1 or 2
bool is_scaled(MmaKind kind);

// The sum that each element of D is, by the contracts sm100_f16, sm100_f8f6f4 and sm100_mxf8f6f4.
FusedSum fused_sum_of(const Instruction& instruction);

}  // namespace mxcheck::emulation::sm100
