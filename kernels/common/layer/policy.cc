#include "kernels/common/layer/policy.h"

#include <array>
#include <string>
#include <string_view>

#include "kernels/common/arguments.h"
#include "kernels/common/names.h"

namespace mxcheck_kernels {
namespace {

struct OfferedScale {
  std::string_view name;
  CodeScale scale;
};
// "ocp" and "torchao_floor" are other names of floor; what other presets do with NaN or Inf differs.
constexpr std::array<OfferedScale, 5> kScales{{{"rceil", CodeScale::rceil},
                                               {"floor", CodeScale::floor},
                                               {"ocp", CodeScale::floor},
                                               {"torchao_floor", CodeScale::floor},
                                               {"fp32", CodeScale::fp32}}};

std::string shape(std::int64_t rows, std::int64_t cols) { return std::to_string(rows) + "x" + std::to_string(cols); }

void check_common(const mxcheck_policy& p) {
  if (p.threads < 0) invalid("policy.threads is " + std::to_string(p.threads) + ": must be 0 or more");
  if (p.layout != MXCHECK_COMPACT) invalid("policy.layout is " + std::to_string(p.layout) + ": must be 0 (compact)");
}

Coding read_coding(const mxcheck_policy& p, bool columns) {
  Coding coding;
  coding.element = element_named(p.format);
  coding.scale = entry_named(kScales, "recipe", "recipe", p.recipe, [](const OfferedScale&) { return true; }).scale;
  const std::int64_t one = columns ? p.block_cols : p.block_rows;
  const std::int64_t block = columns ? p.block_rows : p.block_cols;
  if (one != 1 || (block != 32 && block != 128)) {
    unsupported("blocks of " + shape(p.block_rows, p.block_cols) + " are not offered: offered are " +
                (columns ? "32x1, 128x1" : "1x32, 1x128"));
  }
  coding.block = static_cast<int>(block);
  return coding;
}

// Where nothing is coded there is nothing to say about codes.
void require_no_coding(const mxcheck_policy& p) {
  if (p.format == nullptr || p.recipe == nullptr) invalid("policy.format or recipe is null: must be \"\"");
  if (*p.format != '\0' || *p.recipe != '\0' || p.block_rows != 0 || p.block_cols != 0) {
    invalid("format, recipe and blocks are given where no codes are written: must be \"\", \"\" and 0x0");
  }
}

bool is_empty(const char* field, const char* text) {
  if (text == nullptr) invalid("policy." + std::string(field) + " is null: must be \"\" or a format");
  return *text == '\0';
}

}  // namespace

SwigluPlan read_swiglu_policy(bool backward, const mxcheck_policy* policy, DLDataType wide) {
  const auto& p = policy_of<mxcheck_swiglu_policy>(policy, ", that of mxcheck_swiglu_policy");
  check_common(p.policy);
  constexpr std::int32_t kAll = MXCHECK_VALUES | MXCHECK_ROWS_CODED | MXCHECK_COLUMNS_CODED;
  if (p.outputs <= 0 || p.outputs > kAll) {
    invalid("policy.outputs is " + std::to_string(p.outputs) + ": must be a sum of 1, 2 and 4");
  }
  require_flag("gate_up", p.gate_up);
  SwigluPlan plan;
  plan.backward = backward;
  plan.interleaved = p.gate_up == MXCHECK_INTERLEAVED;
  plan.values = (p.outputs & MXCHECK_VALUES) != 0;
  plan.rows = (p.outputs & MXCHECK_ROWS_CODED) != 0;
  plan.columns = (p.outputs & MXCHECK_COLUMNS_CODED) != 0;
  plan.coded_h = !is_empty("format_h", p.format_h);
  if (plan.coded_h) plan.h_element = element_named(p.format_h);
  if (!same(wide, plan.coded_h ? kByteType : kBf16Type)) {
    unsupported(plan.coded_h ? "codes of h are bytes" : "h is offered in BF16, and as codes");
  }
  if (plan.rows || plan.columns) {
    plan.coding = read_coding(p.policy, false);
  } else {
    require_no_coding(p.policy);
  }
  const bool scaled = !is_empty("format_scaled", p.format_scaled);
  if (scaled != (backward && plan.columns)) {
    invalid(std::string("policy.format_scaled is \"") + p.format_scaled + "\": must be " +
            (scaled ? "\"\" where no transposed codes of scaled_a are written" : "that of scaled_a's codes"));
  }
  if (scaled) plan.scaled = element_named(p.format_scaled);
  return plan;
}

bool read_aggregate_policy(const mxcheck_policy* policy, DLDataType wide) {
  const auto& p = policy_of<mxcheck_aggregate_policy>(policy, ", that of mxcheck_aggregate_policy");
  check_common(p.policy);
  require_no_coding(p.policy);
  require_flag("weighted", p.weighted);
  if (!same(wide, kBf16Type)) unsupported("y is offered in BF16");
  return p.weighted != 0;
}

TransposePlan read_transpose_policy(const mxcheck_policy* policy, DLDataType wide) {
  const auto& p = policy_of<mxcheck_policy>(policy);
  check_common(p);
  return {read_coding(p, true), dtype_of("x", wide)};
}

}  // namespace mxcheck_kernels
