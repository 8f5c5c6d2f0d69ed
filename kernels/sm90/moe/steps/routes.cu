#include "kernels/sm90/moe/steps/routes.h"

namespace mxcheck_kernels::sm90 {
namespace {

__global__ void join_kernel(PlanHeader* header, const PlanHeader* slots) {
  if (header->status == MXCHECK_OK) header->status = slots->status;
}

}  // namespace

// Each check starts its own header afresh, so the slots have another one; and each writes the report, the last one for
// good, so they come first.
cudaError_t check_routes(const RoutesJob& job, cudaStream_t stream) {
  if (const cudaError_t e = check_slots(job.slots, job.slots_header, stream); e != cudaSuccess) return e;
  if (const cudaError_t e = make_plan(job.rows, job.header, job.table, stream); e != cudaSuccess) return e;
  join_kernel<<<1, 1, 0, stream>>>(job.header, job.slots_header);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
