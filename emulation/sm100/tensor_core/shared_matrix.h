#pragma once
// The 64-bit shared-memory matrix descriptor of tcgen05.mma and tcgen05.cp, decoded, and the addresses that it stands
// for.
//
// Swizzles are an XOR on the absolute shared address: bits [4, 4 + s) ^= bits [7, 7 + s), s = 3, 2, 1 for 128, 64, 32
// bytes. Therefore an operand may start anywhere in the first row of a swizzle atom (8 rows of the span's bytes), which
// is how kernels step along K, and nowhere else.
//
//   const DecodedMatrix d = decode_shared_matrix(bits);
//   if (d.problems.empty() && operand_problems(d.matrix, layout, shared_bytes).empty())
//     element_address(d.matrix, layout, 5, 17);                  // of row 5, k 17: an offset in the CTA's shared
//     memory
//
// Sources: PTX ISA 9.0, section 9.7.16 (canonical layouts, matrix descriptor, tcgen05.cp); CUTLASS mma_sm100_desc.hpp
// for the canonical layouts in bytes.
//
// Does not promise: the swizzle of 128 bytes with 32-byte atoms, base offsets other than 0, and the absolute mode of
// the leading offset. They are refused as problems.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "emulation/sm100/instructions.h"
#include "emulation/sm100/tensor_map.h"

namespace mxcheck::emulation::sm100 {

struct SharedMatrix {
  std::uint32_t start = 0;    // bytes, all three
  std::uint32_t leading = 0;  // LBO
  std::uint32_t stride = 0;   // SBO
  Swizzle swizzle = Swizzle::none;
  int base_offset = 0;

  friend bool operator==(const SharedMatrix&, const SharedMatrix&) = default;
};

struct DecodedMatrix {
  SharedMatrix matrix;
  std::vector<std::string> problems;
};

DecodedMatrix decode_shared_matrix(std::uint64_t bits);

// How an operand of an MMA is read: `rows` of M or N (those that this CTA holds) by `k`.
struct OperandLayout {
  bool mn_major = false;
  int element_bytes = 1;  // 1 or 2
  int rows = 0;           // MN-major: a multiple of 16 bytes
  int k = 0;              // 32 bytes' worth
};

// Bytes of a swizzle's row: 16 for none.
std::uint32_t swizzle_span(Swizzle swizzle);
// The XOR.
std::uint32_t swizzled(Swizzle swizzle, std::uint32_t address);

// The offset in shared memory of one element.
std::uint32_t element_address(const SharedMatrix& matrix, const OperandLayout& layout, int row, int k);

// Offsets of the 16-byte units that an operand is read from: K-major by row, then along K; MN-major by k, then along
// MN. A unit holds 16 / element_bytes neighbours of the same row (K-major) or of the same k (MN-major). Units repeat
// where the descriptor's offsets let them overlap.
std::vector<std::uint32_t> operand_units(const SharedMatrix& matrix, const OperandLayout& layout);

// The problems of reading that operand: outside of shared memory, or past the end of a swizzle's row.
std::vector<std::string> operand_problems(const SharedMatrix& matrix, const OperandLayout& layout,
                                          std::uint32_t shared_bytes);

// The source of tcgen05.cp: `rows` of `units` 16-byte units; unit u of a row goes to the columns 4u to 4u + 3 of some
// lanes.
struct CpSource {
  int rows;
  int units;
};
CpSource cp_source(CpShape shape);
// The lanes that a row is copied to: `count` of them.
struct CpLanes {
  int count;
  std::array<int, 4> lanes;
};
CpLanes cp_lanes(CpShape shape, int row);
// The offset in shared memory of one unit.
std::uint32_t cp_address(const SharedMatrix& matrix, int row, int unit);
std::vector<std::string> cp_problems(const SharedMatrix& matrix, CpShape shape, std::uint32_t shared_bytes);

}  // namespace mxcheck::emulation::sm100
