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

#include "properties/identify/product.h"

namespace mxcheck {

TreeReport reveal_order(const ProductSpace& space, const ProductBox& box, std::optional<std::int64_t> checked = {});

}  // namespace mxcheck
