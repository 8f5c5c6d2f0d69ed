// libmxcheck_sm90_nvfp4.so: the table of its operations, and how a call is checked and enqueued.

#include "kernels/candidate.h"

#include <array>
#include <cstdint>
#include <string>

#include "kernels/candidate_nvfp4.h"
#include "kernels/common/boundary.h"
#include "kernels/common/nvfp4/options.h"
#include "kernels/common/nvfp4/policy.h"
#include "kernels/common/refusal.h"
#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/nvfp4/nvfp4.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr std::array kRecipes{
    OfferedNvfp4Recipe{"nvfp4", Nvfp4Recipe::exact}, OfferedNvfp4Recipe{"nvfp4_te", Nvfp4Recipe::te},
    OfferedNvfp4Recipe{"nvfp4_te_2_8", Nvfp4Recipe::te_2_8}, OfferedNvfp4Recipe{"nvfp4_vllm", Nvfp4Recipe::vllm}};

constexpr std::array kGroups{16};
constexpr OfferedNvfp4Options kOptions{.groups = kGroups, .both = false, .bytes = true};

void check_policy(const mxcheck_policy* policy, DLDataType type) { read_nvfp4_policy(policy, type, kRecipes, false); }
void check_quantize(const mxcheck_policy* policy, DLDataType type) {
  check_policy(policy, type);
  read_nvfp4_options(policy, kOptions);
}

std::int64_t divide_up(std::int64_t value, std::int64_t by) { return value / by + (value % by != 0 ? 1 : 0); }

// The scales of a matrix.
void require_scales(const Checked& scales, const Nvfp4Policy& plan, const Checked& of) {
  const std::int64_t cols = divide_up(of.cols, 16);
  if (!plan.tiled) return require_shape("scales", scales, divide_up(of.rows, plan.block_rows), cols);
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(divide_up(of.rows, 128) * 512, divide_up(cols, 4), &bytes))
    invalid("the number of scale bytes overflows 63 bits");
  require_shape("scales", scales, 1, bytes);
}

// Offsets are the input after the first `inputs`.
void refuse_offsets(const mxcheck_call& call, int inputs, const char* verb) {
  if (call.num_inputs <= inputs) return;
  check_tensor("offsets", call.inputs[inputs], kInt64Type, 1, Strides::contiguous);
  unsupported("offsets are not offered: " + std::string(verb) + " one expert after the other");
}

void run_quantize_nvfp4(const mxcheck_call& call) {
  check_call(call, 2, 3, 2, ", x and tensor_scale");
  const mxcheck_policy& policy = *call.policy;
  const Nvfp4Policy plan = read_nvfp4_policy(call.policy, call.inputs[0].dtype, kRecipes, false);
  const Nvfp4Options options = read_nvfp4_options(call.policy, kOptions);
  const Checked x = check_tensor("x", call.inputs[0], dl_type(plan.values), 2, Strides::any);
  require_policy_shape(policy, x.rows, x.cols);
  const Checked tensor_scale = check_tensor("tensor_scale", call.inputs[1], kFp32Type, 1, Strides::contiguous);
  require_shape("tensor_scale", tensor_scale, 1, 1);
  refuse_offsets(call, 2, "quantize");
  const Checked codes = check_tensor("codes", call.outputs[0], kByteType, 2, Strides::contiguous);
  require_shape("codes", codes, x.rows, x.cols / 2 + x.cols % 2);
  const Checked scales = check_tensor("scales", call.outputs[1], kByteType, plan.tiled ? 1 : 2, Strides::contiguous);
  require_scales(scales, plan, x);
  require_disjoint(std::array{x, tensor_scale}, std::array{codes, scales});
  if (codes.bytes == 0) return;

  Nvfp4Job job;
  job.x = x.data, job.stride = x.stride, job.rows = x.rows, job.cols = x.cols;
  job.tensor_scale = static_cast<const float*>(tensor_scale.data);
  job.codes = static_cast<std::uint8_t*>(codes.data), job.scales = static_cast<std::uint8_t*>(scales.data);
  job.pad = policy.pad_byte, job.tiled = plan.tiled, job.recipe = plan.recipe;
  job.words = is_aligned(scales.data, 4) && (plan.tiled || divide_up(x.cols, 16) % 4 == 0);
  const std::int64_t vector_stride = plan.values == Nvfp4Values::bf16 ? 8 : 4;
  const bool rows_aligned = x.rows <= 1 || x.stride % vector_stride == 0;
  const bool vector = x.cols % 8 == 0 && rows_aligned && is_aligned(x.data, 16) && is_aligned(codes.data, 4);
  Nvfp4OptionJob asked;
  asked.stochastic = options.stochastic, asked.words = options.words;
  asked.transforms = options.hadamard != 0, asked.to_bf16 = !options.result_is_fp32, asked.signs = options.signs[0];
  require_success(quantize_nvfp4(job, asked, plan.block_rows, plan.values, vector, stream_of(call)));
}

