#include "kernels/sm90/moe/steps/gather.h"

#include <algorithm>

namespace mxcheck_kernels::sm90 {

void add_gather(MoeBuilder& b, const char* name, const GatherRows& values, const GatherRows& scales) {
  const MoeCall& c = b.call();
  GatherJob job;
  job.values = values, job.scales = scales;
  job.tokens = c.tokens, job.header = b.header();
  job.token_offsets = data_of<const std::int64_t>(c.tensors.token_offsets);
  job.token_rows = data_of<const std::int32_t>(c.tensors.token_rows);
  // A token without rows is not counted as read: there may be fewer rows than tokens.
  const std::int64_t rows = std::min(c.tokens, c.routed) + c.routed;
  const std::uint64_t bytes =
      bytes_of(rows, values.row_bytes, 1) + bytes_of(rows, scales.row_bytes, 1) + bytes_of(c.slots, 1, 4);
  b.add(name, MoeStepKind::elementwise, bytes, [job](cudaStream_t stream) { return launch_gather(job, stream); });
}

}  // namespace mxcheck_kernels::sm90
