// The kernels of quantize.cuh for rows of experts, apart from those for one matrix (quantize.cu), so that nvcc compiles
// the two beside each other.

#include "kernels/sm90/nvfp4/groups.h"
#include "kernels/sm90/nvfp4/quantize.cuh"

namespace mxcheck_kernels::sm90 {

static_assert(kGroupRows == kTileRows);

cudaError_t quantize_nvfp4_groups(const Nvfp4Job& job, const Nvfp4OptionJob& options, int block_rows,
                                  Nvfp4Values values, const GroupTable& groups, cudaStream_t stream) {
  if (groups.count == 0) return cudaSuccess;
  Nvfp4Launch l{.job = job, .options = options, .square = block_rows != 1, .groups = groups, .stream = stream};
  return launch<RowsOf::experts>(l, values, groups.parts());
}

}  // namespace mxcheck_kernels::sm90
