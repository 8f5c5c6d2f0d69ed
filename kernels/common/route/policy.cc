#include "kernels/common/route/policy.h"

#include <array>
#include <string>

#include "kernels/common/arguments.h"
#include "kernels/common/names.h"

namespace mxcheck_kernels {
namespace {

constexpr std::array kVariants{
    RouterVariant{"topk-softmax", Score::logits, Weights::softmax_of_kept},
    RouterVariant{"topk-softmax-packed", Score::logits, Weights::softmax_of_kept, true},
    RouterVariant{"softmax-topk", Score::softmax, Weights::raw},
    RouterVariant{"softmax-topk-renorm", Score::softmax, Weights::over_sum},
    RouterVariant{"sigmoid", Score::sigmoid, Weights::over_sum_plus_tiny},
    RouterVariant{"sigmoid-raw", Score::sigmoid, Weights::raw},
    RouterVariant{"sigmoid-tiny-first", Score::sigmoid, Weights::over_tiny_then_sum},
    RouterVariant{"sqrtsoftplus", Score::sqrtsoftplus, Weights::over_sum_plus_tiny},
    RouterVariant{"sqrtsoftplus-raw", Score::sqrtsoftplus, Weights::raw},
};

struct RuleName {
  std::string_view name;
  TokenRoundingRule rule;
};

constexpr std::array kRules{
    RuleName{"none", TokenRoundingRule::none},
    RuleName{"nr-f", TokenRoundingRule::nr_f},
    RuleName{"sr-f", TokenRoundingRule::sr_f},
    RuleName{"nr-s", TokenRoundingRule::nr_s},
    RuleName{"balance-f", TokenRoundingRule::balance_f},
    RuleName{"up", TokenRoundingRule::up},
    RuleName{"down", TokenRoundingRule::down},
    RuleName{"nr-even", TokenRoundingRule::nr_even},
    RuleName{"expert-choice", TokenRoundingRule::expert_choice},
    RuleName{"capacity-order", TokenRoundingRule::capacity_order},
    RuleName{"capacity-score", TokenRoundingRule::capacity_score},
};

}  // namespace

const mxcheck_route_policy& route_policy(const mxcheck_policy* policy) {
  return policy_of<mxcheck_route_policy>(policy, ", that of mxcheck_route_policy");
}

void require_no_blocks(const mxcheck_policy& p) {
  if (p.layout != MXCHECK_COMPACT) {
    unsupported("layout " + std::to_string(p.layout) + " is not offered: routers have 0 (compact) only");
  }
  if (p.block_rows != 0 || p.block_cols != 0) {
    unsupported("blocks of " + std::to_string(p.block_rows) + " x " + std::to_string(p.block_cols) +
                " are not offered: routers have none, 0 x 0");
  }
  if (p.format != nullptr && *p.format != '\0') {
    unsupported("format " + std::string(p.format) + " is not offered: routers have none, \"\"");
  }
}

const RouterVariant& router_variant_named(const char* name, bool packed_offered) {
  return entry_named(kVariants, "variant", "recipe", name,
                     [&](const RouterVariant& v) { return packed_offered || !v.packed; });
}

TokenRoundingRule token_rounding_rule_named(const char* name) {
  return entry_named(kRules, "rule", "rule", name, [](const RuleName&) { return true; }).rule;
}

}  // namespace mxcheck_kernels
