#include "properties/records/reference_runner.h"

#include <utility>

#include "numerics/error.h"

namespace mxcheck {

std::unique_ptr<Problem> problem_of(const Call& call) {
  if (call.inputs.empty() || call.outputs.empty()) throw Error(ErrorKind::internal, "a call without tensors");
  return operation_named(call.operation).problem_of(call);
}

Outcome ReferenceRunner::run(const Call& call) {
  Outcome outcome;
  for (ExpectedTensor& tensor : problem_of(call)->answer()) outcome.outputs.push_back(std::move(tensor.bytes));
  return outcome;
}

}  // namespace mxcheck
