#pragma once
// The two descriptors of tcgen05 as a tensor core reads them: the one decoder, of both emulations, for a C++ compiler
// and for threads of a GPU. Encoders are the kernels' own (kernels/sm100/tcgen05/descriptor.h) and share nothing with
// it, so that each is a check of the other.
//
//   read_instruction(MmaKind::mxf8f6f4, 1, 0x08A80000).broken.none()   // E4M3 by E4M3, 128x160x32, UE8M0 scales
//   const ReadMatrix d = read_matrix(bits);
//   if (d.broken.none() && broken_rules(d, layout).none())
//     element_address(d, layout, 5, 17);                               // of row 5, k 17: an offset in the CTA's memory
//
// Each reader says which rules the bits break; tensor_core/instruction.h and tensor_core/shared_matrix.h have the
// words. What is read means something only where none is broken. A form that the PTX ISA has and the emulations have
// not (FP6 elements, FP4 elements a byte each, sparsity, .ws, K = 96) breaks a rule too: it is refused, never passed.
//
// Swizzles are an XOR on the absolute shared address: bits [4, 4 + s) ^= bits [7, 7 + s), s = 3, 2, 1 for 128, 64, 32
// bytes. Therefore an operand may start anywhere in the first row of a swizzle atom (8 rows of the span's bytes), which
// is how kernels step along K, and nowhere else.
//
// Sources: PTX ISA 9.0, section 9.7.16 (shapes, instruction descriptors, canonical layouts, matrix descriptor,
// tcgen05.cp); CUTLASS mma_sm100_desc.hpp for the canonical layouts in bytes. The steps of N are those that CUTLASS
// asserts, which are the stricter ones. Of kind::mxf4 and kind::mxf4nvf4: the sections "Instruction descriptor" (the
// table of the two kinds), "Data path layout organization, scale factors" (4X: a row's word is four scales) and
// "Packing formats for matrices in shared memory" (two codes a byte, no padding).
//
// Does not promise: the swizzle of 128 bytes with 32-byte atoms, base offsets other than 0, and the absolute mode of
// the leading offset. They are refused.

#include <cstdint>

#include "emulation/sm100/operations.h"
#include "numerics/format/format.h"

#if defined(__CUDACC__)
  #define MXCHECK_EMULATION_BOTH __host__ __device__ __forceinline__
#else
  #define MXCHECK_EMULATION_BOTH inline
#endif

namespace mxcheck::emulation::sm100 {

// Bits [low, high] of a descriptor.
struct Field {
  int high;
  int low;
};
MXCHECK_EMULATION_BOTH constexpr std::uint32_t value_of(std::uint64_t bits, Field f) {
  return static_cast<std::uint32_t>(bits >> f.low & ((std::uint64_t{1} << (f.high - f.low + 1)) - 1));
}

// A set of rules, in the order in which a text has them.
template <class Rule>
struct Rules {
  std::uint32_t bits = 0;

