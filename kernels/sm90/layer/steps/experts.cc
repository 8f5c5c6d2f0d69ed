#include "kernels/sm90/layer/steps/experts.h"

#include <limits>
#include <string>

namespace mxcheck_kernels::sm90 {

PlanSpace take_plan(const PlanJob& job, Space& space) {
  if (!job.needed()) return {};
  PlanSpace at;
  at.header = space.take<PlanHeader>(kHeaderBytes);
  at.table = space.take<RowTile>(table_bytes(job));
  return at;
}

std::int64_t experts_of(const DLTensor& offsets) {
  return offsets.ndim == 1 && offsets.shape != nullptr && offsets.shape[0] > 0 ? offsets.shape[0] - 1 : -1;
}

void require_extents(const mxcheck_policy& policy) {
  constexpr std::int64_t kMostRows = std::numeric_limits<std::int32_t>::max();
  constexpr std::int64_t kMostCols = kMostRows / 2;
  if (policy.rows >= 0 && policy.rows <= kMostRows && policy.cols >= 0 && policy.cols <= kMostCols) return;
  invalid("policy says " + std::to_string(policy.rows) + " x " + std::to_string(policy.cols) + ": must be 0 to " +
          std::to_string(kMostRows) + " rows and 0 to " + std::to_string(kMostCols) + " columns");
}

TiledRows enqueue_plan(const PlanJob& job, const PlanSpace& space, cudaStream_t stream) {
  TiledRows rows;
  rows.rows = job.rows, rows.tiles = most_tiles(job);
  if (!job.needed()) return rows;
  require_success(make_plan(job, space.header, space.table, stream));
  rows.header = space.header;
  if (job.offsets != nullptr) rows.table = space.table;
  return rows;
}

}  // namespace mxcheck_kernels::sm90
