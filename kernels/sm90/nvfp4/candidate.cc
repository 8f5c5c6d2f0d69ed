// libmxcheck_sm90_nvfp4.so: the table of its operations, and how a call is checked and enqueued.

#include "kernels/candidate.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "kernels/candidate_nvfp4.h"
#include "kernels/common/boundary.h"
#include "kernels/common/nvfp4/options.h"
#include "kernels/common/nvfp4/policy.h"
#include "kernels/common/refusal.h"
#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/nvfp4/gather.h"
#include "kernels/sm90/nvfp4/groups.h"
#include "kernels/sm90/nvfp4/nvfp4.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr std::array kRecipes{
    OfferedNvfp4Recipe{"nvfp4", Nvfp4Recipe::exact}, OfferedNvfp4Recipe{"nvfp4_te", Nvfp4Recipe::te},
    OfferedNvfp4Recipe{"nvfp4_te_2_8", Nvfp4Recipe::te_2_8}, OfferedNvfp4Recipe{"nvfp4_vllm", Nvfp4Recipe::vllm},
    OfferedNvfp4Recipe{"nvfp4_46", Nvfp4Recipe::four_six}};

constexpr std::array kGroups{16, 32, 64, 128};
constexpr OfferedNvfp4Options kOptions{.groups = kGroups, .both = true, .bytes = true};

void check_policy(const mxcheck_policy* policy, DLDataType type) { read_nvfp4_policy(policy, type, kRecipes, false); }

Nvfp4Options read_options_of(const mxcheck_policy* policy, const Nvfp4Policy& plan) {
  const Nvfp4Options options = read_nvfp4_options(policy, kOptions);
  if (options.stochastic && plan.recipe == Nvfp4Recipe::four_six)
    unsupported(
        "stochastic rounding is not offered for the recipe nvfp4_46, which chooses between roundings to nearest");
  return options;
}

void check_quantize(const mxcheck_policy* policy, DLDataType type) {
  read_options_of(policy, read_nvfp4_policy(policy, type, kRecipes, false));
}

// Offsets and a row index of a call, if it has some, and what the device must check of them.
struct Groups {
  Checked tensor;
  Checked index_tensor;
  GroupsJob job;  // of a call without them offsets are null, and there is one expert
  const std::int32_t* index = nullptr;
  std::int64_t source_rows = 0;

  Groups() = default;
  Groups(const mxcheck_call& call, const Extras& extras, const Nvfp4Policy& plan, std::int64_t rows,
         std::int64_t cols) {
    job.experts = 1, job.rows = rows, job.cols = cols, job.tiled = plan.tiled, job.report = report_of(call);
    if (extras.index != nullptr) {
      index_tensor = check_tensor("row_index", *extras.index, kInt32Type, 1, Strides::contiguous);
      require_shape("row_index", index_tensor, 1, rows);
      if (rows != 0) index = static_cast<const std::int32_t*>(index_tensor.data);
    }
    if (extras.offsets == nullptr) return;
    tensor = check_tensor("offsets", *extras.offsets, kInt64Type, 1, Strides::contiguous);
    if (tensor.cols == 0) invalid("offsets is empty: must hold one value more than there are experts");
    if (tensor.cols == 1 && rows != 0) invalid("offsets holds one value, no expert, and there are rows");
    job.offsets = static_cast<const std::int64_t*>(tensor.data), job.experts = tensor.cols - 1;
  }
  [[nodiscard]] bool are_there() const { return job.offsets != nullptr; }

  GroupTable make(const mxcheck_call& call) const {
    require_workspace(call, table_bytes(job));
    GroupTable table;
    require_success(index != nullptr ? make_gather({job, index, source_rows}, call.workspace, table, stream_of(call))
                                     : make_groups(job, call.workspace, table, stream_of(call)));
    return table;
  }
};

// The scales of a matrix. How many experts have only the device knows, which checks it.
void require_scales(const char* name, const Checked& scales, const Nvfp4Policy& plan, std::int64_t rows,
                    std::int64_t cols, Groups& groups) {
  const std::int64_t blocks = divide_up(cols, 16);
  if (groups.are_there() && (plan.tiled || plan.block_rows != 1)) {
    if (cols != 0) groups.job.claimed = plan.tiled ? scales.cols : scales.rows;
    return require_shape(name, scales, scales.rows, plan.tiled ? cols == 0 ? 0 : scales.cols : blocks);
  }
  if (!plan.tiled) return require_shape(name, scales, divide_up(rows, plan.block_rows), blocks);
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(divide_up(rows, 128) * 512, divide_up(blocks, 4), &bytes))
    invalid("the number of scale bytes overflows 63 bits");
  require_shape(name, scales, 1, bytes);
}

// One direction of a call: its inputs and outputs, and the shape of its matrix.
struct Direction {
  Checked tensor_scale;
  Checked codes;
  Checked scales;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};

