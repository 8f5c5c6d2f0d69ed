#pragma once
// The 64-bit shared-memory matrix descriptor of tcgen05.mma and tcgen05.cp: what ../descriptor.h reads, in words what
// is wrong with it, and the bytes that it stands for.
//
//   const DecodedMatrix d = decode_shared_matrix(bits);
//   if (d.problems.empty() && operand_problems(d.matrix, layout, shared_bytes).empty())
//     gather(d.matrix, layout, shared, a.data());                      // a[row * layout.k + k]

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "emulation/sm100/descriptor.h"

namespace mxcheck::emulation::sm100 {

struct DecodedMatrix {
  SharedMatrix matrix;
  std::vector<std::string> problems;
};

DecodedMatrix decode_shared_matrix(std::uint64_t bits);

// Below, the swizzle with 32-byte atoms and layouts that an MMA has not are Error{usage}.

// Bytes of a swizzle's row: 16 for none.
std::uint32_t swizzle_span(Swizzle swizzle);
// The XOR.
std::uint32_t swizzled(Swizzle swizzle, std::uint32_t address);

// Offsets of the 16-byte units that an operand is read from: K-major by row, then along K; MN-major by k, then along
// MN. A unit holds 16 / element_bytes neighbours of the same row (K-major) or of the same k (MN-major). Units repeat
// where the descriptor's offsets let them overlap.
std::vector<std::uint32_t> operand_units(const SharedMatrix& matrix, const OperandLayout& layout);

// The problems of reading that operand: outside of shared memory, or past the end of a swizzle's row.
std::vector<std::string> operand_problems(const SharedMatrix& matrix, const OperandLayout& layout,
                                          std::uint32_t shared_bytes);
// The problems of reading the source of tcgen05.cp.
std::vector<std::string> cp_problems(const SharedMatrix& matrix, CpShape shape, std::uint32_t shared_bytes);

// An operand's codes by row, whatever their layout in `shared`: layout.rows * layout.k elements of layout.element_bytes
// each, little-endian. Error{usage} where it does not lie inside; operand_problems() says it before.
void gather(const SharedMatrix& matrix, const OperandLayout& layout, std::span<const std::byte> shared,
            std::uint8_t* out);

}  // namespace mxcheck::emulation::sm100
