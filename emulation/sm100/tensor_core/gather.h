#pragma once
// An operand of an MMA, taken out of shared memory: its codes by row, whatever their layout there.
//
//   std::vector<std::uint8_t> a(128 * 32);
//   gather(matrix, {false, 1, 128, 32}, shared, a.data());             // a[row * 32 + k]
//
// Errors: Error{usage} where the operand does not lie inside `shared`; operand_problems() says it before.

#include <cstddef>
#include <cstdint>
#include <span>

#include "emulation/sm100/tensor_core/shared_matrix.h"

namespace mxcheck::emulation::sm100 {

// `out` has layout.rows * layout.k elements of layout.element_bytes each, little-endian.
void gather(const SharedMatrix& matrix, const OperandLayout& layout, std::span<const std::byte> shared,
            std::uint8_t* out);

}  // namespace mxcheck::emulation::sm100
