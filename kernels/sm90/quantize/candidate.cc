// The table of operations, and how a call of each is checked and enqueued. All throw Refusal for what this library does
// not support.

#include "kernels/candidate.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/common/boundary.h"
#include "kernels/common/quantize/policy.h"
#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/quantize/quantize.h"

namespace mxcheck_kernels::sm90 {
namespace {

// --- policies --------------------------------------------------------------------------------------------------------

struct Policy {
  Element element = Element::e4m3;
  ScaleRule rule = ScaleRule::rceil;
  Dtype dtype = Dtype::bf16;
  BlockKind kind = BlockKind::row;
  int block = 32;  // 32 or 128
  bool tiled = false;
};

constexpr std::array kRecipes{OfferedRecipe{"rceil", ScaleRule::rceil}, OfferedRecipe{"floor", ScaleRule::floor},
                              OfferedRecipe{"ocp", ScaleRule::floor}};
constexpr std::array kBlocks{Shape{1, 32}, Shape{32, 1}, Shape{32, 32}, Shape{1, 128}, Shape{128, 1}, Shape{128, 128}};

Policy read_policy(QuantizeOperation operation, const mxcheck_policy* policy, DLDataType type) {
  const QuantizePolicy read = read_quantize_policy(operation, policy, type, kRecipes, kBlocks);
  Policy p;
  p.element = read.element, p.rule = read.rule, p.dtype = read.dtype;
  if (operation == QuantizeOperation::cast) return p;
  p.kind = read.block.rows == 1 ? BlockKind::row : read.block.cols == 1 ? BlockKind::column : BlockKind::square;
  p.block = static_cast<int>(std::max(read.block.rows, read.block.cols));
  p.tiled = read.layout == MXCHECK_TCGEN05;
  return p;
}

// --- calls -----------------------------------------------------------------------------------------------------------

// The rows of a call and what the device must check of them.
struct Plan {
  PlanJob job;
  std::array<Checked, 2> tensors;  // offsets and index: no bytes where there is none
  std::int64_t columns = 0;        // tiles of 128 columns

  Plan(const mxcheck_call& call, int inputs, std::int64_t rows, std::int64_t cols, std::int64_t source_rows,
       bool index_possible) {
    const Extras extras = find_extras(call, inputs, index_possible);
    job.rows = rows, job.source_rows = source_rows;
    columns = divide_up(cols, kTile);
    if (extras.offsets != nullptr) {
      tensors[0] = check_tensor("offsets", *extras.offsets, kInt64Type, 1, Strides::contiguous);
      if (tensors[0].cols == 0) invalid("offsets is empty: must hold one value more than there are experts");
      if (tensors[0].cols == 1 && rows != 0) invalid("offsets holds one value, no expert, and there are rows");
      job.offsets = static_cast<const std::int64_t*>(tensors[0].data), job.experts = tensors[0].cols - 1;
    }
    if (extras.index != nullptr) {
      tensors[1] = check_tensor("row index", *extras.index, kInt32Type, 1, Strides::contiguous);
      require_shape("row index", tensors[1], 1, rows);
      job.index = static_cast<const std::int32_t*>(tensors[1].data);
      if (rows == 0) job.index = nullptr;
    }
    job.report = report_of(call);
    if (columns >= std::numeric_limits<std::int32_t>::max() / std::max<std::int64_t>(1, most_tiles(job))) {
      invalid("a matrix of " + std::to_string(rows) + " x " + std::to_string(cols) +
              ": at most 2^31 - 1 tiles of 128 x 128 are possible");
    }
  }