  MXCHECK_EMULATION_BOTH constexpr void add_if(bool broken, Rule rule) {
    bits |= static_cast<std::uint32_t>(broken) << static_cast<int>(rule);
  }
  MXCHECK_EMULATION_BOTH constexpr bool has(Rule rule) const { return (bits >> static_cast<int>(rule) & 1) != 0; }
  MXCHECK_EMULATION_BOTH constexpr bool none() const { return bits == 0; }
};

// --- the instruction: 32 bits
// --------------------------------------------------------------------------------------------------

MXCHECK_EMULATION_BOTH constexpr bool is_fp4(MmaKind kind) {
  return kind == MmaKind::mxf4 || kind == MmaKind::mxf4nvf4_block32 || kind == MmaKind::mxf4nvf4_block16;
}
// Bytes of an element of A and B; a byte of FP4 holds two elements, that of the even k in its low half.
MXCHECK_EMULATION_BOTH constexpr int element_bytes(MmaKind kind) { return kind == MmaKind::f16 ? 2 : 1; }
MXCHECK_EMULATION_BOTH constexpr bool is_scaled(MmaKind kind) { return kind == MmaKind::mxf8f6f4 || is_fp4(kind); }
// Scales of a row in one MMA: the N of .scale_vec::NX, which lie in the same word; 0 of the kinds without scales.
MXCHECK_EMULATION_BOTH constexpr int scales_of_row(MmaKind kind) {
  switch (kind) {
    case MmaKind::f16:
    case MmaKind::f8f6f4: return 0;
    case MmaKind::mxf8f6f4: return 1;
    case MmaKind::mxf4:
    case MmaKind::mxf4nvf4_block32: return 2;
    case MmaKind::mxf4nvf4_block16: break;
  }
  return 4;
}
inline constexpr int kStepBytes = 32;  // of a row of A or B: what one MMA multiplies
MXCHECK_EMULATION_BOTH constexpr int k_of(MmaKind kind) {
  return is_fp4(kind) ? 2 * kStepBytes : kStepBytes / element_bytes(kind);
}

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
  int k = 0;            // k_of(kind)
  bool d_fp16 = false;  // D is FP16, in the low halves of its words; else FP32
  int scale_a_id = 0;   // byte of the scales' words at which a row's scales begin
  int scale_b_id = 0;

  friend bool operator==(const Instruction&, const Instruction&) = default;
};

enum class InstructionRule : std::uint8_t {
  format_a,  // one of the two that its kind has
  format_b,
  dense,
  bits_1_0,  // 0, as the next seven are where the kind has no field there
  bit_3,
  bit_6,
  bits_26_24,
  bit_31,
  bit_23,  // of the scaled kind the scales' format
  bit_29,
  bits_31_30,
  output,
  equal_formats,   // of kind::f16
  fp16_from_fp16,  // an FP16 D of kind::f16
  fp4_format_b,    // bits 11:10 of the FP4 kinds, as the next five are of theirs
  bit_12,
  k_major_a,
  k_major_b,
  scale_id_a,  // a multiple of the scales of a row
  scale_id_b,
  m,
  n
};

struct ReadInstruction : Instruction {
  Rules<InstructionRule> broken;
};

// The multiple that N is of.
MXCHECK_EMULATION_BOTH constexpr int step_of_n(const Instruction& i) {
  const bool pair = i.cta_group == 2;
  // CUTLASS asserts these steps where the shape table of the PTX ISA can be read as multiples of 8 (one CTA) and 16.
  const int step = is_scaled(i.kind) ? (pair ? 16 : 8) : pair ? 32 : i.m == 64 ? 8 : 16;
  const bool transposed = i.b_mn_major && element_bytes(i.kind) == 1;
  return transposed && step < 16 * i.cta_group ? 16 * i.cta_group : step;
}
// The smaller of the two M; the larger is 128 of each CTA.
MXCHECK_EMULATION_BOTH constexpr int least_m(const Instruction& i) {
  return is_scaled(i.kind) && i.cta_group == 1 ? 128 : 64 * i.cta_group;
}

MXCHECK_EMULATION_BOTH constexpr Format format_of(MmaKind kind, std::uint32_t code) {
  if (is_fp4(kind)) return Format::e2m1;
  if (kind == MmaKind::f16) return code == 0 ? Format::fp16 : Format::bf16;
  switch (code) {
    case 0: return Format::e4m3;
    case 3: return Format::e2m3;
    case 4: return Format::e3m2;
    case 5: return Format::e2m1;
    default: return Format::e5m2;
  }
}

