#pragma once
// Steps of a layer whose order of operations is not promised: for each output an interval that holds what every right
// kernel gives, and the exact value.
//
// aggregate. O of a token is a product of one row, its weights, with the rows of Y: the interval is that of
// reference/matmul/any_order.h, whose derivation holds for it, rounded to BF16 at both ends (rounding is monotone).
// Products of a weight (24 bits) and a BF16 number have up to 32 bits: they may be rounded before they are added.
// Operands below 2^-126 may be flushed as well: a kernel that is compiled with -ftz=true reads them as zeros. Each such
// term may be missing.
//
// swiglu and its gradient, in FP32 with results rounded to nearest or cut, rounded to BF16 at the end. A right kernel
// has for the sigmoid q = 1 / (1 + exp(-g)) any algorithm that is as good as the intrinsics of CUDA:
//
//   |q' - q| <= e q + t,  e = 2^-20 + (1 - q) (2 + 1.173 |g|) 2^-23,  t = 0
//
//   exp      __expf(x) is off by at most 2 + floor(1.173 |x|) ulp (CUDA C++ Programming Guide, intrinsic functions), an
//            ulp at most 2^-23 of the result; ex2.approx (2 ulp, PTX ISA) of RN(x log2 e), which is off by |x| 2^-24,
//            is within that. In q this counts (1 - q) times, as dq / q = -(1 - q) dE / E; so it does for exp(g) / (1 +
//            exp(g)).
//   1 + E    one rounding, 2^-23 where it is cut
//   1 / .    __fdividef 2 ulp, rcp.approx 1, and g / (1 + E) in their place: together 3 units of 2^-23. 2^-20 has room
//            for 8, and for this file's own exp in FP64.
//   below 2^-125 q may be 0: exp(-g) overflows or is beyond 2^126, where __fdividef gives 0.
//
// With SigmoidKind::tanh it may also be (1 + tanh(g / 2)) / 2, with tanh.approx (relative 2^-11, PTX ISA): t = 2^-12 +
// 2^-20, an absolute error, so that outputs of gates far below 0 are hardly checked. Without it such kernels are wrong.
//
//   a  = g q u           du = s p (g q)           dg = s p u D,  D = q f,  f = 1 + g (1 - q)
//   A' = s A, A the value in BF16                 dS = the sum of p A over the row: an interval of sums
//
// are products in any order, each off by at most 2^-23. D is q + g q (1 - q) as well; with d = e q + t it is off by
//   d (1 + |g| (1 - q)) + (q + d) (|g| (d + 2^-20) + 2^-20 (1 + |g| (1 - q))):
// the error of the factor q, and those of 1 - q (absolute, d and roundings) and of f's own roundings.
//
// Where a product of some of the factors is below 2^-126 it may be flushed or rounded as a subnormal number: 0 is right
// then, and 2^-149 times the factors above 1 is added. Nothing is said where a product of some of them may reach 2^127,
// and of infinite gates (IEEE's NaN or the limit). A NaN, or 0 times an infinity, makes NaN.
//
// Errors: those of aggregate(). Threads (0: the machine's) change nothing but the time.

#include <cstdint>
#include <span>
#include <vector>

#include "reference/layer/aggregate.h"
#include "reference/matmul/any_order.h"

namespace mxcheck {

// tokens x cols ranges of BF16, or of sums in FP32 (real numbers). wanted: as for any_order_ranges().
std::vector<OutputRange> aggregate_ranges(const AggregatedRows& from, const TokenSlots& slots,
                                          std::span<const std::uint8_t> wanted = {}, Format output = Format::bf16,
                                          int threads = 0);
ExactOutput exact_aggregate(const AggregatedRows& from, const TokenSlots& slots, std::int64_t token, std::int64_t col);

enum class SigmoidKind : std::uint8_t { of_exp, of_exp_or_tanh };

// Ranges of BF16.
OutputRange swiglu_range(float g, float u, SigmoidKind kind);
struct SwigluGradientRanges {
  OutputRange dg, du, scaled_a;
};
SwigluGradientRanges swiglu_gradient_ranges(float g, float u, float p, float weight, SigmoidKind kind);
// The range of dS, in real numbers: gates, up values and P of a row.
OutputRange swiglu_weight_gradient_range(std::span<const float> g, std::span<const float> u, std::span<const float> p,
                                         SigmoidKind kind);

// The exact values, and the magnitudes that they are made of: |a|, |du|, |s p u| q (1 + |g| (1 - q)) of dg. NaN where
// they are not finite.
ExactOutput exact_swiglu(float g, float u);
struct ExactSwigluGradient {
  ExactOutput dg, du;
};
ExactSwigluGradient exact_swiglu_gradient(float g, float u, float p, float weight);

}  // namespace mxcheck