  // Scales of n x m blocks: checked here without offsets, claimed for the device with them. words: see ScalePlace.
  ScalePlace scales(const char* name, const DLTensor& tensor, const mxcheck_policy& policy, BlockKind kind, int block,
                    bool tiled, std::size_t claim, Checked& checked) {
    checked = check_tensor(name, tensor, kByteType, tiled ? 1 : 2, Strides::contiguous);
    const std::int64_t cols = divide_up(policy.cols, kind == BlockKind::column ? 1 : block);
    const std::int64_t groups = kind == BlockKind::row ? 1 : block;  // rows of the matrix to a row of scales
    const std::int64_t columns_of_tiles = kind == BlockKind::row ? divide_up(cols, 4) : columns;
    if (!tiled && job.offsets == nullptr) require_shape(name, checked, divide_up(job.rows, groups), cols);
    if (!tiled && job.offsets != nullptr) require_shape(name, checked, checked.rows, cols);
    if (tiled && job.offsets == nullptr) {
      const std::int64_t lines = divide_up(job.rows, kTile);
      const std::int64_t tiles = kind == BlockKind::column && block == 128 ? divide_up(lines, 4) : lines;
      require_shape(name, checked, 1, tiles * columns_of_tiles * kScaleTile);
    }
    if (job.offsets != nullptr) {
      job.claims[claim].count = tiled ? checked.cols : checked.rows;
      job.claims[claim].block_rows = static_cast<std::int32_t>(groups);
      job.claims[claim].columns = tiled ? columns_of_tiles : 0;
      if (policy.cols == 0) {  // no bytes, however many rows
        job.claims[claim].count = -1;
        if (tiled) require_shape(name, checked, 1, 0);
      }
    }
    return {static_cast<std::uint8_t*>(checked.data), tiled, is_aligned(checked.data, 4) && (tiled || cols % 4 == 0),
            policy.pad_byte};
  }