// The fields of kind::mxf4 and kind::mxf4nvf4 that no other kind has so: E2M1 is 1 in 9:7 and in 11:10, both operands
// are K-major, and a row's scales begin at a byte that is a multiple of their number.
MXCHECK_EMULATION_BOTH constexpr void read_fp4_fields(ReadInstruction& i, std::uint32_t bits) {
  using Rule = InstructionRule;
  const auto get = [bits](int high, int low) { return value_of(bits, {high, low}); };
  const auto scales = static_cast<std::uint32_t>(scales_of_row(i.kind));
  i.broken.add_if(get(9, 7) != 1, Rule::format_a);
  i.broken.add_if(get(11, 10) != 1, Rule::fp4_format_b);
  i.broken.add_if(get(12, 12) != 0, Rule::bit_12);
  i.broken.add_if(get(15, 15) != 0, Rule::k_major_a);
  i.broken.add_if(get(16, 16) != 0, Rule::k_major_b);
  i.broken.add_if(get(30, 29) % scales != 0, Rule::scale_id_a);
  i.broken.add_if(get(5, 4) % scales != 0, Rule::scale_id_b);
}

// `cta_group` is 1 or 2.
MXCHECK_EMULATION_BOTH constexpr ReadInstruction read_instruction(MmaKind kind, int cta_group, std::uint32_t bits) {
  using Rule = InstructionRule;
  const auto get = [bits](int high, int low) { return value_of(bits, {high, low}); };
  ReadInstruction i{};
  i.kind = kind;
  i.cta_group = cta_group;
  i.k = k_of(kind);
  i.a = format_of(kind, get(9, 7));
  i.b = format_of(kind, get(12, 10));
  i.negate_a = get(13, 13) != 0;
  i.negate_b = get(14, 14) != 0;
  i.a_mn_major = get(15, 15) != 0;
  i.b_mn_major = get(16, 16) != 0;
  i.n = static_cast<int>(get(22, 17)) * 8;
  if (is_fp4(kind)) {
    read_fp4_fields(i, bits);
  } else {
    i.broken.add_if(get(9, 7) > 1, Rule::format_a);
    i.broken.add_if(get(12, 10) > 1, Rule::format_b);
  }
  i.broken.add_if(get(2, 2) != 0, Rule::dense);
  i.broken.add_if(get(1, 0) != 0, Rule::bits_1_0);
  i.broken.add_if(get(3, 3) != 0, Rule::bit_3);
  i.broken.add_if(get(6, 6) != 0, Rule::bit_6);
  if (is_scaled(kind)) {
    i.broken.add_if(get(26, 24) != 0, Rule::bits_26_24);
    i.broken.add_if(get(31, 31) != 0, Rule::bit_31);
    i.broken.add_if(get(23, 23) != (kind == MmaKind::mxf4nvf4_block16 ? 0U : 1U), Rule::bit_23);
    i.scale_a_id = static_cast<int>(get(30, 29));
    i.scale_b_id = static_cast<int>(get(5, 4));
    i.m = static_cast<int>(get(28, 27)) * 128;
  } else {
    i.broken.add_if(get(23, 23) != 0, Rule::bit_23);
    i.broken.add_if(get(29, 29) != 0, Rule::bit_29);
    i.broken.add_if(get(31, 30) != 0, Rule::bits_31_30);
    i.broken.add_if(get(5, 4) > 1, Rule::output);
    i.d_fp16 = get(5, 4) == 0;
    const bool half = kind == MmaKind::f16;
    i.broken.add_if(half && i.a != i.b, Rule::equal_formats);
    i.broken.add_if(half && i.d_fp16 && (i.a != Format::fp16 || i.b != Format::fp16), Rule::fp16_from_fp16);
    i.m = static_cast<int>(get(28, 24)) * 16;
  }
  const int step = step_of_n(i);
  i.broken.add_if(i.m != least_m(i) && i.m != 128 * cta_group, Rule::m);
  i.broken.add_if(i.n < step || i.n > 256 || i.n % step != 0, Rule::n);
  return i;
}

// --- an operand in shared memory: 64 bits
// --------------------------------------------------------------------------------------