void run_dequantize_nvfp4(const mxcheck_call& call) {
  check_call(call, 3, 4, 1, ", codes, scales and tensor_scale");
  const Nvfp4Policy plan = read_nvfp4_policy(call.policy, call.outputs[0].dtype, kRecipes, false);
  const Checked y = check_tensor("y", call.outputs[0], dl_type(plan.values), 2, Strides::contiguous);
  require_policy_shape(*call.policy, y.rows, y.cols);
  const Checked codes = check_tensor("codes", call.inputs[0], kByteType, 2, Strides::contiguous);
  require_shape("codes", codes, y.rows, y.cols / 2 + y.cols % 2);
  const Checked scales = check_tensor("scales", call.inputs[1], kByteType, plan.tiled ? 1 : 2, Strides::contiguous);
  refuse_offsets(call, 3, "dequantize");  // with them scales have other shapes
  require_scales(scales, plan, y);
  const Checked tensor_scale = check_tensor("tensor_scale", call.inputs[2], kFp32Type, 1, Strides::contiguous);
  require_shape("tensor_scale", tensor_scale, 1, 1);
  require_disjoint(std::array{codes, scales, tensor_scale}, std::array{y});
  if (y.bytes == 0) return;

  Nvfp4ValuesJob job;
  job.codes = static_cast<const std::uint8_t*>(codes.data), job.scales = static_cast<const std::uint8_t*>(scales.data);
  job.tensor_scale = static_cast<const float*>(tensor_scale.data), job.y = y.data;
  job.rows = y.rows, job.cols = y.cols, job.block_rows = plan.block_rows, job.tiled = plan.tiled;
  job.recipe = plan.recipe;
  const std::int64_t elements = plan.values == Nvfp4Values::bf16 ? 8 : 4;  // of 16 bytes
  const bool vector = y.cols % elements == 0 && is_aligned(y.data, 16) &&
                      is_aligned(codes.data, static_cast<std::uintptr_t>(elements / 2));
  require_success(dequantize_nvfp4(job, plan.values, vector, stream_of(call)));
}

template <int kLeast, int kMost>
std::uint64_t no_workspace(const mxcheck_call& call) {
  check_call(call, kLeast, kMost, call.num_outputs);
  return 0;
}

constexpr std::array kOperations{
    make_cuda_operation<check_quantize, run_quantize_nvfp4, no_workspace<2, 3>>("quantize_nvfp4",
                                                                                MXCHECK_NVFP4_OPTIONS_CONTRACT),
    make_cuda_operation<check_policy, run_dequantize_nvfp4, no_workspace<3, 4>>("dequantize_nvfp4")};

constexpr mxcheck_candidate_table kTable = make_table("sm90_nvfp4", MXCHECK_SM90_VERSION, kDLCUDA, kOperations);

}  // namespace
}  // namespace mxcheck_kernels::sm90

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  return &mxcheck_kernels::sm90::kTable;
}
