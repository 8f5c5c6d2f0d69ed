#pragma once
// Parses and validates a call of "matmul" of the emulated library, as kernels/candidate_matmul.h has it, and
// kernels/candidate_nvfp4.h of NVFP4 operands: that the
// tensors lie on the host, and what goes beside them. All throw Refusal.

#include <cstdint>

#include "kernels/candidate_matmul.h"
#include "kernels/candidate_nvfp4.h"
#include "kernels/common/arguments.h"
#include "kernels/sm100/gemm/tile.h"

namespace mxcheck_kernels::sm100 {

Checked check_tensor(const char* name, const DLTensor& tensor, DLDataType type, int rank);

// INVALID, naming the first that is wrong: offsets that do not ascend from 0 to `end`, rows that are not 0 to rows - 1.
void require_offsets(const Checked& offsets, std::int64_t end);
void require_rows(const Checked& index, std::int64_t rows);

// INVALID for a policy that cannot be read.
const mxcheck_matmul_policy& matmul_policy(const mxcheck_policy* policy);

// The scale type says what a and b are: E2M1 codes, two a byte, under E4M3 scales, or codes of bytes.
constexpr bool is_nvfp4(const mxcheck_matmul_policy& p) { return p.scale_type == MXCHECK_E4M3; }
constexpr mxcheck::sm100::gemm::Encoding encoding_of(const mxcheck_matmul_policy& p) {
  using mxcheck::sm100::gemm::Operands;
  return mxcheck::sm100::gemm::encoding_of(is_nvfp4(p) ? Operands::nvfp4 : Operands::scaled);
}

DLDataType output_type(const mxcheck_call& call);

struct MatmulTensors {
  const mxcheck_matmul_policy* policy = nullptr;
  Checked a, b, scale_a, scale_b, c, d, offsets, index;
  bool adds = false;     // C
  bool gathers = false;  // rows of a by `index`
  std::int64_t experts = 1;
};

// Codes and scales by the shapes that the policy gives them. The values of offsets and row index too
// are right when this returns.
MatmulTensors read_matmul(const mxcheck_call& call);

}  // namespace mxcheck_kernels::sm100
