#include "bindings/simd/simd.h"

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

mxcheck_policy policy_of(const SimdBlocks& blocks, const char* recipe) {
  mxcheck_policy p{};
  p.size = sizeof(p);
  p.layout = blocks.layout == ScaleLayout::tcgen05 ? MXCHECK_TCGEN05 : MXCHECK_COMPACT;
  p.format = spec(blocks.element).name.data();
  p.recipe = recipe;
  p.block_rows = blocks.block.rows, p.block_cols = blocks.block.cols;
  p.threads = blocks.threads;
  p.pad_byte = blocks.pad;
  return p;
}

DLTensor tensor_of(const void* data, DLDataType type, std::int64_t* shape, std::int32_t dimensions) {
  return {const_cast<void*>(data), {kDLCPU, 0}, dimensions, type, shape, nullptr, 0};
}

std::int64_t scale_cols_of(BlockShape block, std::int64_t cols) {
  const std::int64_t width = block.width(cols);
  return cols / width + (cols % width != 0 ? 1 : 0);
}

// A matrix's tensors are [rows, cols] and [scale rows, scale cols], or all bytes of a layout; DLTensor points to
// shapes, which live here.
struct Shapes {
  Shapes(const SimdBlocks& blocks, std::int64_t rows, std::int64_t cols, std::int64_t row_stride, std::size_t bytes)
      : matrix{rows, cols},
        strides{row_stride, 1},
        scales{static_cast<std::int64_t>(bytes), 0},
        scale_rank{blocks.layout == ScaleLayout::compact ? 2 : 1},
        count{static_cast<std::int64_t>(blocks.offsets.size())} {
    if (blocks.layout != ScaleLayout::compact) return;
    scales = {count_scale_rows(rows, blocks.block.rows, blocks.offsets), scale_cols_of(blocks.block, cols)};
  }
  std::array<std::int64_t, 2> matrix;
  std::array<std::int64_t, 2> strides;
  std::array<std::int64_t, 2> scales;
  std::int32_t scale_rank;
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
  throw Error(ErrorKind::internal, "the SIMD library refused to " + std::string(name) + " a matrix: " + message.data());
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
  const mxcheck_policy policy = policy_of({element, block}, recipe.name.c_str());
  return operation("quantize").supports(&policy, type_of(source)) == MXCHECK_OK;
}

bool offers_simd_values(Format values, Format element, BlockShape block) {
  const mxcheck_policy policy = policy_of({element, block}, "");
  return operation("dequantize").supports(&policy, type_of(values)) == MXCHECK_OK;
}

void simd_quantize(const MatrixView& x, const SimdBlocks& blocks, const Recipe& recipe, std::uint8_t* codes,
                   std::span<std::uint8_t> scales) {
  mxcheck_policy policy = policy_of(blocks, recipe.name.c_str());
  policy.rows = x.rows, policy.cols = x.cols;
  Shapes shapes(blocks, x.rows, x.cols, x.row_stride, scales.size());
  std::array inputs{tensor_of(x.data, type_of(x.dtype), shapes.matrix.data(), 2),
                    tensor_of(blocks.offsets.data(), {kDLInt, 64, 1}, shapes.count.data(), 1)};
  if (x.row_stride != x.cols) inputs[0].strides = shapes.strides.data();
  const std::array outputs{tensor_of(codes, kBytes, shapes.matrix.data(), 2),
                           tensor_of(scales.data(), kBytes, shapes.scales.data(), shapes.scale_rank)};
  run("quantize", policy, std::span(inputs).first(blocks.offsets.empty() ? 1 : 2), outputs);
}

void simd_dequantize(const std::uint8_t* codes, std::span<const std::uint8_t> scales, std::int64_t rows,
                     std::int64_t cols, const SimdBlocks& blocks, Format values, void* to) {
  mxcheck_policy policy = policy_of(blocks, "");
  policy.rows = rows, policy.cols = cols;
  Shapes shapes(blocks, rows, cols, cols, scales.size());
  const std::array inputs{tensor_of(codes, kBytes, shapes.matrix.data(), 2),
                          tensor_of(scales.data(), kBytes, shapes.scales.data(), shapes.scale_rank),
                          tensor_of(blocks.offsets.data(), {kDLInt, 64, 1}, shapes.count.data(), 1)};
  const std::array outputs{tensor_of(to, type_of(values), shapes.matrix.data(), 2)};
  run("dequantize", policy, std::span(inputs).first(blocks.offsets.empty() ? 2 : 3), outputs);
}

void simd_quantize(const MatrixView& panel, std::span<const std::int64_t> offsets, const Recipe& recipe, int threads,
                   QuantizedTensor& q) {
  const BlockShape block = q.block();
  q.codes.shape = {panel.rows, panel.cols};
  q.codes.data.resize(static_cast<std::size_t>(panel.rows * panel.cols));
  Tensor& scales = q.scales();
  scales.shape = {count_scale_rows(panel.rows, block.rows, offsets), scale_cols_of(block, panel.cols)};
  scales.data.resize(static_cast<std::size_t>(scales.rows() * scales.cols()));
  simd_quantize(panel, {q.element(), block, ScaleLayout::compact, offsets, 0, threads}, recipe,
                q.codes.as<std::uint8_t>().data(), scales.as<std::uint8_t>());
}

void simd_dequantize(const QuantizedTensor& q, std::span<const std::int64_t> offsets, Format values,
                     std::span<std::byte> to) {
  const SimdBlocks blocks{q.element(), q.block(), ScaleLayout::compact, offsets};
  simd_dequantize(q.codes.as<std::uint8_t>().data(), q.scales().as<std::uint8_t>(), q.rows(), q.cols(), blocks, values,
                  to.data());
  if (values == Format::fp32) return make_nan_one<std::uint32_t>(to, 0x7F800000, 0x7FC00000);
  make_nan_one<std::uint16_t>(to, 0x7F80, 0x7FC0);
}

}  // namespace mxcheck
