#pragma once
// The tree in which a black box sums, from masks: in all products but two a small unit u, in one +M, in another -M, so
// large that every unit added to M vanishes. What is left counts the units that do not meet M before -M does: n less
// the terms below the node at which the two meet. All pairs are asked, which shows too whether the answers are a
// tree's; or, of a box whose calls cost time, as many as a tree follows from, and `checked` beside.
//
// The arithmetic of the nodes is then tried on random data: FP32, FP16, BF16 and FP64 additions, rounded to nearest or
// toward zero, fused multiply-adds, and fused sums.
//
//   const TreeReport r = reveal_order(space, box);
//   r.tree->text() == "((0 1) (2 3))"; r.shape == "pairwise"
//
// Sources: Xie et al., FPRev (USENIX ATC 2025). Errors: those of the box.
//
// Does not promise: an answer for formats without room for M and u (E2M1, E2M3, E3M2, MXINT8), or K above 256 (512
// where D is FP32, 4096 of few pairs): why_not says so. An order that depends on the values is not seen, but that
// random sums then differ.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "goldens/json/json.h"
#include "numerics/accumulate/fused_sum.h"
#include "properties/identify/product.h"
#include "properties/identify/tree/tree.h"

namespace mxcheck {

TreeReport reveal_order(const ProductSpace& space, const ProductBox& box, std::optional<std::int64_t> checked = {});

// The arithmetics that the nodes of a tree of summation may have, which are tried on sums of random data.
//
//   for (const NodeArithmetic& a : node_arithmetics(tree)) { std::uint32_t d = a.sum(terms, Format::fp32); }
//
// A tree of binary nodes is tried with additions (every product and sum rounded to one format) and fused multiply-adds;
// one with nodes of more children with fused sums (numerics/accumulate/fused_sum.h) of every width, between which FP32
// additions are rounded to nearest.
//
// Errors: none. Does not promise: that there is no other arithmetic with the same results.

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

// The report of identify as JSON. Members are only ever added; tests/properties/identify/reveal_test.cc has them all.
//
//   {"explained": true, "explaining": ["sm90_fp8"], "also": [], "declared": null, "closest": [...], "compared": 64,
//    "probes": 1, "tried": 72, "order": {"tree": "((0 1) (2 3))", "shape": "pairwise", ...}}
//
// Words are texts, "0x47ad0000" of values and decimal numbers of integers.

Json to_json(const Match& match);
Json to_json(const TreeReport& order);
// A match and its order, which is null where none was looked for.
Json to_json(const Match& match, const std::optional<TreeReport>& order);

}  // namespace mxcheck
