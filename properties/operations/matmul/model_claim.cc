#include "properties/operations/matmul/model_claim.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "properties/gpu_model/gpu_model.h"
#include "properties/operations/matmul/fields.h"
#include "reference/matmul/matmul.h"

namespace mxcheck {
namespace {

std::optional<int> model_format(std::string_view sum, Format format) {
  if (sum == "sm90_fp8" && format == Format::e4m3) return MXCHECK_GPU_MODEL_E4M3;
  if (sum == "sm90_fp8" && format == Format::e5m2) return MXCHECK_GPU_MODEL_E5M2;
  if (sum == "sm90_bf16" && format == Format::bf16) return MXCHECK_GPU_MODEL_BF16;
  if (sum == "sm90_fp16" && format == Format::fp16) return MXCHECK_GPU_MODEL_FP16;
  if (sum == "sm90_tf32" && format == Format::fp32) return MXCHECK_GPU_MODEL_TF32;
  return std::nullopt;
}

// What the variant alone says.
std::optional<DeviceModel> model_of_variant(const Variant& variant) {
  if (!is_matmul(variant.operation)) return std::nullopt;
  if (variant.dtype != Format::fp32 && variant.dtype != Format::bf16) return std::nullopt;
  const MatmulVariant& v = matmul_of(variant);
  const MatmulContract contract = parse_matmul_contract(contract_text(variant.operation));
  // Whatever a contract may say beside these three, the model knows nothing of.
  MatmulContract known;
  known.sum = contract.sum, known.promotion = contract.promotion;
  known.decodes = contract.decodes, known.from_c = contract.from_c;
  if (to_text(known) != to_text(contract)) return std::nullopt;
  DeviceModel model;
  model.promotion = static_cast<std::int32_t>(contract.promotion);
  model.decodes = contract.decodes ? 1 : 0;
  constexpr BlockShape kMx{1, 32};
  const bool is_mx = v.format == Format::e4m3 && v.format_b == Format::e4m3 && v.scales == MXCHECK_E8M0 &&
                     v.block == kMx && v.block_b == kMx;
  if (contract.decodes && !is_mx) return std::nullopt;
  const Format a = contract.decodes ? Format::bf16 : v.format;
  const Format b = contract.decodes ? Format::bf16 : v.format_b;
  const auto a_format = model_format(contract.sum->name, a);
  const auto b_format = model_format(contract.sum->name, b);
  if (!a_format || !b_format || contract.promotion % contract.sum->step.terms != 0) return std::nullopt;
  model.a_format = *a_format, model.b_format = *b_format;
  if (v.scales == MXCHECK_NO_SCALES || contract.decodes) return model;
  const auto fits = [&](BlockShape block) { return block.cols > 0 && block.cols % contract.promotion == 0; };
  const bool blocks = contract.promotion != 0 && fits(v.block) && fits(v.block_b) && v.block.rows == 1 &&
                      (v.block_b.rows == 1 || v.block_b.rows == 128);
  return blocks ? std::optional(model) : std::nullopt;
}

// Groups with k start where the model begins intervals and blocks: at multiples of each.
bool depth_groups_fit(const Case& c, const DeviceModel& model) {
  const std::int64_t of[] = {model.promotion, matmul_of(c.variant).block.cols, matmul_of(c.variant).block_b.cols};
  for (std::size_t e = 1; e < c.experts.size(); ++e) {
    if (c.experts[e] == c.experts[e - 1]) continue;
    if (std::any_of(std::begin(of), std::end(of), [&](std::int64_t n) { return n > 0 && c.experts[e - 1] % n != 0; }))
      return false;
  }
  return true;
}

}  // namespace

bool model_knows(const Variant& v) { return model_of_variant(v).has_value(); }

std::optional<DeviceModel> model_of(const Case& c) {
  const auto model = model_of_variant(c.variant);
  if (!model) return std::nullopt;
  const bool from_c = parse_matmul_contract(contract_text(c.variant.operation)).from_c;
  if (matmul_case(c).adds && (from_c || c.variant.dtype != Format::fp32)) return std::nullopt;
  if (matmul_of(c.variant).groups == MXCHECK_DEPTH && !depth_groups_fit(c, *model)) return std::nullopt;
  return model;
}

}  // namespace mxcheck
