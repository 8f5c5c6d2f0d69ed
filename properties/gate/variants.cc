#include "properties/gate/variants.h"

#include <algorithm>
#include <utility>

#include "properties/core/operation.h"

namespace mxcheck {
namespace {

std::size_t weight_in(std::span<const Variant> variants, const Operation& operation) {
  const std::size_t count = variants_of(variants, operation).size();
  return count == 0 ? 0 : operation.fixed_weight().value_or(count);
}

}  // namespace

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

std::size_t weight_of(std::span<const Variant> variants) {
  std::size_t weight = 0;
  for (const Operation* operation : all_operations()) weight += weight_in(variants, *operation);
  return weight;
}

std::span<const Variant> variants_of(std::span<const Variant> variants, const Operation& operation) {
  const auto is_it = [&](const Variant& v) { return find_operation(v.operation) == &operation; };
  const auto begin = std::find_if(variants.begin(), variants.end(), is_it);
  return {begin, std::find_if_not(begin, variants.end(), is_it)};
}

const Variant& draw_variant(std::span<const Variant> variants, Draw& draw) {
  std::uint64_t at = draw.below(weight_of(variants));
  for (const Operation* operation : all_operations()) {
    const std::size_t weight = weight_in(variants, *operation);
    if (at < weight) {
      const std::span<const Variant> mine = variants_of(variants, *operation);
      return operation->fixed_weight() ? mine[draw.below(mine.size())] : mine[at];
    }
    at -= weight;
  }
  return variants.back();
}

}  // namespace mxcheck
