#include "emulation/sm100/tensor_core/instruction.h"

#include "numerics/accumulate/contract.h"
#include "numerics/error.h"

namespace mxcheck::emulation::sm100 {
namespace {

Field field_of(InstructionRule rule, bool scaled) {
  switch (rule) {
    case InstructionRule::format_a: return {9, 7};
    case InstructionRule::format_b:
    case InstructionRule::equal_formats: return {12, 10};
    case InstructionRule::dense: return {2, 2};
    case InstructionRule::bits_1_0: return {1, 0};
    case InstructionRule::bit_3: return {3, 3};
    case InstructionRule::bit_6: return {6, 6};
    case InstructionRule::bits_26_24: return {26, 24};
    case InstructionRule::bit_31: return {31, 31};
    case InstructionRule::bit_23: return {23, 23};
    case InstructionRule::bit_29: return {29, 29};
    case InstructionRule::bits_31_30: return {31, 30};
    case InstructionRule::output:
    case InstructionRule::fp16_from_fp16:
    case InstructionRule::scale_id_b: return {5, 4};
    case InstructionRule::fp4_format_b: return {11, 10};
    case InstructionRule::bit_12: return {12, 12};
    case InstructionRule::k_major_a: return {15, 15};
    case InstructionRule::k_major_b: return {16, 16};
    case InstructionRule::scale_id_a: return {30, 29};
    case InstructionRule::m: return scaled ? Field{28, 27} : Field{28, 24};
    case InstructionRule::n: break;
  }
  return {22, 17};
}

std::string format_text(const Instruction& i, Format format, std::uint32_t code, const std::string& operand) {
  if (i.kind == MmaKind::f16) return "is no format of " + operand + ": FP16 is 0, BF16 1";
  if (is_fp4(i.kind)) return "is no format of " + operand + ": E2M1 is 1";
  const std::string right = "E4M3 is 0, E5M2 1";
  if (code < 3 || code > 5) return "is no format of " + operand + ": " + right;
  return "makes " + operand + " " + std::string(spec(format).name) +
         ", unpacked in shared memory, which is not modelled: " + right;
}

std::string m_text(const Instruction& i) {
  const int low = least_m(i);
  const int high = 128 * i.cta_group;
  return "makes M " + std::to_string(i.m) + ": with cta_group::" + std::to_string(i.cta_group) + " it is " +
         (low == high ? "" : std::to_string(low) + " or ") + std::to_string(high);
}

std::string n_text(const Instruction& i) {
  const bool transposed = i.b_mn_major && element_bytes(i.kind) == 1;
  return "makes N " + std::to_string(i.n) + ": with M " + std::to_string(i.m) +
         ", cta_group::" + std::to_string(i.cta_group) + (transposed ? " and B of 8 bits N-major" : "") +
         " it is a multiple of " + std::to_string(step_of_n(i)) + " up to 256";
}

std::string scale_format_text(const Instruction& i) {
  if (i.kind != MmaKind::mxf4nvf4_block16) return "makes the scales UE4M3: 1, for UE8M0, is right";
  return "makes the scales UE8M0, which blocks of 16 have no contract of: 0, for UE4M3, is right";
}

// A row has its scales in one word, from the byte of this id on.
std::string scale_id_text(const Instruction& i, const std::string& operand) {
  return "is no byte at which the " + std::to_string(scales_of_row(i.kind)) + " scales of a row of " + operand +
         " begin: " + (scales_of_row(i.kind) == 4 ? "0 is right" : "0 or 2 is right");
}

// The sentence on the bits of a broken rule: what is wrong, and what would be right.
std::string text_of(const Instruction& i, InstructionRule rule, std::uint32_t code) {
  const bool scaled = is_scaled(i.kind);
  const auto zero = [](const char* why = "reserved") { return std::string("where 0 is right: ") + why; };
  switch (rule) {
    case InstructionRule::format_a: return format_text(i, i.a, code, "A");
    case InstructionRule::format_b: return format_text(i, i.b, code, "B");
    case InstructionRule::dense: return "makes A sparse, which is not modelled: 0 is right";
    case InstructionRule::bits_1_0: return scaled ? zero() : zero("the sparsity selector of a dense MMA");
    case InstructionRule::bit_3: return scaled ? zero() : zero("saturation is of kind::i8");
    case InstructionRule::bit_23: return scaled ? scale_format_text(i) : zero();
    case InstructionRule::bit_31: return is_fp4(i.kind) ? "makes K 96, which sm_103a has: 0, for 64, is right" : zero();
    case InstructionRule::fp4_format_b: return format_text(i, i.b, code, "B");
    case InstructionRule::k_major_a: return "makes A M-major: 0 is right, as FP4 is K-major alone";
    case InstructionRule::k_major_b: return "makes B N-major: 0 is right, as FP4 is K-major alone";
    case InstructionRule::scale_id_a: return scale_id_text(i, "A");
    case InstructionRule::scale_id_b: return scale_id_text(i, "B");
    case InstructionRule::bits_31_30: return zero("the shift of .ws, which is not modelled");
    case InstructionRule::output: return "is no format of D: FP16 is 0, FP32 1";
    case InstructionRule::equal_formats: return "gives B another format than A: both are FP16, or both BF16";
    case InstructionRule::fp16_from_fp16: return "makes D FP16 of BF16 operands: 1, for FP32, is right";
    case InstructionRule::m: return m_text(i);
    case InstructionRule::n: return n_text(i);
    case InstructionRule::bit_6:
    case InstructionRule::bits_26_24:
    case InstructionRule::bit_12:
    case InstructionRule::bit_29: break;
  }
  return zero();
}

}  // namespace

Decoded decode_instruction(MmaKind kind, int cta_group, std::uint32_t bits) {
  if (cta_group != 1 && cta_group != 2) {
    throw Error(ErrorKind::usage, "cta_group::" + std::to_string(cta_group) + " of an MMA: it is 1 or 2");
  }
  const ReadInstruction read = read_instruction(kind, cta_group, bits);
  Decoded decoded{read, {}};
  for (int i = 0; i <= static_cast<int>(InstructionRule::n); ++i) {
    const auto rule = static_cast<InstructionRule>(i);
    if (!read.broken.has(rule)) continue;
    const Field field = field_of(rule, is_scaled(kind));
    const std::uint32_t code = value_of(bits, field);
    decoded.problems.push_back("instruction descriptor of " + std::string(to_text(kind)) + ": " + name_of(field) +
                               " = " + std::to_string(code) + " " + text_of(read, rule, code));
  }
  return decoded;
}

std::string name_of(Field f) {
  if (f.high == f.low) return "bit " + std::to_string(f.high);
  return "bits " + std::to_string(f.high) + ":" + std::to_string(f.low);
}

const char* to_text(MmaKind kind) {
  switch (kind) {
    case MmaKind::f16: return "kind::f16";
    case MmaKind::f8f6f4: return "kind::f8f6f4";
    case MmaKind::mxf8f6f4: return "kind::mxf8f6f4";
    case MmaKind::mxf4: return "kind::mxf4";
    case MmaKind::mxf4nvf4_block32: return "kind::mxf4nvf4.block32";
    case MmaKind::mxf4nvf4_block16: return "kind::mxf4nvf4.block16";
  }
  return "kind::?";
}

FusedSum fused_sum_of(const Instruction& instruction) {
  FusedSum step;
  switch (instruction.kind) {
    case MmaKind::f16: step = contract_named("sm100_f16").step; break;
    case MmaKind::f8f6f4: step = contract_named("sm100_f8f6f4").step; break;
    case MmaKind::mxf8f6f4: step = contract_named("sm100_mxf8f6f4").step; break;
    case MmaKind::mxf4:
    case MmaKind::mxf4nvf4_block32: step = contract_named("sm100_mxf4").step; break;
    case MmaKind::mxf4nvf4_block16: step = contract_named("sm100_nvf4").step; break;
  }
  // No contract of its own: as those of Hopper, whose FP16 output is the same sum, rounded to nearest even.
  if (instruction.d_fp16) step.output = kFp16Output;
  return step;
}

}  // namespace mxcheck::emulation::sm100
