#include "kernels/common/nvfp4/options.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/common/arguments.h"
#include "kernels/common/refusal.h"

namespace mxcheck_kernels {
namespace {

std::string listed(std::span<const int> groups) {
  std::string text;
  for (const int group : groups) text += (text.empty() ? "" : ", ") + std::to_string(group);
  return text;
}

// Signs from `group` on belong to no element.
void check_signs(const mxcheck_nvfp4_policy& p) {
  for (int i = p.hadamard; i < 128; ++i) {
    if ((p.signs[i / 32] >> i % 32 & 1) == 0) continue;
    invalid("policy.signs has bit " + std::to_string(i) + ": must be below the " + std::to_string(p.hadamard) +
            " of policy.hadamard");
  }
}

void read_transform(const mxcheck_nvfp4_policy& p, std::span<const int> groups, Nvfp4Options& to) {
  if (p.hadamard == 0) return;
  if (p.hadamard != 16 && p.hadamard != 32 && p.hadamard != 64 && p.hadamard != 128)
    invalid("policy.hadamard is " + std::to_string(p.hadamard) + ": must be 0, 16, 32, 64 or 128");
  if (p.hadamard_result != MXCHECK_HADAMARD_BF16 && p.hadamard_result != MXCHECK_HADAMARD_FP32)
    invalid("policy.hadamard_result is " + std::to_string(p.hadamard_result) + ": must be 0 (BF16) or 1 (FP32)");
  const std::int64_t along = to.both ? p.base.rows : p.base.cols;
  if (along % p.hadamard != 0) {
    invalid(std::string("policy.") + (to.both ? "rows" : "cols") + " is " + std::to_string(along) +
            ": must be a multiple of the " + std::to_string(p.hadamard) + " of policy.hadamard");
  }
  if (p.hadamard_sum == nullptr) invalid("policy.hadamard_sum is null: must be butterfly");
  if (std::string_view(p.hadamard_sum) != "butterfly")
    unsupported("the sum " + std::string(p.hadamard_sum) + " is not offered: offered is butterfly");
  if (std::find(groups.begin(), groups.end(), p.hadamard) == groups.end())
    unsupported("groups of " + std::to_string(p.hadamard) + " are not offered: offered are " + listed(groups));
  to.hadamard = p.hadamard, to.result_is_fp32 = p.hadamard_result == MXCHECK_HADAMARD_FP32;
  std::copy(std::begin(p.signs), std::end(p.signs), to.signs);
}

}  // namespace

Nvfp4Options read_nvfp4_options(const mxcheck_policy* policy, const OfferedNvfp4Options& offered) {
  Nvfp4Options to;
  if (policy_of<mxcheck_policy>(policy).size == sizeof(mxcheck_policy)) return to;
  const auto& p = policy_of<mxcheck_nvfp4_policy>(policy, ", or that of a policy without options");
  if (p.rounding < MXCHECK_NEAREST || p.rounding > MXCHECK_STOCHASTIC_BYTES) {
    invalid("policy.rounding is " + std::to_string(p.rounding) +
            ": must be 0 (nearest), 1 (stochastic) or 2 (stochastic_bytes)");
  }
  if (p.directions != MXCHECK_ROW_DIRECTION && p.directions != MXCHECK_BOTH_DIRECTIONS)
    invalid("policy.directions is " + std::to_string(p.directions) + ": must be 0 (rows) or 1 (both)");
  to.stochastic = p.rounding != MXCHECK_NEAREST, to.both = p.directions == MXCHECK_BOTH_DIRECTIONS;
  check_signs(p);
  read_transform(p, offered.groups, to);
  if (to.both && !offered.both) unsupported("both directions are not offered: quantize the transposed matrix");
  const bool by_bytes = p.rounding == MXCHECK_STOCHASTIC_BYTES;
  if (by_bytes && !offered.bytes) unsupported("the rounding stochastic_bytes is not offered: offered is stochastic");
  to.words = {p.seed, p.offset, {p.counter[0], p.counter[1]}, by_bytes};
  std::copy(std::begin(p.column_counter), std::end(p.column_counter), to.column_counter);
  return to;
}

}  // namespace mxcheck_kernels
