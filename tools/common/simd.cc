#include "tools/common/simd.h"

#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "kernels/candidate.h"
#include "numerics/error.h"
#include "numerics/scale/recipe_words.h"

namespace mxcheck {
namespace {

const mxcheck_operation& operation(std::string_view name) {
  const mxcheck_candidate_table& table = *mxcheck_candidate();
  for (std::int32_t i = 0; i < table.num_operations; ++i) {
    if (std::string_view(table.operations[i].name) == name) return table.operations[i];
  }
  throw Error(ErrorKind::internal, "the SIMD library has no operation " + std::string(name));
}

constexpr DLDataType kBytes{kDLUInt, 8, 1};

DLDataType type_of(Format source) {
  if (source == Format::fp32) return {kDLFloat, 32, 1};
  return {static_cast<std::uint8_t>(source == Format::bf16 ? kDLBfloat : kDLFloat), 16, 1};
}

mxcheck_policy policy_of(Format element, BlockShape block, const char* recipe) {
  mxcheck_policy p{};
  p.size = sizeof(p);
  p.layout = MXCHECK_COMPACT;
  p.format = spec(element).name.data();
  p.recipe = recipe;
  p.block_rows = block.rows, p.block_cols = block.cols;
  return p;
}

DLTensor tensor_of(const void* data, DLDataType type, std::int64_t* shape, std::int32_t dimensions) {
  return {const_cast<void*>(data), {kDLCPU, 0}, dimensions, type, shape, nullptr, 0};
}

// A matrix's tensors are [rows, cols] or [scale rows, scale cols]; DLTensor points to shapes, which live here.
struct Shapes {
  explicit Shapes(const Quantized& q, std::span<const std::int64_t> offsets)
      : matrix{q.rows, q.cols}, scales{q.scale_rows, q.scale_cols}, count{static_cast<std::int64_t>(offsets.size())} {}
  std::array<std::int64_t, 2> matrix;
  std::array<std::int64_t, 2> scales;
  std::array<std::int64_t, 1> count;
};

void run(std::string_view name, const mxcheck_policy& policy, std::span<const DLTensor> inputs,
         std::span<const DLTensor> outputs) {
  std::array<char, 256> message{};
  mxcheck_call call{};
  call.size = sizeof(call);
  call.policy = &policy;
  call.num_inputs = static_cast<std::int32_t>(inputs.size());
  call.inputs = inputs.data();
  call.num_outputs = static_cast<std::int32_t>(outputs.size());
  call.outputs = outputs.data();
  call.message = message.data(), call.message_bytes = message.size();
  if (operation(name).run(&call) == MXCHECK_OK) return;
  throw Error(ErrorKind::internal, "the SIMD library refused to " + std::string(name) + " a panel: " + message.data());
}

// The library may return any NaN; the reference returns one.
template <class Word>
void make_nan_one(std::span<std::byte> values, Word infinity, Word nan) {
  constexpr Word kMagnitude = static_cast<Word>(~(Word{1} << (8 * sizeof(Word) - 1)));
  for (std::size_t at = 0; at < values.size(); at += sizeof(Word)) {
    Word word = 0;
    std::memcpy(&word, values.data() + at, sizeof(word));
    word = (word & kMagnitude) > infinity ? nan : word;
    std::memcpy(values.data() + at, &word, sizeof(word));
  }
}

}  // namespace

bool offers_simd(Format source, Format element, BlockShape block, const Recipe& recipe) {
  if (!recipe.has_e8m0_scales() || describe(recipe) != describe(recipe_named(recipe.name))) return false;
  const mxcheck_policy policy = policy_of(element, block, recipe.name.c_str());
  return operation("quantize").supports(&policy, type_of(source)) == MXCHECK_OK;
}

void simd_quantize(const MatrixView& panel, std::span<const std::int64_t> offsets, const Recipe& recipe, int threads,
                   Quantized& q) {
  q.rows = panel.rows, q.cols = panel.cols;
  q.scale_rows = count_scale_rows(panel.rows, q.block.rows, offsets);
  q.scale_cols = q.block.cols == 0 ? 1 : (panel.cols + q.block.cols - 1) / q.block.cols;
  q.codes16.clear(), q.scales_fp32.clear();  // of what q held before
  q.codes.resize(static_cast<std::size_t>(q.rows * q.cols));
  q.scales.resize(static_cast<std::size_t>(q.scale_rows * q.scale_cols));

  mxcheck_policy policy = policy_of(q.element, q.block, recipe.name.c_str());
  policy.rows = panel.rows, policy.cols = panel.cols;
  policy.threads = threads;
  Shapes shapes(q, offsets);
  const std::array inputs{tensor_of(panel.data, type_of(panel.dtype), shapes.matrix.data(), 2),
                          tensor_of(offsets.data(), {kDLInt, 64, 1}, shapes.count.data(), 1)};
  const std::array outputs{tensor_of(q.codes.data(), kBytes, shapes.matrix.data(), 2),
                           tensor_of(q.scales.data(), kBytes, shapes.scales.data(), 2)};
  run("quantize", policy, std::span(inputs).first(offsets.empty() ? 1 : 2), outputs);
}

bool offers_simd_values(Format values, Format element, BlockShape block) {
  const mxcheck_policy policy = policy_of(element, block, "");
  return operation("dequantize").supports(&policy, type_of(values)) == MXCHECK_OK;
}

void simd_dequantize(const Quantized& q, std::span<const std::int64_t> offsets, Format values,
                     std::span<std::byte> to) {
  mxcheck_policy policy = policy_of(q.element, q.block, "");
  policy.rows = q.rows, policy.cols = q.cols;
  Shapes shapes(q, offsets);
  const std::array inputs{tensor_of(q.codes.data(), kBytes, shapes.matrix.data(), 2),
                          tensor_of(q.scales.data(), kBytes, shapes.scales.data(), 2),
                          tensor_of(offsets.data(), {kDLInt, 64, 1}, shapes.count.data(), 1)};
  const std::array outputs{tensor_of(to.data(), type_of(values), shapes.matrix.data(), 2)};
  run("dequantize", policy, std::span(inputs).first(offsets.empty() ? 2 : 3), outputs);
  if (values == Format::fp32) return make_nan_one<std::uint32_t>(to, 0x7F800000, 0x7FC00000);
  make_nan_one<std::uint16_t>(to, 0x7F80, 0x7FC0);
}

}  // namespace mxcheck
