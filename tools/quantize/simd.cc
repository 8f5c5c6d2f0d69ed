#include "tools/quantize/simd.h"

#include <array>
#include <string>
#include <string_view>

#include "kernels/candidate.h"
#include "numerics/error.h"
#include "numerics/scale/recipe_words.h"

namespace mxcheck {
namespace {

const mxcheck_operation& operation() {
  const mxcheck_candidate_table& table = *mxcheck_candidate();
  for (std::int32_t i = 0; i < table.num_operations; ++i) {
    if (std::string_view(table.operations[i].name) == "quantize") return table.operations[i];
  }
  throw Error(ErrorKind::internal, "the SIMD library has no operation quantize");
}

DLDataType type_of(Format source) {
  if (source == Format::fp32) return {kDLFloat, 32, 1};
  return {static_cast<std::uint8_t>(source == Format::bf16 ? kDLBfloat : kDLFloat), 16, 1};
}

mxcheck_policy policy_of(Format element, BlockShape block, const Recipe& recipe) {
  mxcheck_policy p{};
  p.size = sizeof(p);
  p.layout = MXCHECK_COMPACT;
  p.format = spec(element).name.data();
  p.recipe = recipe.name.c_str();
  p.block_rows = block.rows, p.block_cols = block.cols;
  return p;
}

DLTensor tensor_of(const void* data, DLDataType type, std::int64_t* shape, std::int32_t dimensions) {
  return {const_cast<void*>(data), {kDLCPU, 0}, dimensions, type, shape, nullptr, 0};
}

}  // namespace

bool offers_simd(Format source, Format element, BlockShape block, const Recipe& recipe) {
  if (!recipe.has_e8m0_scales() || describe(recipe) != describe(recipe_named(recipe.name))) return false;
  const mxcheck_policy policy = policy_of(element, block, recipe);
  return operation().supports(&policy, type_of(source)) == MXCHECK_OK;
}

void simd_quantize(const MatrixView& panel, std::span<const std::int64_t> offsets, const Recipe& recipe, Quantized& q) {
  q.rows = panel.rows, q.cols = panel.cols;
  q.scale_rows = count_scale_rows(panel.rows, q.block.rows, offsets);
  q.scale_cols = q.block.cols == 0 ? 1 : (panel.cols + q.block.cols - 1) / q.block.cols;
  q.codes.resize(static_cast<std::size_t>(q.rows * q.cols));
  q.scales.resize(static_cast<std::size_t>(q.scale_rows * q.scale_cols));

  mxcheck_policy policy = policy_of(q.element, q.block, recipe);
  policy.rows = panel.rows, policy.cols = panel.cols;
  std::array<std::int64_t, 2> shape{panel.rows, panel.cols};
  std::array<std::int64_t, 2> scale_shape{q.scale_rows, q.scale_cols};
  std::array<std::int64_t, 1> count{static_cast<std::int64_t>(offsets.size())};
  const DLDataType bytes{kDLUInt, 8, 1};
  const std::array inputs{tensor_of(panel.data, type_of(panel.dtype), shape.data(), 2),
                          tensor_of(offsets.data(), {kDLInt, 64, 1}, count.data(), 1)};
  const std::array outputs{tensor_of(q.codes.data(), bytes, shape.data(), 2),
                           tensor_of(q.scales.data(), bytes, scale_shape.data(), 2)};
  std::array<char, 256> message{};
  mxcheck_call call{};
  call.size = sizeof(call);
  call.policy = &policy;
  call.num_inputs = offsets.empty() ? 1 : 2;
  call.inputs = inputs.data();
  call.num_outputs = 2;
  call.outputs = outputs.data();
  call.message = message.data(), call.message_bytes = message.size();
  if (operation().run(&call) == MXCHECK_OK) return;
  throw Error(ErrorKind::internal, std::string("the SIMD library refused to quantize a panel: ") + message.data());
}

}  // namespace mxcheck