// The names and places of a direction's tensors in a call.
struct DirectionArguments {
  const char* tensor_scale;
  const char* codes;
  const char* scales;
  int input;   // tensor_scale
  int output;  // codes; scales follow
};
constexpr DirectionArguments kRowArguments{"tensor_scale", "codes", "scales", 1, 0};
constexpr DirectionArguments kColumnArguments{"column_tensor_scale", "column codes", "column scales", 2, 2};

Direction check_direction(const mxcheck_call& call, const DirectionArguments& a, const Nvfp4Policy& plan,
                          std::int64_t rows, std::int64_t cols, Groups& groups) {
  Direction d{.rows = rows, .cols = cols};
  d.tensor_scale = check_tensor(a.tensor_scale, call.inputs[a.input], kFp32Type, 1, Strides::contiguous);
  require_shape(a.tensor_scale, d.tensor_scale, 1, 1);
  d.codes = check_tensor(a.codes, call.outputs[a.output], kByteType, 2, Strides::contiguous);
  require_shape(a.codes, d.codes, rows, cols / 2 + cols % 2);
  d.scales = check_tensor(a.scales, call.outputs[a.output + 1], kByteType, plan.tiled ? 1 : 2, Strides::contiguous);
  require_scales(a.scales, d.scales, plan, rows, cols, groups);
  return d;
}

// has_vectors: x may be read by vectors.
Nvfp4Job job_of(const mxcheck_policy& policy, const Nvfp4Policy& plan, const Direction& d, bool has_vectors) {
  Nvfp4Job job;
  job.rows = d.rows, job.cols = d.cols, job.blocks = divide_up(d.cols, 16);
  job.tensor_scale = static_cast<const float*>(d.tensor_scale.data);
  job.codes = static_cast<std::uint8_t*>(d.codes.data), job.scales = static_cast<std::uint8_t*>(d.scales.data);
  job.pad = policy.pad_byte, job.tiled = plan.tiled, job.recipe = plan.recipe;
  job.words = is_aligned(d.scales.data, 4) && (plan.tiled || job.blocks % 4 == 0);
  job.vector = has_vectors && d.cols % 8 == 0 && is_aligned(d.codes.data, 4);
  job.wide = job.vector && d.cols % 16 == 0 && is_aligned(d.codes.data, 8);
  return job;
}

Nvfp4OptionJob option_job_of(const Nvfp4Options& options) {
  Nvfp4OptionJob job;
  job.stochastic = options.stochastic, job.words = options.words;
  job.group = options.hadamard, job.to_bf16 = !options.result_is_fp32;
  std::copy_n(options.signs, 4, job.signs);
  std::copy_n(options.column_counter, 2, job.column_counter);
  return job;
}

void run_quantize_nvfp4(const mxcheck_call& call) {
  // The number of tensors is that of the directions, and the type that of x.
  if (read_nvfp4_options(call.policy, kOptions).both) {
    check_call(call, 3, 3, 4, ", x, tensor_scale and column_tensor_scale");
  } else {
    check_call(call, 2, 4, 2, ", x, tensor_scale and, optionally, offsets and a row index");
  }
  const mxcheck_policy& policy = *call.policy;
  const Nvfp4Policy plan = read_nvfp4_policy(call.policy, call.inputs[0].dtype, kRecipes, false);
  const Nvfp4Options options = read_options_of(call.policy, plan);
  const Checked x = check_tensor("x", call.inputs[0], dl_type(plan.values), 2, Strides::any);
  const Extras extras = options.both ? Extras{} : find_extras(call, 2, true);
  if (policy.rows < 0) invalid("policy.rows is " + std::to_string(policy.rows) + ": must be 0 or more");
  require_policy_shape(policy, extras.index != nullptr ? policy.rows : x.rows, x.cols);
  Groups groups{call, extras, plan, policy.rows, x.cols};
  groups.source_rows = x.rows;
  const Direction rows = check_direction(call, kRowArguments, plan, policy.rows, x.cols, groups);
  const std::int64_t vector_stride = plan.values == Nvfp4Values::bf16 ? 8 : 4;
  const bool has_vectors = (x.rows <= 1 || x.stride % vector_stride == 0) && is_aligned(x.data, 16);
  Nvfp4Job job = job_of(policy, plan, rows, has_vectors);
  job.x = x.data, job.stride = x.stride;
  const Nvfp4OptionJob asked = option_job_of(options);
  if (!options.both) {
    require_disjoint(std::array{x, rows.tensor_scale, groups.tensor, groups.index_tensor},
                     std::array{rows.codes, rows.scales});
    if (groups.index != nullptr) {
      const GroupTable table = groups.make(call);
      return require_success(
          quantize_nvfp4_gathered(job, asked, plan.block_rows, plan.values, table, groups.index, stream_of(call)));
    }
    if (groups.are_there()) {
      const GroupTable table = groups.make(call);
      return require_success(quantize_nvfp4_groups(job, asked, plan.block_rows, plan.values, table, stream_of(call)));
    }
    if (rows.codes.bytes == 0) return;
    return require_success(quantize_nvfp4(job, asked, plan.block_rows, plan.values, stream_of(call)));
  }
  const Direction columns = check_direction(call, kColumnArguments, plan, x.cols, x.rows, groups);
  require_disjoint(std::array{x, rows.tensor_scale, columns.tensor_scale},
                   std::array{rows.codes, rows.scales, columns.codes, columns.scales});
  if (rows.codes.bytes == 0) return;
  const Nvfp4Job column_job = job_of(policy, plan, columns, true);
  require_success(quantize_nvfp4_both(job, column_job, asked, plan.block_rows, plan.values, stream_of(call)));
}

