#include "kernels/cpu/quantize/arguments.h"

#include <array>
#include <cstring>
#include <vector>

#include "kernels/cpu/partition.h"
#include "kernels/cpu/quantize/quantize.h"
#include "kernels/cpu/quantize/scalar_cast.h"

namespace mxcheck_kernels::cpu {
namespace {

constexpr std::uint64_t kStreamBytes = std::uint64_t{4} << 20;  // outputs that no L2 cache holds go past the caches

// Tiles hold bytes that belong to no scale: those keep what is written here, before the threads start.
void fill_padding(const ScaleMap& map, const Checked& scales, std::uint8_t pad) {
  if (map.has_padding()) std::memset(scales.data, pad, scales.bytes);
}

std::uint8_t* bytes_of(const Checked& tensor) { return static_cast<std::uint8_t*>(tensor.data); }

void quantize(const mxcheck_call& call, QuantizeOperation operation) {
  const bool dual = operation == QuantizeOperation::quantize_dual;
  check_call(call, 1, 3, dual ? 4 : 2);
  check_options(call);
  const mxcheck_policy& policy = *call.policy;
  const QuantizePolicy plan = read_policy(operation, call.policy, call.inputs[0].dtype);
  const DLTensor* out = call.outputs;
  StridedX strided(call.inputs[0], dl_type(plan.dtype));
  const Checked& x = strided.tensor();
  require_policy_shape(policy, x.rows, x.cols);
  const Offsets offsets = check_offsets(call, 1, x.rows);

  const int rank = scale_rank(plan.layout);
  const ScaleMap map(plan.layout, plan.block, {x.rows, x.cols}, offsets.values);
  const Checked codes = check_tensor(dual ? "row codes" : "codes", out[0], kByteType, 2, Strides::contiguous);
  const Checked scales = check_tensor(dual ? "row scales" : "scales", out[1], kByteType, rank, Strides::contiguous);
  require_shape(dual ? "row codes" : "codes", codes, x.rows, x.cols);
  require_scales(dual ? "row scales" : "scales", scales, map, plan.layout);
  const std::int32_t threads = policy.threads;
  const auto set_x = [&](QuantizeJob& job) {  // once all has been checked
    const Checked in_rows = strided.rows(threads);
    job.x = in_rows.data, job.stride = in_rows.stride;
  };
  QuantizeJob job{plan.element, plan.rule,
                  plan.dtype,   nullptr,
                  x.cols,       0,
                  plan.block,   {bytes_of(codes), bytes_of(scales), &map},
                  {},           codes.bytes >= kStreamBytes};
  const std::int64_t bytes = static_cast<std::int64_t>(codes.bytes);
  if (!dual) {
    require_disjoint(std::array{x, offsets.tensor}, std::array{codes, scales});
    set_x(job);
    const std::int64_t parts = part_count(map.bands(), bytes, threads);
    fill_padding(map, scales, policy.pad_byte);
    for_each_part(map.bands(), parts, [&](std::int64_t begin, std::int64_t end) { quantize_bands(job, begin, end); });
    return;
  }
  const Shape column_block{plan.block.cols, 1};
  const ScaleMap column_map(plan.layout, column_block, {x.rows, x.cols}, offsets.values);
  const Checked column_codes = check_tensor("column codes", out[2], kByteType, 2, Strides::contiguous);
  const Checked column_scales = check_tensor("column scales", out[3], kByteType, rank, Strides::contiguous);
  require_shape("column codes", column_codes, x.rows, x.cols);
  require_scales("column scales", column_scales, column_map, plan.layout);
  require_disjoint(std::array{x, offsets.tensor}, std::array{codes, scales, column_codes, column_scales});
  set_x(job);
  job.block = column_block;
  job.rows_out = job.out;
  job.out = {bytes_of(column_codes), bytes_of(column_scales), &column_map};
  const std::int64_t parts = part_count(column_map.bands(), bytes, threads);
  fill_padding(map, scales, policy.pad_byte);
  fill_padding(column_map, column_scales, policy.pad_byte);
  for_each_part(column_map.bands(), parts,
                [&](std::int64_t begin, std::int64_t end) { quantize_bands(job, begin, end); });
}

}  // namespace

void run_quantize(const mxcheck_call& call) { quantize(call, QuantizeOperation::quantize); }
void run_quantize_dual(const mxcheck_call& call) { quantize(call, QuantizeOperation::quantize_dual); }

void run_dequantize(const mxcheck_call& call) {
  check_call(call, 2, 3, 1);
  const mxcheck_policy& policy = *call.policy;
  const QuantizePolicy plan = read_policy(QuantizeOperation::dequantize, call.policy, call.outputs[0].dtype);
  const Checked codes = check_tensor("codes", call.inputs[0], kByteType, 2, Strides::contiguous);
  const Checked scales =
      check_tensor("scales", call.inputs[1], kByteType, scale_rank(plan.layout), Strides::contiguous);
  const Checked y = check_tensor("y", call.outputs[0], dl_type(plan.dtype), 2, Strides::contiguous);
  require_policy_shape(policy, codes.rows, codes.cols);
  require_shape("y", y, codes.rows, codes.cols);
  const Offsets offsets = check_offsets(call, 2, codes.rows);
  const ScaleMap map(plan.layout, plan.block, {codes.rows, codes.cols}, offsets.values);
  require_scales("scales", scales, map, plan.layout);
  require_disjoint(std::array{codes, scales, offsets.tensor}, std::array{y});

  const DequantizeJob job{plan.element, plan.dtype, bytes_of(codes), bytes_of(scales),       &map,
                          codes.cols,   plan.block, y.data,          y.bytes >= kStreamBytes};
  const std::int64_t parts = part_count(map.bands(), static_cast<std::int64_t>(y.bytes), policy.threads);
  for_each_part(map.bands(), parts, [&](std::int64_t begin, std::int64_t end) { dequantize_bands(job, begin, end); });
}

void run_scale_layout(const mxcheck_call& call) {
  check_call(call, 1, 2, 1);
  const mxcheck_policy& policy = *call.policy;
  const QuantizePolicy plan = read_policy(QuantizeOperation::scale_layout, call.policy, kByteType);
  if (policy.rows < 0 || policy.cols < 0) {
    invalid("policy says " + std::to_string(policy.rows) + " x " + std::to_string(policy.cols) + ": must be 0 or more");
  }
  const mxcheck_layout from_layout = plan.layout == MXCHECK_COMPACT ? MXCHECK_TCGEN05 : MXCHECK_COMPACT;
  const Checked in =
      check_tensor("input scales", call.inputs[0], kByteType, scale_rank(from_layout), Strides::contiguous);
  const Checked out =
      check_tensor("output scales", call.outputs[0], kByteType, scale_rank(plan.layout), Strides::contiguous);
  const Offsets offsets = check_offsets(call, 1, policy.rows);
  const Shape matrix{policy.rows, policy.cols};
  const ScaleMap from(from_layout, plan.block, matrix, offsets.values);
  const ScaleMap to(plan.layout, plan.block, matrix, offsets.values);
  require_scales("input scales", in, from, from_layout);
  require_scales("output scales", out, to, plan.layout);
  require_disjoint(std::array{in, offsets.tensor}, std::array{out});

  const std::int64_t parts = part_count(to.bands(), static_cast<std::int64_t>(out.bytes), policy.threads);
  fill_padding(to, out, policy.pad_byte);
  const bool to_tiles = plan.layout == MXCHECK_TCGEN05;
  const ScaleLayoutJob job{&from, bytes_of(in), &to, bytes_of(out), to_tiles, policy.pad_byte};
  for_each_part(to.bands(), parts, [&](std::int64_t begin, std::int64_t end) { change_layout(job, begin, end); });
}

namespace {

template <class F, class T>
void cast_rows(const Checked& x, const Checked& codes, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    const T* from = static_cast<const T*>(x.data) + i * x.stride;
    std::uint8_t* to = bytes_of(codes) + i * codes.cols;
    for (std::int64_t j = 0; j < x.cols; ++j) to[j] = cast_element<F>(from[j]);
  }
}

}  // namespace

