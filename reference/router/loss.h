#pragma once
// The router's auxiliary losses and their gradients by the logits. docs/router.md has the formulas.
//
// Load balancing (Fedus, Zoph, Shazeer 2021, equation 4): coefficient * experts * sum_e f_e P_e, f_e the share of
// routes that go to e, P_e the mean over tokens of softmax(logits)[e]. z (Zoph et al. 2022, equation 5): coefficient /
// tokens * sum_t logsumexp(logits[t])^2. Sums over tokens and over experts are exact and rounded once
// (numerics/accumulate/exact_sum.h). Without tokens both are +0, whatever the counts and the coefficient.
//
// Errors: Error{usage} for sizes that do not fit, no experts, negative counts or tokens without a route; Error{input}
// for a NaN or infinite logit, naming it.

#include <cstdint>
#include <span>
#include <vector>

#include "reference/common/matrix.h"

namespace mxcheck {

struct RouterLoss {
  float value = 0;
  std::vector<float> gradient;  // tokens x experts
};

// counts: routes of each expert, whose sum is the number of routes.
RouterLoss load_balancing_loss(const MatrixView& logits, std::span<const std::int32_t> counts, float coefficient,
                               int threads = 0);
RouterLoss router_z_loss(const MatrixView& logits, float coefficient, int threads = 0);

}  // namespace mxcheck
