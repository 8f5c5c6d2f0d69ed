// The kernels of quantize.cuh for rows by index, of experts or not.

#include "kernels/sm90/nvfp4/gather.h"
#include "kernels/sm90/nvfp4/quantize.cuh"

namespace mxcheck_kernels::sm90 {

cudaError_t quantize_nvfp4_gathered(const Nvfp4Job& job, const Nvfp4OptionJob& options, int block_rows,
                                    Nvfp4Values values, const GroupTable& groups, const std::int32_t* index,
                                    cudaStream_t stream) {
  if (groups.count == 0) return cudaSuccess;
  Nvfp4Launch l{
      .job = job, .options = options, .square = block_rows != 1, .groups = groups, .index = index, .stream = stream};
  return launch<RowsOf::index>(l, values, groups.parts());
}

}  // namespace mxcheck_kernels::sm90
