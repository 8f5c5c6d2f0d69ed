#pragma once
// The values that the kernels of few.cuh choose by.

#include <cstdint>

#include "kernels/common/route/policy.h"

namespace mxcheck_kernels::sm90 {

// Logits, also where weights are made of scores (which few_settle.cuh settles), or sums with a bias: of logits, scores.
enum class Choice : std::uint8_t {
  plain,
  biased,
  softmax,
  softmax_biased,
  sigmoid,
  sigmoid_biased,
  sqrtsoftplus,
  sqrtsoftplus_biased
};

constexpr Score score_by(Choice c) {
  switch (c) {
    case Choice::softmax:
    case Choice::softmax_biased: return Score::softmax;
    case Choice::sigmoid:
    case Choice::sigmoid_biased: return Score::sigmoid;
    case Choice::sqrtsoftplus:
    case Choice::sqrtsoftplus_biased: return Score::sqrtsoftplus;
    default: return Score::logits;
  }
}
constexpr bool is_biased(Choice c) {
  return c == Choice::biased || c == Choice::softmax_biased || c == Choice::sigmoid_biased ||
         c == Choice::sqrtsoftplus_biased;
}

}  // namespace mxcheck_kernels::sm90
