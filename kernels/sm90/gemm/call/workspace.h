#pragma once
// The workspace of a matmul holds what the device found in the arguments, where each group's scales begin, and operands
// that had to be copied.

#include <cstdint>

#include "kernels/candidate.h"
#include "kernels/sm90/gemm/call/matmul.h"

namespace mxcheck_kernels::sm90 {

struct MatmulWorkspace {
  std::uint64_t starts_at = 0;  // experts + 1 first columns of scales, of groups along depth
  std::uint64_t a_at = 0;       // copies with rows of `pitch` elements
  std::uint64_t b_at = 0;
  std::uint64_t bytes = 0;
  std::int64_t pitch = 0;  // 0: the operands are read where they are
};

// By the shapes alone: data may be null. Rows are copied to the next multiple of `multiple` elements, of element_bytes
// each, where their length is none. INVALID where shapes are none or too large.
MatmulWorkspace plan_workspace(const mxcheck_call& call, int element_bytes, std::int64_t multiple);

// Bytes of a matrix of the shape of an input, with rows of `cols` elements, in whole 256; INVALID as above.
std::uint64_t matrix_bytes(const mxcheck_call& call, int input, std::int64_t cols, int element_bytes);

// Copies a and b where they are to be copied, and has `matmul` read the copies.
void pad_operands(MatmulCall& matmul, const MatmulTensors& x, const mxcheck_call& call, const MatmulWorkspace& plan,
                  int element_bytes);

}  // namespace mxcheck_kernels::sm90
