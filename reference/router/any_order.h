#pragma once
// Token choice that promises no bits: which experts a right kernel may choose for a token, and for the weights of those
// that it chose the intervals that hold every right one.
//
// A right kernel has an exp(d) that is off by at most (2 + 1.173 |d|) 2^-23 of its value, as __expf and ex2.approx
// (CUDA C++ Programming Guide, PTX ISA); sums in any order; quotients to 2 ulp; FP32 rounded or cut, results below
// 2^-126 perhaps flushed. d = x - M may be rounded, and so may x log2 e and M log2 e before they are subtracted; M may
// be the largest logit of the row or of the kept ones. So exp(d) is off by
//
//   e = (2 + 1.173 D) 2^-23 + (D + |x| + |M|) 2^-22,  D = M - x, M the row's largest
//
// and a sum S of n of them by 2 sum(e exp) / S + n 2^-22: twice, as a sum over blocks is rescaled by further
// exponentials. A weight exp / S has both, and 2^-20 for its quotient and products. So has a softmax that is divided by
// the sum of the kept once more. The sigmoid is that of reference/layer/any_order.h without tanh.
//
// Experts. Where keys are logits (with or without a bias) comparing them is exact: experts are the reference's. Where
// they are scores, a kernel compares its own: an expert may be chosen before another if its score may be as large. With
// groups, and where a logit or a key is subnormal (it may be flushed), only that experts are different ones is asked
// for.
//
// Nothing is said of rows with NaN or infinities (of logits or bias), of kept logits more than 60 below the row's
// largest where they are all there is, of weights over a sum below 2^-40, nor of the score sqrtsoftplus: log(1 + e) in
// place of log1p(e) is common, and as good as nothing for logits below -17.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "reference/matmul/any_order.h"
#include "reference/router/router.h"

namespace mxcheck {

// True if there are intervals for the weights of a variant: not for sqrtsoftplus.
bool has_weight_ranges(const RouterVariant& variant);

struct JudgedRoute {
  bool experts_are_right = true;
  std::vector<OutputRange> weights;  // of the experts as they are; empty where those are wrong
  std::vector<ExactOutput> exact;    // NaN where nothing is said
};
// experts: a token's, as a kernel gave them; reference: those of route().
JudgedRoute judge_route(const Router& router, std::span<const float> logits, std::span<const std::int32_t> experts,
                        std::span<const std::int32_t> reference);

}  // namespace mxcheck
