#include "properties/gate/variants.h"

#include <algorithm>
#include <utility>

#include "properties/core/operation.h"

namespace mxcheck {
std::vector<Variant> offered_variants(CandidateProcess& process) {
  std::vector<Variant> offered;
  for (const Operation* operation : all_operations()) {
    for (const OperationInfo& info : process.info().operations) {
      if (find_operation(info.name) != operation) continue;
      for (Variant& v : operation->askable(info.name)) {
        if (process.supports(v.operation, operation->question(v), v.dtype)) offered.push_back(std::move(v));
      }
    }
  }
  return offered;
}

VariantWeights::VariantWeights(std::span<const Variant> variants) {
  for (const Operation* operation : all_operations()) {
    const auto is_it = [&](const Variant& v) { return find_operation(v.operation) == operation; };
    const auto begin = std::find_if(variants.begin(), variants.end(), is_it);
    const std::span<const Variant> mine(begin, std::find_if_not(begin, variants.end(), is_it));
    if (mine.empty()) continue;
    const auto fixed = operation->fixed_weight();
    parts_.push_back({mine, fixed.value_or(mine.size()), fixed.has_value()});
    total_ += parts_.back().weight;
  }
}

const Variant& VariantWeights::draw(Draw& draw) const {
  std::uint64_t at = draw.below(total_);
  for (const Part& part : parts_) {
    if (at < part.weight) return part.variants[part.fixed ? draw.below(part.variants.size()) : at];
    at -= part.weight;
  }
  return parts_.back().variants.back();
}

}  // namespace mxcheck