struct SharedMatrix {
  std::uint32_t start = 0;    // bytes, all three
  std::uint32_t leading = 0;  // LBO
  std::uint32_t stride = 0;   // SBO
  Swizzle swizzle = Swizzle::none;
  int base_offset = 0;

  friend bool operator==(const SharedMatrix&, const SharedMatrix&) = default;
};

enum class MatrixRule : std::uint8_t {
  bits_15_14,  // 0
  bits_31_30,
  constant,  // 48:46 is 1
  no_base_offset,
  relative,  // the leading offset
  bits_60_53,
  no_atoms_of_32,
  swizzle
};

struct ReadMatrix : SharedMatrix {
  Rules<MatrixRule> broken;
};

MXCHECK_EMULATION_BOTH constexpr ReadMatrix read_matrix(std::uint64_t bits) {
  using Rule = MatrixRule;
  const auto get = [bits](int high, int low) { return value_of(bits, {high, low}); };
  const std::uint32_t swizzle = get(63, 61);
  ReadMatrix m{};
  m.start = get(13, 0) * 16;
  m.leading = get(29, 16) * 16;
  m.stride = get(45, 32) * 16;
  m.base_offset = static_cast<int>(get(51, 49));
  if (swizzle % 2 == 0) m.swizzle = static_cast<Swizzle>(swizzle);
  m.broken.add_if(get(15, 14) != 0, Rule::bits_15_14);
  m.broken.add_if(get(31, 30) != 0, Rule::bits_31_30);
  m.broken.add_if(get(48, 46) != 1, Rule::constant);
  m.broken.add_if(m.base_offset != 0, Rule::no_base_offset);
  m.broken.add_if(get(52, 52) != 0, Rule::relative);
  m.broken.add_if(get(60, 53) != 0, Rule::bits_60_53);
  m.broken.add_if(swizzle == 1, Rule::no_atoms_of_32);
  m.broken.add_if(swizzle % 2 != 0 && swizzle != 1, Rule::swizzle);
  return m;
}

inline constexpr std::uint32_t kSharedUnit = 16;  // bytes: a swizzle moves them as a whole, as it leaves bits 3:0 alone
inline constexpr int kAtomRows = 8;

// s of the XOR. Not of b128_atom32, which no descriptor that is read has.
MXCHECK_EMULATION_BOTH constexpr int swizzle_bits(Swizzle swizzle) {
  return swizzle == Swizzle::b128 ? 3 : swizzle == Swizzle::b64 ? 2 : swizzle == Swizzle::b32 ? 1 : 0;
}

// Where 16 bytes lie: `line` and `unit` are the row and the unit along K (K-major), or k and the unit along MN.
MXCHECK_EMULATION_BOTH constexpr std::uint32_t unit_address(const SharedMatrix& d, bool mn_major, int line, int unit) {
  const int s = swizzle_bits(d.swizzle);
  const std::uint32_t span = kSharedUnit << s;
  const auto in_atom = static_cast<std::uint32_t>(line % kAtomRows);
  const auto atom = static_cast<std::uint32_t>(line / kAtomRows);
  const auto u = static_cast<std::uint32_t>(unit);
  std::uint32_t offset = in_atom * span;
  if (s == 0) {
    // LBO and SBO trade places between the two majors, here alone.
    offset += mn_major ? atom * d.leading + u * d.stride : atom * d.stride + u * d.leading;
  } else {
    const std::uint32_t along = u * kSharedUnit;
    offset += atom * d.stride + (mn_major ? along / span * d.leading + along % span : along);
  }
  const std::uint32_t address = d.start + offset;
  return address ^ (address >> 7 & ((1U << s) - 1)) << 4;
}

