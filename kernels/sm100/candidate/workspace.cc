#include "kernels/sm100/candidate/workspace.h"

#include <algorithm>
#include <string>

#include "kernels/sm100/candidate/matmul.h"
#include "kernels/sm100/scales/pack.h"

namespace mxcheck_kernels::sm100 {
namespace {

namespace scales = mxcheck::sm100::scales;

constexpr std::uint64_t kAlignment = 256;
constexpr std::int64_t kMostCoordinate = INT32_MAX;

struct Shape {
  std::int64_t rows, cols;
};

Shape shape_of(const char* name, const DLTensor& t) {
  if (t.ndim != 2 || t.shape == nullptr || t.shape[0] < 0 || t.shape[1] < 0)
    invalid(std::string(name) + " is no matrix");
  return {t.shape[0], t.shape[1]};
}

// Groups, by the offsets' shape; 1 where there are none, or none that can be read.
std::int64_t groups_of(const mxcheck_call& call) {
  for (int i = 4; i < call.num_inputs; ++i) {
    const DLTensor& t = call.inputs[i];
    if (same(t.dtype, kInt64Type) && t.ndim == 1 && t.shape != nullptr && t.shape[0] > 1 && t.shape[0] <= 65537) {
      return t.shape[0] - 1;
    }
  }
  return 1;
}

class Plan {
 public:
  // Where `rows` x `row_bytes` bytes begin.
  std::uint64_t add(const char* what, std::int64_t rows, std::int64_t row_bytes) {
    const std::uint64_t at = bytes_;
    std::int64_t size = 0;
    if (__builtin_mul_overflow(rows, row_bytes, &size) || size > INT64_MAX / 16) {
      invalid(std::string(what) + " of " + std::to_string(rows) + " rows is too large");
    }
    bytes_ += (static_cast<std::uint64_t>(size) + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  std::uint64_t bytes_ = 0;
};

void require_coordinate(const char* what, std::int64_t value) {
  if (value <= kMostCoordinate) return;
  unsupported(std::string(what) + " are offered up to 2^31 - 1: these are " + std::to_string(value));
}

// Chunks of 128 rows of `groups` groups, at most, whatever their ends.
std::int64_t most_pieces(std::int64_t extent, std::int64_t groups, std::int64_t size) {
  return std::min(extent, (extent + groups * (size - 1)) / size);
}

}  // namespace

Workspace plan_workspace(const mxcheck_call& call) {
  const mxcheck_matmul_policy& p = matmul_policy(call.policy);
  if (call.inputs == nullptr || call.num_inputs < 4) invalid("a matmul with scales has four inputs or more");
  if (call.outputs == nullptr || call.num_outputs != 1) invalid("a matmul has one output, d");
  const std::int64_t b_rows = shape_of("b", call.inputs[1]).rows;
  const std::int64_t columns = shape_of("scales of a", call.inputs[2]).cols;
  const Shape d = shape_of("d", call.outputs[0]);
  if (p.policy.rows < 0 || p.policy.rows > INT32_MAX) invalid("policy.rows must be 0 to 2^31 - 1");
  if (p.policy.cols < 0 || p.policy.cols > INT32_MAX) invalid("policy.cols must be 0 to 2^31 - 1");
  const std::int64_t groups = groups_of(call);
  require_coordinate("blocks of depth", columns > INT64_MAX / scales::kBlock ? columns : columns * scales::kBlock);
  require_coordinate("rows of b, of all experts,", b_rows);
  const bool by_rows = p.grouping == MXCHECK_ROWS;
  const bool by_depth = p.grouping == MXCHECK_DEPTH;
  const std::int64_t chunks_k = most_pieces(columns, by_depth ? groups : 1, scales::kChunkScales);
  const std::int64_t rows_a = most_pieces(p.policy.rows, by_rows ? groups : 1, scales::kChunkRows);
  const std::int64_t rows_b = (by_rows ? groups : 1) * ((p.policy.cols + scales::kChunkRows - 1) / scales::kChunkRows);
  constexpr std::int64_t kChunkBytes = std::int64_t{4} * scales::kChunkWords;
  // Chunks of scales are at least one, even where there are none, since a tensor map has no extent of 0.
  const auto chunks = [&](std::int64_t rows) {
    std::int64_t count = 0;
    if (__builtin_mul_overflow(rows, chunks_k, &count)) count = INT64_MAX;
    require_coordinate("chunks of scales", count);
    return std::max<std::int64_t>(count, 1);
  };
  Workspace w;
  w.pitch = std::max<std::int64_t>(columns, 1) * scales::kBlock;
  Plan plan;
  w.a_at = plan.add("a", p.policy.rows, w.pitch);
  w.b_at = plan.add("b", b_rows, w.pitch);
  w.scales_a_at = plan.add("scales of a", chunks(rows_a), kChunkBytes);
  w.scales_b_at = plan.add("scales of b", chunks(rows_b), kChunkBytes);
  w.offsets_at = plan.add("offsets", groups + 1, sizeof(std::int64_t));
  if (d.cols != 0 && d.rows > INT64_MAX / 4 / d.cols) invalid("d is too large");
  w.d_at = plan.add("d", d.rows * d.cols, 4);
  w.bytes = plan.bytes();
  return w;
}

}  // namespace mxcheck_kernels::sm100
