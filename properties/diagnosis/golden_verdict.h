#pragma once
// A candidate's tensors against a golden's: form first, then bits, then why.
//
// The verdict is by bits. Any NaN equals any other in float32 and 16-bit values (IEEE 754 leaves payloads open); in
// codes and scale bytes bits decide. Causes are named when they explain at least half of what is wrong and contradict
// hardly anything that is right (properties/diagnosis/cause.h); otherwise nothing is named.
//
// Errors: Error{golden} for a golden that is none of mxcheck's kinds; the candidate's own errors become verdicts.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "goldens/format/golden.h"
#include "properties/core/compare.h"
#include "properties/goldens/kind.h"

namespace mxcheck {

enum class DatasetVerdict { equal, different, missing, unreadable, wrong_dtype, wrong_shape };

struct DatasetResult {
  DatasetInfo expected;
  DatasetVerdict verdict = DatasetVerdict::equal;
  std::vector<std::string> notes;        // about the form, and what would be right
  std::optional<Difference> difference;  // different
  std::vector<std::string> element;      // lines about the first differing element
  std::vector<std::string> causes;       // likeliest first
};

struct GoldenVerdict {
  std::vector<DatasetResult> results;  // in the golden's order, outputs only
  [[nodiscard]] bool equal() const;
};

// only: names of outputs; empty means all. Error{usage} for a name that is no output.
GoldenVerdict judge(const GoldenTensors& golden, const CandidateTensor& candidate,
                    const std::vector<std::string>& only = {});

// The candidate's tensor where its elements can be compared, and the result as far as its form decides it.
struct FormResult {
  DatasetResult result;
  std::optional<Tensor> comparable;
};
FormResult judge_form(const DatasetInfo& info, const CandidateTensor& candidate);

std::string_view verdict_word(DatasetVerdict verdict);

// A candidate's tensors against a golden of the kind layer: in the order of the steps, each also against what the
// candidate's own earlier tensors give, so that one fault is told once (properties/diagnosis/layer/verdict.h).

// only: names of outputs, which the golden has; empty means all. Tensors that the candidate lacks are made again from
// those that it has. Error{golden} for a golden whose attributes and datasets are no layer's.
GoldenVerdict judge_layer_golden(const GoldenTensors& golden, const CandidateTensor& candidate,
                                 const std::vector<std::string>& only);

}  // namespace mxcheck
