#pragma once
// Products whose order of sums is not promised: for each output an interval that holds the result of every order, so
// that an output outside it is wrong in any order, and no right one ever is.
//
//   Matmul m = ...;  m.contract = parse_matmul_contract("any_order");
//   const std::vector<OutputRange> ranges = any_order_ranges(m);
//   if (!ranges[i].holds(Format::bf16, word)) ...           // word is no sum of these products
//
// A kernel's freedom. Let t_1 .. t_n be the products that are not 0, and C where alpha is 1. They are added in any
// order and grouping, by adders of two or of many operands, in an accumulator of FP32 that rounds to nearest or cuts;
// results below 2^-126 may be flushed, operands below it keep their values. There are at most n losses, each below
// u = 2^-23 (+fN: 2^(1 - N)) of the largest sum that there is then:
//
//   P = sum of the positive t, N = -(sum of the negative t); every partial sum of exact terms lies in [-N, P]. Let M be
//   max(P, N, R), where R is the largest |a b|, a subnormal operand taken for the smallest normal number: tensor cores
//   do not normalize products, and align sums to the exponents of their operands. A sum that has had j losses is below
//   M (1 + u)^j, so that all of them are below M ((1 + u)^n - 1), for which expm1(n u) M is taken.
//
//   A chain or a tree of n terms has at most n - 1 additions of two operands, each off by at most 2^-24 (nearest) or
//   2^-23 (cut) of its result. A tensor core adds T terms and its accumulator at once: all but the largest are cut
//   below 2^-f of it, then the sum is cut to FP32; for f = 25 that is T / 4 + 3 / 4 units of 2^-23, at most T. +fN
//   stands for cores with N < 25 (13: FP8 on Hopper): T cuts and that of the result, at most 2 T of 2^-N. FP32 scales:
//   RN(scale_a * scale_b) or one after the other, by the sum or by a fused multiply-add: at most 3 roundings of 2^-23
//   (P + N). Products of more than 24 bits (FP32 operands): one more. Alpha, where it is no power of two, by the sum or
//   by its parts: one more.
//
// Where nothing can be lost the interval is a point. If every t is a multiple of q and M <= 2^24 q (+fN: 2^N q), every
// partial sum, with its scales or without, is a number of the accumulator: so it is for integers, for one product, and
// for most short sums of FP8.
//
// At the end D = round(alpha * acc + C) as in reference/matmul/matmul.h; with an alpha of 1 C may be within the sum.
// BF16 and FP16 by one rounding to nearest even. A NaN among the operands makes NaN, as do infinite products of both
// signs; infinite ones of one sign make that infinity. Nothing is said (`unbounded`) where the magnitudes allow an
// overflow on the way, where a scale lies outside 2^-50 .. 2^50 (two together may leave FP32), and where a code under
// scales is above 2^30 or has bits below 2^-38 (FP8 and FP16 never are).
//
// The same of `as_accurate_as:CONTRACT`: the accumulators are those of the contract.
//
// Sources: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sections 4.2 and 3.1; docs/contracts.md for
// tensor cores. Errors: those of matmul(); Error{usage} for a contract that promises bits.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reference/matmul/matmul.h"

namespace mxcheck {

struct OutputRange {
  double low = 0;  // of the output's format for BF16 and FP16, else real numbers
  double high = 0;
  bool is_nan = false;     // NaN is the only right output
  bool unbounded = false;  // any output is right

  // NaN is outside of a range; +0 and -0 are one number.
  [[nodiscard]] bool holds(Format output, std::uint32_t word) const;
  // True if one number alone is right.
  [[nodiscard]] bool is_point() const { return !unbounded && (is_nan || low == high); }
};

std::string to_text(const OutputRange& range);  // "-600 in every order: nothing can be rounded on the way"

// One output's exact value in real numbers, C and alpha included and D's format not, and the sum of the magnitudes that
// it is made of: |alpha| sum |a b| + |C|. The value is off by at most `off`; NaN where it is no finite number.
struct ExactOutput {
  double value = 0;
  double magnitude = 0;
  double off = 0;
};
ExactOutput exact_output(const Matmul& m, std::int64_t at);  // at: its place in D

// (experts x) m x n ranges, as D lies in memory. Of a contract that promises no bits; threads are m.threads. wanted: of
// each output, not 0 where its range is asked for, unbounded else; none: all are. 10^8 products a second and core.
std::vector<OutputRange> any_order_ranges(const Matmul& m, std::span<const std::uint8_t> wanted = {});

}  // namespace mxcheck
