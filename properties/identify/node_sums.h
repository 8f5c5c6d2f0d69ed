#pragma once
// The arithmetics that the nodes of a tree of summation may have, which are tried on sums of random data.
//
//   for (const NodeArithmetic& a : node_arithmetics(tree)) { std::uint32_t d = a.sum(terms, Format::fp32); }
//
// A tree of binary nodes is tried with additions (every product and sum rounded to one format) and fused multiply-adds;
// one with nodes of more children with fused sums (numerics/accumulate/fused_sum.h) of every width, between which FP32
// additions are rounded to nearest.
//
// Errors: none. Does not promise: that there is no other arithmetic with the same results.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "numerics/accumulate/fused_sum.h"
#include "properties/identify/tree/tree.h"

namespace mxcheck {

struct ProductTerm {
  Factor a;
  Factor b;
  double a_value = 0;
  double b_value = 0;
};

struct NodeArithmetic {
  std::string name;
  std::function<std::uint32_t(const std::vector<ProductTerm>& terms, Format output)> sum;
};

std::vector<NodeArithmetic> node_arithmetics(const SumTree& tree);

}  // namespace mxcheck
