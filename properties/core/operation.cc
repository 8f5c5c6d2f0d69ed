#include "properties/core/operation.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "numerics/error.h"
#include "numerics/format/format.h"
#include "numerics/names.h"

namespace mxcheck {

CallTensor output_tensor(const TensorInfo& info) {
  CallTensor t;
  t.dtype = spec(info.format).is_value ? info.format : Format::e4m3;
  t.is_index = info.integer_bits == 32, t.is_offsets = info.integer_bits == 64;
  t.shape = info.is_vector ? std::vector<std::int64_t>{info.cols} : std::vector<std::int64_t>{info.rows, info.cols};
  t.bytes = static_cast<std::uint64_t>(info.rows * info.cols) * bytes_of_element(info);
  return t;
}

Call Problem::call() const {
  Call call;
  call.operation = c.variant.operation;
  call.policy = operation_named(call.operation).policy(c);
  for (ProblemInput& input : inputs()) call.inputs.push_back(std::move(input.tensor));
  for (const TensorInfo& info : outputs) call.outputs.push_back(output_tensor(info));
  return call;
}

std::vector<SavedTensor> Problem::saved() const {
  std::vector<SavedTensor> saved;
  for (ProblemInput& input : inputs()) {
    const std::byte* data = input.tensor.data;
    const std::size_t size = static_cast<std::size_t>(input.info.rows * input.info.cols) * bytes_of_element(input.info);
    std::string name = input.info.name;
    if (size != 0) saved.push_back({std::move(name), std::move(input.info), {data, data + size}});
  }
  return saved;
}

std::vector<std::size_t> Problem::order() const {
  std::vector<std::size_t> all(outputs.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

std::string Operation::variant_name(std::string_view contract) const {
  const bool is_claim = contract.starts_with("any_order") || contract.starts_with("as_accurate_as");
  if (is_claim) check_claim(contract);
  if (contract.starts_with("exact+") && !(may_have_col_stride() && contract == kExactOfAnyStrides)) {
    const std::string said = "'" + std::string(contract) + "' is no contract of " + std::string(name());
    throw Error(ErrorKind::usage, said + ": 'exact'" + (may_have_col_stride() ? " and 'exact+col_stride' are" : " is"));
  }
  return std::string(name()) + (is_claim ? ":" + std::string(contract) : "");
}

void Operation::check_claim(std::string_view claim) const {
  const auto known = claims();
  if (std::find(known.begin(), known.end(), claim) != known.end()) return;
  const std::string said = "'" + std::string(claim) + "' is no claim about " + std::string(name());
  throw Error(ErrorKind::usage,
              said + (known.empty() ? ", which promises bits" : known_names(claim, {known.begin(), known.end()})));
}

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

// Any strides are claimed by the table where it has them, and so no option of a call.
bool Operation::is_option(const Case& c) const {
  return (c.stride > c.cols && c.col_stride == 0) || !c.experts.empty() || c.gather != 0;
}
Case Operation::without_options(Case c) const {
  c.set_contiguous();
  c.gather = 0;
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
  throw Error(ErrorKind::usage, "there is no operation '" + std::string(operation) + "'" + known_operations(operation));
}

std::string known_operations(std::string_view given) {
  return known_names(given, all_operations(), [](const Operation* o) { return o->name(); });
}

std::string to_text(const Gpu& gpu) { return "GPU " + std::to_string(gpu.number) + " (" + gpu.uuid + ")"; }

const OperationInfo* CandidateRunner::operation(const std::string& name) const {
  for (const OperationInfo& o : info().operations) {
    if (o.name == name) return &o;
  }
  return nullptr;
}

bool promises_bits(const Variant& v) { return operation_named(v.operation).promises_bits(v.operation); }

std::int64_t cost_of(const Case& c) {
  constexpr std::int64_t kOfACall = 1000;
  return kOfACall + operation_named(c.variant.operation).work(c);
}

}  // namespace mxcheck
