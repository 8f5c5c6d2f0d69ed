#pragma once
// The pieces of gate_page: pictures of a difference, of the statements by variant, and of what the domains' bins met.

#include <cstddef>
#include <span>
#include <string>

#include "properties/core/compare.h"
#include "properties/gate/gate.h"

namespace mxcheck {

// Both tensors are of info's shape. What differs is what compare() says differs.
struct DifferingTensor {
  TensorInfo info;
  std::span<const std::byte> expected;
  std::span<const std::byte> observed;
};

// The matrix, with the edges of its blocks; a cell is an element, or many of them where the matrix is larger than
// 128 x 64, and is the redder the more of them are wrong. Empty where nothing differs.
std::string wrong_map(const DifferingTensor& t);

// Each element of the block around the first wrong one (of its row alone where the block is large): expected bits above
// observed ones, those that differ in red, and how many steps lie between. Empty where nothing differs.
std::string block_bits(const DifferingTensor& t);

// "1 step: 12" ... as bars.
std::string step_bars(const Difference& difference);

// Statements by variants: a row a statement, in it a strip an operation, in that a stroke a variant.
std::string statement_grid(const GateReport& report);

// One bar: how many statements held, failed, are inconclusive, were not offered.
std::string share_bar(const GateReport& report);

// The coverage of each operation's domain, over all statements: a row an axis, a cell a bin, the darker the larger its
// share of the cases. Empty where nothing was covered.
std::string coverage_map(const GateReport& report);

}  // namespace mxcheck