  Rows make(const mxcheck_call& call, cudaStream_t stream) const {
    require_workspace(call, plan_bytes(job));
    Rows rows;
    require_success(make_plan(job, call.workspace, rows, stream));
    return rows;
  }
};

// Blocks of 128 x 256 in place of 128 x 128: slower where they leave processors idle (4096 x 512: 5.9 us in place of
// 5.1). Tiny matrices, which take a launch's time either way, take both in turn: whoever tests small shapes tests both.
bool takes_wide_blocks(const QuantizeJob& job) {
  constexpr std::int64_t kResident = 264;  // two a processor
  constexpr std::int64_t kTiny = 16;
  const std::int64_t blocks = job.rows.tiles * ((job.columns + 1) / 2);
  return blocks >= kResident || (blocks <= kTiny && (job.rows.tiles + job.cols / 8) % 2 == 0);
}

void quantize(const mxcheck_call& call, QuantizeOperation operation) {
  const bool dual = operation == QuantizeOperation::quantize_dual;
  check_call(call, 1, 3, dual ? 4 : 2);
  const mxcheck_policy& policy = *call.policy;
  const Policy plan = read_policy(operation, call.policy, call.inputs[0].dtype);
  const DLTensor* out = call.outputs;
  const Checked x = check_tensor("x", call.inputs[0], dl_type(plan.dtype), 2, Strides::any);
  const bool gathered = find_extras(call, 1, true).index != nullptr;
  if (policy.rows < 0) invalid("policy.rows is " + std::to_string(policy.rows) + ": must be 0 or more");
  require_policy_shape(policy, gathered ? policy.rows : x.rows, x.cols);
  Plan rows(call, 1, policy.rows, x.cols, x.rows, true);

  std::array<Checked, 4> outputs;
  QuantizeJob job;
  job.x = {x.data, x.stride, rows.job.index, static_cast<std::int64_t>(x.bytes)};
  job.cols = x.cols, job.columns = rows.columns;
  job.addend = round_up_addend(plan.rule);
  const auto direction = [&](std::size_t at, const char* codes, const char* scales, BlockKind kind) {
    outputs[at] = check_tensor(codes, out[at], kByteType, 2, Strides::contiguous);
    require_shape(codes, outputs[at], policy.rows, x.cols);
    return Direction{static_cast<std::uint8_t*>(outputs[at].data),
                     rows.scales(scales, out[at + 1], policy, kind, plan.block, plan.tiled, at / 2, outputs[at + 1])};
  };
  if (dual) {
    job.row = direction(0, "row codes", "row scales", BlockKind::row);
    job.column = direction(2, "column codes", "column scales", BlockKind::column);
  } else {
    (plan.kind == BlockKind::column ? job.column : job.row) = direction(0, "codes", "scales", plan.kind);
  }
  require_disjoint(std::array{x, rows.tensors[0], rows.tensors[1]}, outputs);

  const std::uintptr_t width = plan.dtype == Dtype::bf16 ? 8 : 16;
  const bool vector = x.cols % 4 == 0 && x.stride % 4 == 0 && is_aligned(x.data, width) &&
                      is_aligned(outputs[0].data, 4) && is_aligned(outputs[2].data, 4);
  job.rows = rows.make(call, stream_of(call));
  if (job.rows.tiles * job.columns == 0) return;
  const bool lines = x.cols % 8 == 0 && x.stride % 8 == 0 && is_aligned(x.data, 16) && is_aligned(outputs[0].data, 8);
  if (!dual && plan.kind == BlockKind::row) {
    return require_success(quantize_lines(job, plan.block, plan.dtype, plan.element, !lines, stream_of(call)));
  }
  const bool square = plan.kind == BlockKind::square;
  // Where four columns are a vector, but not eight, tiles of 128 columns take 226 us for 32768 x 7164; 167 for 7168.
  const bool by_windows =
      plan.dtype == Dtype::bf16 && !lines && (!vector || takes_wide_blocks(job)) && has_windows(job, dual, square);
  if (by_windows) {
    const WindowBlocks blocks = dual ? WindowBlocks::both : square ? WindowBlocks::square : WindowBlocks::column;
    return require_success(quantize_windows(job, blocks, plan.block, plan.element, stream_of(call)));
  }
  if (dual && plan.dtype == Dtype::bf16 && lines && is_aligned(outputs[2].data, 8) && takes_wide_blocks(job)) {
    return require_success(quantize_wide_dual(job, plan.block, plan.element, stream_of(call)));
  }
  if (dual && !vector) {
    // Two casts read twice what one reads once, and are faster: 396 us in place of 423 for 32768 x 7167.
    require_success(quantize_lines(job, plan.block, plan.dtype, plan.element, true, stream_of(call)));
    return require_success(quantize_column(job, plan.block, plan.dtype, plan.element, false, stream_of(call)));
  }
  if (dual) return require_success(quantize_dual(job, plan.block, plan.dtype, plan.element, stream_of(call)));
  const auto launch = square ? quantize_square : quantize_column;
  require_success(launch(job, plan.block, plan.dtype, plan.element, vector, stream_of(call)));
}

std::uint64_t workspace_bytes(const mxcheck_call& call, int inputs) {
  check_call(call, inputs, inputs + 2, call.num_outputs);
  PlanJob job;
  const Extras extras = find_extras(call, inputs, true);
  const auto extent = [](const DLTensor& tensor) {
    if (tensor.ndim != 1 || tensor.shape == nullptr || tensor.shape[0] < 0)
      invalid("offsets or row index is no vector");
    return tensor.shape[0];
  };
  static constexpr std::int64_t kSome = 0;  // whatever is not null: only asked whether there is one
  if (extras.offsets != nullptr) job.experts = extent(*extras.offsets) - 1, job.offsets = &kSome;
  if (extras.index != nullptr) job.index = reinterpret_cast<const std::int32_t*>(&kSome);
  job.rows = call.policy->rows;
  constexpr std::int64_t kMost = std::int64_t{1} << 48;
  if (job.rows < 0 || job.rows > kMost || job.experts < 0 || job.experts > kMost) {
    invalid("policy.rows is " + std::to_string(job.rows) + " with " + std::to_string(job.experts) +
            " experts: must be 0 to 2^48");
  }
  return plan_bytes(job);
}

void run_quantize(const mxcheck_call& call) { quantize(call, QuantizeOperation::quantize); }
void run_quantize_dual(const mxcheck_call& call) { quantize(call, QuantizeOperation::quantize_dual); }

void run_dequantize(const mxcheck_call& call) {
  check_call(call, 2, 3, 1);
  const mxcheck_policy& policy = *call.policy;
  const Policy plan = read_policy(QuantizeOperation::dequantize, call.policy, call.outputs[0].dtype);
  const Checked codes = check_tensor("codes", call.inputs[0], kByteType, 2, Strides::contiguous);
  const Checked y = check_tensor("y", call.outputs[0], dl_type(plan.dtype), 2, Strides::contiguous);
  require_policy_shape(policy, codes.rows, codes.cols);
  require_shape("y", y, codes.rows, codes.cols);
  Plan rows(call, 2, codes.rows, codes.cols, 0, false);
  Checked scales;
  const ScalePlace place = rows.scales("scales", call.inputs[1], policy, plan.kind, plan.block, plan.tiled, 0, scales);
  require_disjoint(std::array{codes, scales, rows.tensors[0]}, std::array{y});

  DequantizeJob job;
  job.codes = static_cast<const std::uint8_t*>(codes.data), job.y = y.data;
  job.cols = codes.cols, job.columns = rows.columns;
  job.scales = static_cast<const std::uint8_t*>(scales.data), job.tiled = plan.tiled, job.words = place.words;
  const bool vector =
      codes.cols % 4 == 0 && is_aligned(codes.data, 4) && is_aligned(y.data, plan.dtype == Dtype::bf16 ? 8 : 16);
  job.rows = rows.make(call, stream_of(call));
  if (job.rows.tiles * job.columns == 0) return;
  require_success(dequantize(job, plan.kind, plan.block, plan.dtype, plan.element, vector, stream_of(call)));
}

void run_scale_layout(const mxcheck_call& call) {
  check_call(call, 1, 2, 1);
  const mxcheck_policy& policy = *call.policy;
  const Policy plan = read_policy(QuantizeOperation::scale_layout, call.policy, kByteType);
  if (policy.rows < 0 || policy.cols < 0) {
    invalid("policy says " + std::to_string(policy.rows) + " x " + std::to_string(policy.cols) + ": must be 0 or more");
  }
  Plan rows(call, 1, policy.rows, policy.cols, 0, false);
  Checked from;
  Checked to;
  rows.scales("input scales", call.inputs[0], policy, plan.kind, plan.block, !plan.tiled, 0, from);
  rows.scales("output scales", call.outputs[0], policy, plan.kind, plan.block, plan.tiled, 1, to);
  require_disjoint(std::array{from, rows.tensors[0]}, std::array{to});

  LayoutJob job;
  job.from = static_cast<const std::uint8_t*>(from.data), job.to = static_cast<std::uint8_t*>(to.data);
  job.to_tiled = plan.tiled, job.pad = policy.pad_byte;
  job.cols = policy.cols, job.columns = rows.columns;
  job.rows = rows.make(call, stream_of(call));
  if (job.rows.tiles * job.columns == 0) return;
  require_success(change_layout(job, plan.kind, plan.block, stream_of(call)));
}

void run_cast(const mxcheck_call& call) {
  check_call(call, 1, 1, 1);
  const Policy plan = read_policy(QuantizeOperation::cast, call.policy, call.inputs[0].dtype);
  const Checked x = check_tensor("x", call.inputs[0], dl_type(plan.dtype), 2, Strides::any);
  const Checked codes = check_tensor("codes", call.outputs[0], kByteType, 2, Strides::contiguous);
  require_policy_shape(*call.policy, x.rows, x.cols);
  require_shape("codes", codes, x.rows, x.cols);
  require_disjoint(std::array{x}, std::array{codes});
  if (codes.bytes == 0) return;
  require_success(cast({{x.data, x.stride, nullptr}, static_cast<std::uint8_t*>(codes.data), x.rows, x.cols},
                       plan.dtype, plan.element, stream_of(call)));
}

// --- the table -------------------------------------------------------------------------------------------------------

template <QuantizeOperation kOperation>
void check(const mxcheck_policy* policy, DLDataType type) {
  read_policy(kOperation, policy, type);
}

template <int kInputs>  // before offsets and row index
std::uint64_t workspace(const mxcheck_call& call) {
  return workspace_bytes(call, kInputs);
}

constexpr std::array kOperations{
    make_cuda_operation<check<QuantizeOperation::quantize>, run_quantize, workspace<1>>("quantize"),
    make_cuda_operation<check<QuantizeOperation::quantize_dual>, run_quantize_dual, workspace<1>>("quantize_dual"),
    make_cuda_operation<check<QuantizeOperation::dequantize>, run_dequantize, workspace<2>>("dequantize"),
    make_cuda_operation<check<QuantizeOperation::scale_layout>, run_scale_layout, workspace<1>>("scale_layout"),
    make_cuda_operation<check<QuantizeOperation::cast>, run_cast, workspace<1>>("cast"),
};

constexpr mxcheck_candidate_table kTable = make_table("sm90", MXCHECK_SM90_VERSION, kDLCUDA, kOperations);

}  // namespace
}  // namespace mxcheck_kernels::sm90

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  return &mxcheck_kernels::sm90::kTable;
}
