#include "kernels/cpu/quantize/arguments.h"

#include <array>
#include <string>

#include "kernels/common/refusal.h"
#include "kernels/cpu/quantize/scalar_cast.h"

namespace mxcheck_kernels::cpu {
namespace {

constexpr std::array kRecipes{OfferedRecipe{"rceil", ScaleRule::rceil}, OfferedRecipe{"floor", ScaleRule::floor},
                              OfferedRecipe{"ocp", ScaleRule::floor}, OfferedRecipe{"torchao", ScaleRule::rceil_fp32},
                              OfferedRecipe{"te", ScaleRule::te}};
constexpr std::array kBlocks{Shape{1, 32},  Shape{32, 1},    Shape{32, 32}, Shape{1, 128},
                             Shape{128, 1}, Shape{128, 128}, Shape{1, 0}};

}  // namespace

QuantizePolicy read_policy(QuantizeOperation operation, const mxcheck_policy* policy, DLDataType type) {
  // A cast from FP64 has the policy of one from FP32: kernels/common does not know the type.
  const bool is_wide = operation == QuantizeOperation::cast && same(type, kFp64Type);
  const QuantizePolicy read = read_quantize_policy(operation, policy, is_wide ? kFp32Type : type, kRecipes, kBlocks);
  if (policy->threads < 0) invalid("policy.threads is " + std::to_string(policy->threads) + ": must be 0 or more");
  return read;
}

}  // namespace mxcheck_kernels::cpu
