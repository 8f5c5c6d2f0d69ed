#pragma once
// The variants that a candidate can be asked for, and how often each is drawn.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "properties/core/operation.h"
#include "properties/process/candidate_process.h"

namespace mxcheck {

// Every variant that the candidate says it supports: all of each known operation, and of each contract of matmul, is
// asked for. Those of one operation follow one another, in the registry's order.
std::vector<Variant> offered_variants(CandidateProcess& process);

// How often variants of each operation are drawn: by Operation::fixed_weight, where there is one, in place of their
// number. Made once for many draws: a candidate may offer thousands.
class VariantWeights {
 public:
  // Variants of one operation follow one another, in the registry's order; the span is borrowed.
  explicit VariantWeights(std::span<const Variant> variants);
  // How many draws the variants are worth together.
  [[nodiscard]] std::size_t total() const { return total_; }
  // One of them by its weight; there must be one.
  [[nodiscard]] const Variant& draw(Draw& draw) const;

 private:
  struct Part {
    std::span<const Variant> variants;
    std::size_t weight;
    bool fixed;
  };
  std::vector<Part> parts_;
  std::size_t total_ = 0;
};

}  // namespace mxcheck