// No scale is a scale of 1. One element at a time: for checking casts, not for speed.
void run_cast(const mxcheck_call& call) {
  check_call(call, 1, 2, 1);
  const QuantizePolicy plan = read_policy(QuantizeOperation::cast, call.policy, call.inputs[0].dtype);
  const bool is_fp64 = same(call.inputs[0].dtype, kFp64Type);
  StridedX strided(call.inputs[0], is_fp64 ? kFp64Type : dl_type(plan.dtype));
  const Checked& x = strided.tensor();
  const Checked codes = check_tensor("codes", call.outputs[0], kByteType, 2, Strides::contiguous);
  require_policy_shape(*call.policy, x.rows, x.cols);
  require_shape("codes", codes, x.rows, x.cols);
  if (call.num_inputs != 1) invalid("2 inputs: a cast has no offsets");
  require_disjoint(std::array{x}, std::array{codes});
  if (codes.bytes == 0) return;
  const Checked in_rows = strided.rows(call.policy->threads);
  const std::int64_t parts = part_count(x.rows, static_cast<std::int64_t>(codes.bytes), call.policy->threads);
  for_each_part(x.rows, parts, [&](std::int64_t begin, std::int64_t end) {
    const bool e4m3 = plan.element == Element::e4m3;
    if (is_fp64) {
      (e4m3 ? cast_rows<E4m3, std::uint64_t> : cast_rows<E5m2, std::uint64_t>)(in_rows, codes, begin, end);
    } else if (plan.dtype == Dtype::bf16) {
      (e4m3 ? cast_rows<E4m3, std::uint16_t> : cast_rows<E5m2, std::uint16_t>)(in_rows, codes, begin, end);
    } else {
      (e4m3 ? cast_rows<E4m3, std::uint32_t> : cast_rows<E5m2, std::uint32_t>)(in_rows, codes, begin, end);
    }
  });
}

}  // namespace mxcheck_kernels::cpu
