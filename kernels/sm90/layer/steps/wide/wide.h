#pragma once
// Codes along tokens by tiles of 128 rows and 128 columns: the parts of launch_transpose for blocks of 128 rows.

#include "kernels/sm90/layer/steps/columns.h"

namespace mxcheck_kernels::sm90 {

// Whether launch_wide can: BF16 or codes, eight neighbours in one aligned load. vector: as of launch_transpose.
bool takes_wide(const TransposeJob& job, bool vector);
// With out.stride.
cudaError_t launch_wide(const TransposeJob& job, cudaStream_t stream);
// The part of launch_wide that takes codes.
cudaError_t launch_wide_codes(const TransposeJob& job, const dim3& grid, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
