#include "properties/operations/moe/kept.h"

#include <algorithm>
#include <utility>

#include "numerics/bytes.h"
#include "numerics/format/packing.h"
#include "numerics/scale/recipe.h"
#include "properties/operations/layer/tensors.h"
#include "reference/common/checked_size.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kGroup = kE5m6CodesPerGroup;
constexpr std::int64_t kGroupBytes = 4 * kE5m6WordsPerGroup;

std::size_t size_of(std::int64_t rows, std::int64_t cols) { return static_cast<std::size_t>(rows * cols); }

// Each row by itself, its last group filled up with zeros.
std::vector<std::byte> packed_rows(const Quantized& q) {
  const std::int64_t padded = ceil_div(q.cols, kGroup) * kGroup;
  std::vector<std::uint16_t> codes(size_of(q.rows, padded));
  for (std::int64_t row = 0; row < q.rows; ++row)
    std::copy_n(q.codes16.begin() + row * q.cols, q.cols, codes.begin() + row * padded);
  return to_bytes(pack_e5m6(codes));
}

std::vector<std::uint16_t> unpacked_rows(std::span<const std::byte> bytes, std::int64_t rows, std::int64_t cols) {
  const std::int64_t padded = ceil_div(cols, kGroup) * kGroup;
  const std::vector<std::uint16_t> all = unpack_e5m6(values_in<std::uint32_t>(bytes));
  std::vector<std::uint16_t> codes(size_of(rows, cols));
  for (std::int64_t row = 0; row < rows; ++row)
    std::copy_n(all.begin() + row * padded, cols, codes.begin() + row * cols);
  return codes;
}

}  // namespace

CallTensor KeptTensor::call_tensor() const {
  CallTensor t = output_tensor(info, false);
  t.data = bytes.data();
  return t;
}

OperandRule kept_x_rule(const LayerRecipe& recipe) {
  return recipe.keeps_quantized_x ? recipe.gemm(LayerGemm::up).a : OperandRule();
}

std::vector<TensorInfo> kept_infos(const std::string& name, const OperandRule& rule, std::int64_t rows,
                                   std::int64_t cols) {
  if (!rule.quantized()) return {values_info(name, Format::bf16, rows, cols)};
  TensorInfo codes = codes_info(name + " codes", rule.format, rows, cols, rule.block.cols);
  // Bytes of twelve-bit codes, which no format names.
  if (rule.format == Format::e5m6)
    codes = {name + " packed codes", Format::e4m3, rows, ceil_div(cols, kGroup) * kGroupBytes};
  return {codes, scales_info(name + " scales", recipe_named(rule.scales), rows, ceil_div(cols, rule.block.cols))};
}

std::vector<KeptTensor> kept_tensors(const std::string& name, const OperandRule& rule, const LayerOperand& from) {
  std::vector<TensorInfo> infos = kept_infos(name, rule, from.rows, from.cols);
  if (!rule.quantized()) return {{std::move(infos[0]), to_bytes(from.values)}};
  const Quantized& q = from.quantized;
  std::vector<std::byte> codes = rule.format == Format::e5m6 ? packed_rows(q) : to_bytes(q.codes);
  std::vector<std::byte> scales = q.scales_fp32.empty() ? to_bytes(q.scales) : to_bytes(q.scales_fp32);
  return {{std::move(infos[0]), std::move(codes)}, {std::move(infos[1]), std::move(scales)}};
}

LayerOperand kept_operand(const OperandRule& rule, const std::vector<KeptTensor>& from, std::int64_t rows,
                          std::int64_t cols, bool by_token) {
  LayerOperand o;
  o.rows = rows, o.cols = cols, o.by_token = by_token;
  if (!rule.quantized()) {
    o.values = values_in<std::uint16_t>(from[0].bytes);
    return o;
  }
  o.is_quantized = true;
  Quantized& q = o.quantized;
  q.element = rule.format, q.block = rule.block;
  q.rows = q.scale_rows = rows, q.cols = cols, q.scale_cols = ceil_div(cols, rule.block.cols);
  if (rule.format == Format::e5m6) {
    q.codes16 = unpacked_rows(from[0].bytes, rows, cols);
  } else {
    q.codes = values_in<std::uint8_t>(from[0].bytes);
  }
  if (recipe_named(rule.scales).has_e8m0_scales()) {
    q.scales = values_in<std::uint8_t>(from[1].bytes);
  } else {
    q.scales_fp32 = values_in<float>(from[1].bytes);
  }
  return o;
}

}  // namespace mxcheck
