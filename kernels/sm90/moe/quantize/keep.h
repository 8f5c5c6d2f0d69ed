#pragma once
// H as dsv3_pow2 keeps it: E5M6 in blocks of 1 x 128 of its row as it lies, scales E8M0 rceil, eight codes in three
// words (kernels/candidate_moe.h). Made in SwiGLU's read of H, beside the codes of A. What reads it back is
// kernels/sm90/layer/steps/rows.cuh.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/layer/steps/steps.h"

namespace mxcheck_kernels::sm90 {

struct KeepJob {
  // As of launch_forward_rows, with 16-byte loads of H in BF16; n is a multiple of 128, and codes of A alone are
  // written: E4M3 in blocks of 128, scales E8M0.
  RowsJob rows;
  std::uint8_t* packed = nullptr;  // rows x 3 n bytes, at a multiple of 16
  std::uint8_t* scales = nullptr;  // rows x n / 64
};
// cudaErrorInvalidValue for another job than that.
cudaError_t launch_keep(const KeepJob& job, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
