// libmxcheck_cpu_nvfp4.so: the table of its operations, and how a call is checked and done.

#include "kernels/candidate.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>

#include "kernels/candidate_nvfp4.h"
#include "kernels/common/boundary.h"
#include "kernels/common/nvfp4/options.h"
#include "kernels/common/nvfp4/policy.h"
#include "kernels/common/nvfp4/value.h"
#include "kernels/common/refusal.h"
#include "kernels/cpu/nvfp4/quantize.h"
#include "kernels/cpu/nvfp4/scalar_block.h"
#include "kernels/cpu/partition.h"
#include "kernels/cpu/quantize/arguments.h"
#include "kernels/cpu/quantize/scale_map.h"

namespace mxcheck_kernels::cpu {
namespace {

constexpr std::array kOfferedRecipes{
    OfferedNvfp4Recipe{"nvfp4", Nvfp4Recipe::exact}, OfferedNvfp4Recipe{"nvfp4_te", Nvfp4Recipe::te},
    OfferedNvfp4Recipe{"nvfp4_te_2_8", Nvfp4Recipe::te_2_8}, OfferedNvfp4Recipe{"nvfp4_vllm", Nvfp4Recipe::vllm},
    OfferedNvfp4Recipe{"nvfp4_46", Nvfp4Recipe::four_six}};

constexpr std::uint64_t kStreamBytes = std::uint64_t{4} << 20;  // codes that no L2 cache holds go past the caches

Nvfp4Policy read_policy_of(const mxcheck_policy* policy, DLDataType type, bool fp16_offered) {
  const Nvfp4Policy read = read_nvfp4_policy(policy, type, kOfferedRecipes, fp16_offered);
  if (policy->threads < 0) invalid("policy.threads is " + std::to_string(policy->threads) + ": must be 0 or more");
  return read;
}

void check_dequantize(const mxcheck_policy* policy, DLDataType type) { read_policy_of(policy, type, false); }

mxcheck_layout layout_of(const Nvfp4Policy& plan) { return plan.tiled ? MXCHECK_TCGEN05 : MXCHECK_COMPACT; }

// Recipes and types of x that options are offered for, and groups of the transform.
constexpr std::array<int, 2> kGroups{16, 128};
constexpr OfferedNvfp4Options kOptions{.groups = kGroups, .both = true, .bytes = true};

Nvfp4Options read_options_of(const mxcheck_policy* policy, const Nvfp4Policy& plan) {
  Nvfp4Options options = read_nvfp4_options(policy, kOptions);
  const bool is_offered = plan.recipe == Nvfp4Recipe::exact || plan.recipe == Nvfp4Recipe::te;
  if (options.any() && !is_offered) unsupported("options are offered for the recipes nvfp4 and nvfp4_te alone");
  if (options.any() && plan.values == Nvfp4Values::fp16) unsupported("options are offered for bf16 and fp32 alone");
  return options;
}

// One direction of a call: a matrix, and where its codes and scales go.
struct Direction {
  const Checked& x;
  const Checked& tensor_scale;
  const Checked& codes;
  const Checked& scales;
  bool transposed = false;
  const std::int32_t* index = nullptr;  // row i is row index[i] of x; null: row i
};

// The options of a direction; the rows of a call with both are not transformed.
Nvfp4Options options_of(const Nvfp4Options& options, bool transposed) {
  Nvfp4Options own = options;
  if (options.both && !transposed) own.hadamard = 0;
  if (transposed) std::copy(std::begin(options.column_counter), std::end(options.column_counter), own.words.counter);
  return own;
}

void quantize_direction(const mxcheck_policy& policy, const Nvfp4Policy& plan, const Nvfp4Options& options,
                        const Direction& d, const ScaleMap& map) {
  Nvfp4Job job{Levels(plan.recipe, *static_cast<const float*>(d.tensor_scale.data))};
  const Nvfp4Options own = options_of(options, d.transposed);
  job.values = plan.values, job.block_rows = plan.block_rows;
  job.x = d.x.data, job.cols = d.transposed ? d.x.rows : d.x.cols, job.index = d.index;
  job.stride = d.transposed ? 1 : d.x.stride, job.col_step = d.transposed ? d.x.stride : 1;
  job.codes = static_cast<std::uint8_t*>(d.codes.data), job.scales = static_cast<std::uint8_t*>(d.scales.data);
  job.map = &map, job.stream = d.codes.bytes >= kStreamBytes && !options.any() && d.index == nullptr;
  if (options.any()) job.options = &own, job.words = own.words;
  if (map.has_padding()) std::memset(d.scales.data, policy.pad_byte, d.scales.bytes);  // before the threads start
  const std::int64_t parts = part_count(map.bands(), static_cast<std::int64_t>(4 * d.codes.bytes), policy.threads);
  for_each_part(map.bands(), parts,
                [&](std::int64_t begin, std::int64_t end) { quantize_nvfp4_bands(job, begin, end); });
}

void check_quantize(const mxcheck_policy* policy, DLDataType type) {
  read_options_of(policy, read_policy_of(policy, type, true));
}

void run_quantize_nvfp4(const mxcheck_call& call) {
  const bool both = read_nvfp4_options(call.policy, kOptions).both;
  if (both) {
    check_call(call, 3, 3, 4, ", x, tensor_scale and column_tensor_scale");
  } else {
    check_call(call, 2, 4, 2, ", x, tensor_scale and, optionally, offsets and a row index");
  }
  const mxcheck_policy& policy = *call.policy;
  const Nvfp4Policy plan = read_policy_of(call.policy, call.inputs[0].dtype, true);
  const Nvfp4Options options = read_options_of(call.policy, plan);
  const Checked x = check_tensor("x", call.inputs[0], dl_type(plan.values), 2, Strides::any);
  const Extras extras = find_extras(call, both ? 3 : 2);
  const std::int64_t rows = extras.index != nullptr ? policy.rows : x.rows;
  require_policy_shape(policy, rows, x.cols);
  const Checked tensor_scale = check_tensor("tensor_scale", call.inputs[1], kFp32Type, 1, Strides::contiguous);
  require_shape("tensor_scale", tensor_scale, 1, 1);
  const mxcheck_layout layout = layout_of(plan);
  const RowIndex index = check_row_index(extras.index, rows, x.rows);
  const Offsets offsets = check_offsets(extras.offsets, rows);
  const ScaleMap map(layout, {plan.block_rows, kBlockCols}, {rows, x.cols}, offsets.values);
  const Checked codes = check_tensor("codes", call.outputs[0], kByteType, 2, Strides::contiguous);
  require_shape("codes", codes, rows, x.cols / 2 + x.cols % 2);
  const Checked scales = check_tensor("scales", call.outputs[1], kByteType, scale_rank(layout), Strides::contiguous);
  require_scales("scales", scales, map, layout);
  if (!both) {
    require_disjoint(std::array{x, tensor_scale, offsets.tensor, index.tensor}, std::array{codes, scales});
    return quantize_direction(policy, plan, options, {x, tensor_scale, codes, scales, false, index.values}, map);
  }
  const Checked column_scale = check_tensor("column_tensor_scale", call.inputs[2], kFp32Type, 1, Strides::contiguous);
  require_shape("column_tensor_scale", column_scale, 1, 1);
  const ScaleMap column_map(layout, {plan.block_rows, kBlockCols}, {x.cols, x.rows}, {});
  const Checked column_codes = check_tensor("column codes", call.outputs[2], kByteType, 2, Strides::contiguous);
  require_shape("column codes", column_codes, x.cols, x.rows / 2 + x.rows % 2);
  const Checked column_scales =
      check_tensor("column scales", call.outputs[3], kByteType, scale_rank(layout), Strides::contiguous);
  require_scales("column scales", column_scales, column_map, layout);
  require_disjoint(std::array{x, tensor_scale, column_scale}, std::array{codes, scales, column_codes, column_scales});
  quantize_direction(policy, plan, options, {x, tensor_scale, codes, scales}, map);
  quantize_direction(policy, plan, options, {x, column_scale, column_codes, column_scales, true}, column_map);
}

void run_dequantize_nvfp4(const mxcheck_call& call) {
  check_call(call, 3, 4, 1, ", codes, scales, tensor_scale and, optionally, offsets");
  const mxcheck_policy& policy = *call.policy;
  const Nvfp4Policy plan = read_policy_of(call.policy, call.outputs[0].dtype, false);
  const Checked y = check_tensor("y", call.outputs[0], dl_type(plan.values), 2, Strides::contiguous);
  require_policy_shape(policy, y.rows, y.cols);
  const Checked codes = check_tensor("codes", call.inputs[0], kByteType, 2, Strides::contiguous);
  require_shape("codes", codes, y.rows, y.cols / 2 + y.cols % 2);
  const mxcheck_layout layout = layout_of(plan);
  const Checked scales = check_tensor("scales", call.inputs[1], kByteType, scale_rank(layout), Strides::contiguous);
  const Checked tensor_scale = check_tensor("tensor_scale", call.inputs[2], kFp32Type, 1, Strides::contiguous);
  require_shape("tensor_scale", tensor_scale, 1, 1);
  const Offsets offsets = check_offsets(call, 3, y.rows);
  const ScaleMap map(layout, {plan.block_rows, kBlockCols}, {y.rows, y.cols}, offsets.values);
  require_scales("scales", scales, map, layout);
  require_disjoint(std::array{codes, scales, tensor_scale, offsets.tensor}, std::array{y});

  Nvfp4ValuesJob job;
  job.scale = nvfp4_tensor_scale(plan.recipe, static_cast<const float*>(tensor_scale.data)[0]);
  job.values = plan.values, job.cols = y.cols, job.map = &map;
  job.codes = static_cast<const std::uint8_t*>(codes.data), job.scales = static_cast<const std::uint8_t*>(scales.data);
  job.y = y.data, job.stream = y.bytes >= kStreamBytes;
  const std::int64_t parts = part_count(map.bands(), static_cast<std::int64_t>(y.bytes), policy.threads);
  for_each_part(map.bands(), parts,
                [&](std::int64_t begin, std::int64_t end) { dequantize_nvfp4_bands(job, begin, end); });
}

constexpr std::array kNvfp4Operations{
    make_operation<check_quantize, run_quantize_nvfp4>("quantize_nvfp4", MXCHECK_NVFP4_OPTIONS_CONTRACT),
    make_operation<check_dequantize, run_dequantize_nvfp4>("dequantize_nvfp4")};

constexpr mxcheck_candidate_table kNvfp4Table = make_table("cpu_nvfp4", MXCHECK_CPU_VERSION, kDLCPU, kNvfp4Operations);

}  // namespace
}  // namespace mxcheck_kernels::cpu

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  return &mxcheck_kernels::cpu::kNvfp4Table;
}
