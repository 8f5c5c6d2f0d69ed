#pragma once
// Descriptors of tcgen05, decoded by threads of a GPU: what emulation/sm100/tensor_core/{instruction,shared_matrix}.h
// say at length, in a form without texts. A descriptor is valid here exactly where it has no problems there
// (descriptor_test.cc asks both).
//
// Sources: as there.

#include <cstdint>

#include "emulation/sm100/operations.h"

#if defined(__CUDACC__)
  #define MXCHECK_ON_SM90_BOTH __host__ __device__ __forceinline__
#else
  #define MXCHECK_ON_SM90_BOTH inline
#endif

namespace mxcheck::emulation::on_sm90 {

// The format of an element: code 0 to 3.
enum class Element : std::uint8_t { e4m3, e5m2, fp16, bf16 };

struct ElementFacts {
  int bits;
  int mantissa_bits;
  int bias;
  std::uint32_t max_code;  // the largest finite one
  bool infinities;         // one code above it is an infinity; all others are NaNs
};
MXCHECK_ON_SM90_BOTH constexpr ElementFacts facts(Element e) {
  switch (e) {
    case Element::e4m3: return {8, 3, 7, 0x7E, false};
    case Element::e5m2: return {8, 2, 15, 0x7B, true};
    case Element::fp16: return {16, 10, 15, 0x7BFF, true};
    case Element::bf16: break;
  }
  return {16, 7, 127, 0x7F7F, true};
}

struct Instruction {
  bool valid;
  Element a;
  Element b;
  bool negate_a;
  bool negate_b;
  bool a_mn_major;
  bool b_mn_major;
  bool d_fp16;
  bool scaled;
  int m;  // of the pair, where there is one
  int n;
  int k;
  int element_bytes;
  int scale_a_id;
  int scale_b_id;
};

MXCHECK_ON_SM90_BOTH constexpr std::uint32_t bits_of(std::uint64_t bits, int high, int low) {
  return static_cast<std::uint32_t>(bits >> low & ((std::uint64_t{1} << (high - low + 1)) - 1));
}

MXCHECK_ON_SM90_BOTH constexpr int step_of_n(const Instruction& i, int cta_group) {
  const bool pair = cta_group == 2;
  const int step = i.scaled ? (pair ? 16 : 8) : pair ? 32 : i.m == 64 ? 8 : 16;
  const bool transposed = i.b_mn_major && i.element_bytes == 1;
  return transposed && step < 16 * cta_group ? 16 * cta_group : step;
}

MXCHECK_ON_SM90_BOTH constexpr Instruction decode_instruction(sm100::MmaKind kind, int cta_group, std::uint32_t bits) {
  Instruction i{};
  const bool half = kind == sm100::MmaKind::f16;
  i.scaled = kind == sm100::MmaKind::mxf8f6f4;
  i.element_bytes = half ? 2 : 1;
  i.k = 32 / i.element_bytes;
  const std::uint32_t a = bits_of(bits, 9, 7);
  const std::uint32_t b = bits_of(bits, 12, 10);
  i.a = static_cast<Element>((a & 1) + (half ? 2 : 0));
  i.b = static_cast<Element>((b & 1) + (half ? 2 : 0));
  i.negate_a = bits_of(bits, 13, 13) != 0;
  i.negate_b = bits_of(bits, 14, 14) != 0;
  i.a_mn_major = bits_of(bits, 15, 15) != 0;
  i.b_mn_major = bits_of(bits, 16, 16) != 0;
  i.n = static_cast<int>(bits_of(bits, 22, 17)) * 8;
  bool ok = a <= 1 && b <= 1 && bits_of(bits, 2, 2) == 0 && bits_of(bits, 1, 0) == 0 && bits_of(bits, 3, 3) == 0 &&
            bits_of(bits, 6, 6) == 0;
  if (i.scaled) {
    ok = ok && bits_of(bits, 26, 24) == 0 && bits_of(bits, 31, 31) == 0 && bits_of(bits, 23, 23) == 1;
    i.scale_a_id = static_cast<int>(bits_of(bits, 30, 29));
    i.scale_b_id = static_cast<int>(bits_of(bits, 5, 4));
    i.m = static_cast<int>(bits_of(bits, 28, 27)) * 128;
  } else {
    const std::uint32_t output = bits_of(bits, 5, 4);
    ok = ok && bits_of(bits, 23, 23) == 0 && bits_of(bits, 29, 29) == 0 && bits_of(bits, 31, 30) == 0 && output <= 1;
    i.d_fp16 = output == 0;
    if (half) ok = ok && a == b && !(i.d_fp16 && a == 1);
    i.m = static_cast<int>(bits_of(bits, 28, 24)) * 16;
  }
  const int low = i.scaled && cta_group == 1 ? 128 : 64 * cta_group;
  const int step = step_of_n(i, cta_group);
  i.valid = ok && (i.m == low || i.m == 128 * cta_group) && i.n >= step && i.n <= 256 && i.n % step == 0;
  return i;
}

struct Matrix {
  bool valid;
  std::uint32_t start;  // bytes, all three
  std::uint32_t leading;
  std::uint32_t stride;
  int swizzle_bits;  // of the XOR: 0 to 3
};

MXCHECK_ON_SM90_BOTH constexpr Matrix decode_matrix(std::uint64_t bits) {
  const std::uint32_t code = bits_of(bits, 63, 61);
  Matrix m{};
  m.start = bits_of(bits, 13, 0) * 16;
  m.leading = bits_of(bits, 29, 16) * 16;
  m.stride = bits_of(bits, 45, 32) * 16;
  m.swizzle_bits = code == 2 ? 3 : code == 4 ? 2 : code == 6 ? 1 : 0;
  m.valid = bits_of(bits, 15, 14) == 0 && bits_of(bits, 31, 30) == 0 && bits_of(bits, 48, 46) == 1 &&
            bits_of(bits, 60, 49) == 0 && code % 2 == 0;
  return m;
}

// Where 16 bytes lie: `line` and `unit` are the row and the unit along K (K-major), or k and the unit along MN.
MXCHECK_ON_SM90_BOTH constexpr std::uint32_t unit_address(const Matrix& d, bool mn_major, int line, int unit) {
  const std::uint32_t span = 16u << d.swizzle_bits;
  const auto in_atom = static_cast<std::uint32_t>(line % 8);
  const auto atom = static_cast<std::uint32_t>(line / 8);
  const auto u = static_cast<std::uint32_t>(unit);
  std::uint32_t offset = in_atom * span;
  if (d.swizzle_bits == 0) {
    offset += mn_major ? atom * d.leading + u * d.stride : atom * d.stride + u * d.leading;
  } else {
    const std::uint32_t along = u * 16;
    offset += atom * d.stride + (mn_major ? along / span * d.leading + along % span : along);
  }
  const std::uint32_t address = d.start + offset;
  return address ^ (address >> 7 & ((1u << d.swizzle_bits) - 1)) << 4;
}

struct Layout {
  bool mn_major;
  int element_bytes;
  int rows;
  int k;
};

MXCHECK_ON_SM90_BOTH constexpr std::uint32_t element_address(const Matrix& d, const Layout& l, int row, int k) {
  const int byte = (l.mn_major ? row : k) * l.element_bytes;
  return unit_address(d, l.mn_major, l.mn_major ? k : row, byte / 16) + static_cast<std::uint32_t>(byte % 16);
}

// Whether `bytes` of a row may be read from where the descriptor starts: in the first row of a swizzle's pattern, not
// past the row's end, and patterns apart by whole ones.
MXCHECK_ON_SM90_BOTH constexpr bool swizzle_fits(const Matrix& d, std::uint32_t bytes, bool several_atoms) {
  if (d.swizzle_bits == 0) return true;
  const std::uint32_t span = 16u << d.swizzle_bits;
  return d.start / span % 8 == 0 && d.start % span + bytes <= span && !(several_atoms && d.stride % (8 * span) != 0);
}

// The reads of an operand: lines_of() lines, each of units_of() units of 16 bytes.
MXCHECK_ON_SM90_BOTH constexpr int lines_of(const Layout& l) { return l.mn_major ? l.k : l.rows; }
MXCHECK_ON_SM90_BOTH constexpr int units_of(const Layout& l) {
  return (l.mn_major ? l.rows : l.k) * l.element_bytes / 16;
}
// Whether an operand's layout is one that can be read.
MXCHECK_ON_SM90_BOTH constexpr bool layout_fits(const Matrix& d, const Layout& l) {
  const std::uint32_t span = 16u << d.swizzle_bits;
  auto bytes = static_cast<std::uint32_t>(units_of(l)) * 16;
  const bool several_spans = l.mn_major && d.swizzle_bits != 0 && bytes > span;
  if (several_spans) bytes = span;
  return swizzle_fits(d, bytes, lines_of(l) > 8) && !(several_spans && d.leading % (span * 8) != 0);
}
// Whether a line lies in shared memory, which ends at `end`.
MXCHECK_ON_SM90_BOTH constexpr bool line_fits(const Matrix& d, bool mn_major, int line, int units, std::uint32_t end) {
  for (int unit = 0; unit < units; ++unit) {
    if (unit_address(d, mn_major, line, unit) + 16 > end) return false;
  }
  return true;
}

// --- tcgen05.cp
// --------------------------------------------------------------------------------------------------------------

struct Copy {
  int rows;
  int units;  // of 16 bytes in a row, each to four columns
  int lanes;  // that a row goes to
};
MXCHECK_ON_SM90_BOTH constexpr Copy copy_of(sm100::CpShape shape) {
  switch (shape) {
    case sm100::CpShape::rows32x128b_warpx4: return {32, 1, 4};
    case sm100::CpShape::rows128x128b: return {128, 1, 1};
    case sm100::CpShape::rows128x256b: return {128, 2, 1};
    case sm100::CpShape::rows4x256b: return {4, 2, 1};
    case sm100::CpShape::rows64x128b_02_13:
    case sm100::CpShape::rows64x128b_01_23: break;
  }
  return {64, 1, 2};
}
// The `copy`-th lane that a row goes to.
MXCHECK_ON_SM90_BOTH constexpr int copy_lane(sm100::CpShape shape, int row, int copy) {
  switch (shape) {
    case sm100::CpShape::rows32x128b_warpx4: return row + 32 * copy;
    case sm100::CpShape::rows4x256b: return 32 * row;
    case sm100::CpShape::rows64x128b_02_13: return row + 64 * copy;
    case sm100::CpShape::rows64x128b_01_23: return row / 32 * 64 + row % 32 + 32 * copy;
    case sm100::CpShape::rows128x128b:
    case sm100::CpShape::rows128x256b: break;
  }
  return row;
}
MXCHECK_ON_SM90_BOTH constexpr bool copy_fits(const Matrix& d, sm100::CpShape shape) {
  const Copy c = copy_of(shape);
  return swizzle_fits(d, static_cast<std::uint32_t>(c.units) * 16, c.rows > 8);
}

// --- tensor memory
// --------------------------------------------------------------------------------------------------------------

struct Place {
  unsigned lane;
  unsigned column;
};
// The place of D's row and column n in the CTA that has the row: layouts D, F, A and B of the PTX ISA (9.7.16.10.5).
MXCHECK_ON_SM90_BOTH constexpr Place d_place(const Instruction& i, int cta_group, int row, int n) {
  if (cta_group == 1 && i.m == 64) return {static_cast<unsigned>(32 * (row / 16) + row % 16), static_cast<unsigned>(n)};
  if (cta_group == 2 && i.m == 128) {
    const bool second = n >= i.n / 2;
    return {static_cast<unsigned>(row + (second ? 64 : 0)), static_cast<unsigned>(second ? n - i.n / 2 : n)};
  }
  return {static_cast<unsigned>(row), static_cast<unsigned>(n)};
}
// Register r of thread t, of tcgen05.ld and tcgen05.st.
MXCHECK_ON_SM90_BOTH constexpr Place register_place(sm100::TmemShape shape, unsigned t, unsigned r,
                                                    unsigned half_split) {
  switch (shape) {
    case sm100::TmemShape::lanes32x32b: return {t, r};
    case sm100::TmemShape::lanes16x64b: return {t / 4 + 8 * (t % 2), 2 * r + (t / 2) % 2};
    case sm100::TmemShape::lanes16x128b: return {t / 4 + 8 * (r % 2), 4 * (r / 2) + t % 4};
    case sm100::TmemShape::lanes16x256b: return {t / 4 + 8 * ((r / 2) % 2), 8 * (r / 4) + 2 * (t % 4) + r % 2};
    case sm100::TmemShape::lanes16x32bx2: break;
  }
  return {t % 16, r + half_split * (t / 16)};
}

}  // namespace mxcheck::emulation::on_sm90
