#include "properties/core/operation.h"

#include <numeric>

#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/core/limits.h"

namespace mxcheck {

std::vector<std::size_t> Problem::order() const {
  std::vector<std::size_t> all(outputs.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

std::string Operation::variant_name(std::string_view) const { return std::string(name()); }

Policy Operation::question(const Variant& v) const {
  Case c;
  c.variant = v;
  return policy(c);
}

std::string Operation::shape_text(const Case&) const { return {}; }
std::string Operation::option_text(const Case&) const { return {}; }
void Operation::check(const Case&) const {}
void Operation::fit(Case&) const {}

void Operation::halve_rows(Case& c) const {
  c.rows /= 2;
  c.experts.clear();
}

bool Operation::is_option(const Case& c) const { return c.stride > c.cols || !c.experts.empty() || c.gather != 0; }
Case Operation::without_options(Case c) const {
  c.stride = c.gather = 0;
  c.experts.clear();
  return c;
}

bool Operation::has_invalid_calls(const Case& c) const { return c.rows >= 2 && c.cols >= 2; }

const std::vector<const Operation*>& all_operations() {
  static const std::vector<const Operation*> operations = [] {
    std::vector<const Operation*> all;
    for (const OperationModule& module : all_modules())
      all.insert(all.end(), module.operations.begin(), module.operations.end());
    return all;
  }();
  return operations;
}

const Operation* find_operation(std::string_view operation) {
  const std::string_view name = operation.substr(0, operation.find(':'));
  for (const Operation* o : all_operations()) {
    if (o->name() == name) return o;
  }
  return nullptr;
}

const Operation& operation_named(std::string_view operation) {
  const Operation* found = find_operation(operation);
  if (found != nullptr) return *found;
  throw Error(ErrorKind::usage, "there is no operation '" + std::string(operation) + "'; known are " +
                                    join(all_operations(), ", ", [](const Operation* o) { return o->name(); }));
}

const OperationInfo* CandidateRunner::operation(const std::string& name) const {
  for (const OperationInfo& o : info().operations) {
    if (o.name == name) return &o;
  }
  return nullptr;
}

bool offers(std::span<const Variant> variants, const Variant& wanted) {
  return std::find(variants.begin(), variants.end(), wanted) != variants.end();
}

}  // namespace mxcheck
