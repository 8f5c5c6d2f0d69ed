#pragma once
// Rows by index: row i of the matrix that is quantized is row index[i] of x. The index is checked on the device, where
// it is, together with the offsets, and tiles of rows become a table as those of experts do (groups.h); without offsets
// all rows are one expert's. Where either is wrong the table has no tile, and nothing is written.

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/sm90/nvfp4/groups.h"
#include "kernels/sm90/nvfp4/nvfp4.h"

namespace mxcheck_kernels::sm90 {

struct GatherJob {
  GroupsJob groups;  // without offsets these are null, and there is one expert
  const std::int32_t* index = nullptr;
  std::int64_t source_rows = 0;  // index is 0 .. source_rows - 1
};

// Enqueues the check, which no call may leave out, and the table. workspace: of table_bytes(job.groups).
cudaError_t make_gather(const GatherJob& job, void* workspace, GroupTable& table, cudaStream_t stream);

// Like quantize_nvfp4_groups: job.rows is that of the matrix, job.x and its stride those of the source.
cudaError_t quantize_nvfp4_gathered(const Nvfp4Job& job, const Nvfp4OptionJob& options, int block_rows,
                                    Nvfp4Values values, const GroupTable& groups, const std::int32_t* index,
                                    cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