// How an operand of an MMA is read: `rows` of M or N (those that this CTA holds) by `k`. FP4 is read as bytes of two
// elements, `k` of them.
struct OperandLayout {
  bool mn_major = false;
  int element_bytes = 1;  // 1 or 2
  int rows = 0;           // MN-major: a multiple of 16 bytes
  int k = 0;              // 32 bytes' worth
};
MXCHECK_EMULATION_BOTH constexpr OperandLayout operand_layout(MmaKind kind, bool mn_major, int rows) {
  return {mn_major, element_bytes(kind), rows, kStepBytes / element_bytes(kind)};
}

// The offset in shared memory of one element.
MXCHECK_EMULATION_BOTH constexpr std::uint32_t element_address(const SharedMatrix& d, const OperandLayout& l, int row,
                                                               int k) {
  const int byte = (l.mn_major ? row : k) * l.element_bytes;
  const auto unit = static_cast<int>(kSharedUnit);
  return unit_address(d, l.mn_major, l.mn_major ? k : row, byte / unit) + static_cast<std::uint32_t>(byte % unit);
}

// The reads of an operand: lines_of() lines, each of units_of() units of 16 bytes.
MXCHECK_EMULATION_BOTH constexpr int lines_of(const OperandLayout& l) { return l.mn_major ? l.k : l.rows; }
MXCHECK_EMULATION_BOTH constexpr int units_of(const OperandLayout& l) {
  return (l.mn_major ? l.rows : l.k) * l.element_bytes / static_cast<int>(kSharedUnit);
}

// Where a read through a swizzle may begin, and how far apart its pieces may be.
enum class ReadRule : std::uint8_t {
  first_row,  // of an atom
  row_end,    // not past it
  stride,     // whole atoms apart
  leading
};

// `bytes` of each row are read. `several_atoms`: more than one along the rows.
MXCHECK_EMULATION_BOTH constexpr Rules<ReadRule> broken_rules(const SharedMatrix& d, std::uint32_t bytes,
                                                              bool several_atoms) {
  Rules<ReadRule> broken;
  if (swizzle_bits(d.swizzle) == 0) return broken;
  const std::uint32_t span = kSharedUnit << swizzle_bits(d.swizzle);
  broken.add_if(d.start / span % kAtomRows != 0, ReadRule::first_row);
  broken.add_if(d.start % span + bytes > span, ReadRule::row_end);
  broken.add_if(several_atoms && d.stride % (kAtomRows * span) != 0, ReadRule::stride);
  return broken;
}
// Along MN an operand of several spans starts at one's beginning, and goes on by the leading offset.
MXCHECK_EMULATION_BOTH constexpr bool has_several_spans(const SharedMatrix& d, const OperandLayout& l) {
  const int s = swizzle_bits(d.swizzle);
  return l.mn_major && s != 0 && units_of(l) > 1 << s;
}
// Bytes of a row of an operand, as the first overload wants them.
MXCHECK_EMULATION_BOTH constexpr std::uint32_t row_bytes_of(const SharedMatrix& d, const OperandLayout& l) {
  return kSharedUnit *
         (has_several_spans(d, l) ? 1U << swizzle_bits(d.swizzle) : static_cast<std::uint32_t>(units_of(l)));
}
MXCHECK_EMULATION_BOTH constexpr Rules<ReadRule> broken_rules(const SharedMatrix& d, const OperandLayout& l) {
  Rules<ReadRule> broken = broken_rules(d, row_bytes_of(d, l), lines_of(l) > kAtomRows);
  const std::uint32_t atom = (kSharedUnit << swizzle_bits(d.swizzle)) * kAtomRows;
  broken.add_if(has_several_spans(d, l) && d.leading % atom != 0, ReadRule::leading);
  return broken;
}
// The first of a line's units that does not lie in shared memory, which ends at `end`; `units` where all do.
MXCHECK_EMULATION_BOTH constexpr int first_outside(const SharedMatrix& d, bool mn_major, int line, int units,
                                                   std::uint32_t end) {
  for (int unit = 0; unit < units; ++unit) {
    if (unit_address(d, mn_major, line, unit) + kSharedUnit > end) return unit;
  }
  return units;
}

