#pragma once
// The tensors of a counterexample: what the case holds, the reference's answer, and what the candidate returns when it
// is called again.

#include <cstddef>
#include <optional>
#include <vector>

#include "properties/core/operation.h"
#include "properties/gate/gate.h"

namespace mxcheck {

struct ExampleTensors {
  std::vector<SavedTensor> inputs;
  std::vector<ExpectedTensor> expected;
  struct Observed {
    TensorInfo info;
    std::vector<std::byte> bytes;
  };
  std::vector<Observed> observed;  // empty: a fault, or a failure that was not met again
};

// The tensors of the smallest case, after the calls that it fails after. Nothing for a case whose answer the reference
// would need minutes for.
std::optional<ExampleTensors> tensors_of_minimal(const GateReport& report, const Counterexample& e,
                                                 const GateOptions& options);

// The tensors of the case as it was found, in a fresh process; nothing where that is the smallest one, is large (more
// than 2^20 elements), or where the failure is no difference of bytes.
std::optional<ExampleTensors> tensors_of_original(const Counterexample& e, const GateOptions& options);

}  // namespace mxcheck