void run_dequantize_nvfp4(const mxcheck_call& call) {
  check_call(call, 3, 4, 1, ", codes, scales, tensor_scale and, optionally, offsets");
  const Nvfp4Policy plan = read_nvfp4_policy(call.policy, call.outputs[0].dtype, kRecipes, false);
  const Checked y = check_tensor("y", call.outputs[0], dl_type(plan.values), 2, Strides::contiguous);
  require_policy_shape(*call.policy, y.rows, y.cols);
  const Checked codes = check_tensor("codes", call.inputs[0], kByteType, 2, Strides::contiguous);
  require_shape("codes", codes, y.rows, y.cols / 2 + y.cols % 2);
  const Checked scales = check_tensor("scales", call.inputs[1], kByteType, plan.tiled ? 1 : 2, Strides::contiguous);
  Groups groups(call, find_extras(call, 3, false), plan, y.rows, y.cols);
  require_scales("scales", scales, plan, y.rows, y.cols, groups);
  const Checked tensor_scale = check_tensor("tensor_scale", call.inputs[2], kFp32Type, 1, Strides::contiguous);
  require_shape("tensor_scale", tensor_scale, 1, 1);
  require_disjoint(std::array{codes, scales, tensor_scale, groups.tensor}, std::array{y});
  if (y.bytes == 0 && !groups.are_there()) return;

  Nvfp4ValuesJob job;
  job.codes = static_cast<const std::uint8_t*>(codes.data), job.scales = static_cast<const std::uint8_t*>(scales.data);
  job.tensor_scale = static_cast<const float*>(tensor_scale.data), job.y = y.data;
  job.rows = y.rows, job.cols = y.cols, job.block_rows = plan.block_rows, job.tiled = plan.tiled;
  job.recipe = plan.recipe;
  const std::int64_t elements = plan.values == Nvfp4Values::bf16 ? 8 : 4;  // of 16 bytes
  const bool vector = y.cols % elements == 0 && is_aligned(y.data, 16) &&
                      is_aligned(codes.data, static_cast<std::uintptr_t>(elements / 2));
  if (groups.are_there()) {
    const GroupTable table = groups.make(call);
    return require_success(dequantize_nvfp4_groups(job, plan.values, vector, table, stream_of(call)));
  }
  require_success(dequantize_nvfp4(job, plan.values, vector, stream_of(call)));
}

// Data of tensors may be null.
std::uint64_t workspace_of(const mxcheck_policy& policy, const Extras& extras) {
  if (extras.offsets == nullptr && extras.index == nullptr) return 0;
  GroupsJob job;
  job.rows = policy.rows, job.cols = policy.cols, job.experts = 1;
  if (extras.offsets != nullptr) {
    if (extras.offsets->ndim != 1 || extras.offsets->shape == nullptr) invalid("offsets is no vector");
    job.experts = extras.offsets->shape[0] - 1;
  }
  job.tiled = policy.layout == MXCHECK_TCGEN05;
  constexpr std::int64_t kMost = std::int64_t{1} << 48;
  if (job.rows < 0 || job.rows > kMost || job.experts < 0 || job.experts > kMost) {
    invalid("policy.rows is " + std::to_string(job.rows) + " with " + std::to_string(job.experts) +
            " experts: must be 0 to 2^48");
  }
  return table_bytes(job);
}

std::uint64_t workspace_of_quantize(const mxcheck_call& call) {
  check_call(call, 2, 4, call.num_outputs);
  return read_nvfp4_options(call.policy, kOptions).both ? 0 : workspace_of(*call.policy, find_extras(call, 2, true));
}

std::uint64_t workspace_of_dequantize(const mxcheck_call& call) {
  check_call(call, 3, 4, call.num_outputs);
  return workspace_of(*call.policy, find_extras(call, 3, false));
}

constexpr std::array kOperations{
    make_cuda_operation<check_quantize, run_quantize_nvfp4, workspace_of_quantize>("quantize_nvfp4",
                                                                                   MXCHECK_NVFP4_OPTIONS_CONTRACT),
    make_cuda_operation<check_policy, run_dequantize_nvfp4, workspace_of_dequantize>("dequantize_nvfp4")};

constexpr mxcheck_candidate_table kTable = make_table("sm90_nvfp4", MXCHECK_SM90_VERSION, kDLCUDA, kOperations);

}  // namespace
}  // namespace mxcheck_kernels::sm90

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  return &mxcheck_kernels::sm90::kTable;
}