// --- tcgen05.cp
// --------------------------------------------------------------------------------------------------------------

// The source: `rows` of `units` 16-byte units; unit u of a row goes to the columns 4u to 4u + 3 of `lanes` lanes.
struct CpSource {
  int rows;
  int units;
  int lanes;
};
MXCHECK_EMULATION_BOTH constexpr CpSource cp_source(CpShape shape) {
  switch (shape) {
    case CpShape::rows32x128b_warpx4: return {32, 1, 4};
    case CpShape::rows128x128b: return {128, 1, 1};
    case CpShape::rows128x256b: return {128, 2, 1};
    case CpShape::rows4x256b: return {4, 2, 1};
    case CpShape::rows64x128b_02_13:
    case CpShape::rows64x128b_01_23: break;
  }
  return {64, 1, 2};
}
// The `copy`-th lane that a row goes to.
MXCHECK_EMULATION_BOTH constexpr int cp_lane(CpShape shape, int row, int copy) {
  switch (shape) {
    case CpShape::rows32x128b_warpx4: return row + 32 * copy;
    case CpShape::rows4x256b: return 32 * row;
    case CpShape::rows64x128b_02_13: return row + 64 * copy;
    case CpShape::rows64x128b_01_23: return row / 32 * 64 + row % 32 + 32 * copy;
    case CpShape::rows128x128b:
    case CpShape::rows128x256b: break;
  }
  return row;
}
// The offset in shared memory of one unit: the walk of a K-major operand.
MXCHECK_EMULATION_BOTH constexpr std::uint32_t cp_address(const SharedMatrix& d, int row, int unit) {
  return unit_address(d, false, row, unit);
}
MXCHECK_EMULATION_BOTH constexpr Rules<ReadRule> broken_rules(const SharedMatrix& d, CpShape shape) {
  const CpSource c = cp_source(shape);
  return broken_rules(d, static_cast<std::uint32_t>(c.units) * kSharedUnit, c.rows > kAtomRows);
}

// --- tensor memory
// --------------------------------------------------------------------------------------------------------------

struct TmemPlace {
  unsigned lane, column;  // relative to an address
};
// D's row and column n in the CTA that has the row: layouts D, F, A and B of the PTX ISA (9.7.16.10.5).
MXCHECK_EMULATION_BOTH constexpr TmemPlace d_place(const Instruction& i, int row, int n) {
  if (i.cta_group == 1 && i.m == 64) {
    return {static_cast<unsigned>(32 * (row / 16) + row % 16), static_cast<unsigned>(n)};
  }
  if (i.cta_group == 2 && i.m == 128) {
    const bool second = n >= i.n / 2;
    return {static_cast<unsigned>(row + (second ? 64 : 0)), static_cast<unsigned>(second ? n - i.n / 2 : n)};
  }
  return {static_cast<unsigned>(row), static_cast<unsigned>(n)};
}
// Register r of thread t, of tcgen05.ld and tcgen05.st. PTX ISA 9.0, figures of 9.7.16.2.3; as CUTLASS's copy traits
// have them.
MXCHECK_EMULATION_BOTH constexpr TmemPlace register_place(TmemShape shape, unsigned t, unsigned r,
                                                          unsigned half_split) {
  switch (shape) {
    case TmemShape::lanes32x32b: return {t, r};
    case TmemShape::lanes16x64b: return {t / 4 + 8 * (t % 2), 2 * r + (t / 2) % 2};
    case TmemShape::lanes16x128b: return {t / 4 + 8 * (r % 2), 4 * (r / 2) + t % 4};
    case TmemShape::lanes16x256b: return {t / 4 + 8 * ((r / 2) % 2), 8 * (r / 4) + 2 * (t % 4) + r % 2};
    case TmemShape::lanes16x32bx2: break;
  }
  return {t % 16, r + half_split * (t / 16)};
}

}  // namespace mxcheck::emulation::sm100
