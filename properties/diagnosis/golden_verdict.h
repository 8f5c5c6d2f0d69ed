#pragma once
// A candidate's tensors against a golden's: form first, then bits, then why.
//
// The verdict is by bits. Any NaN equals any other in float32 and 16-bit values (IEEE 754 leaves payloads open); in
// codes and scale bytes bits decide. Causes are named when they explain at least half of what is wrong and contradict
// hardly anything that is right (properties/diagnosis/cause.h); otherwise nothing is named.
//
// Errors: Error{golden} for a golden that is none of mxcheck's kinds; the candidate's own errors become verdicts.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "goldens/format/golden.h"
#include "properties/core/compare.h"
#include "properties/goldens/kind.h"
#include "properties/operations/scaled_blocks/definitions.h"

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

// A quantize golden as a problem of blocks: the part in which a cause is looked for, and what its wrong elements have
// in common.

// The problem that a quantize golden states, without the candidate's own scales.
BlocksProblem problem_of(const GoldenTensors& golden);

// Whole rows of blocks, `rows` of them at least, from the one that holds `row` on: what a cause is looked for in when
// the whole would take too long.
struct Window {
  std::int64_t first_row = 0;
  std::int64_t end_row = 0;
  std::int64_t first_scale_row = 0;
  std::int64_t end_scale_row = 0;
};
Window window_at(const BlocksProblem& p, std::int64_t row, std::int64_t rows);
BlocksProblem cut(const BlocksProblem& p, const Window& window);

// Properties that all wrong elements have and the right ones lack, when no cause is known: "only blocks with ...".
std::vector<std::string> common_to_wrong_codes(const BlocksProblem& p, const AnswerTensor& codes);
std::vector<std::string> common_to_wrong_scales(const BlocksProblem& p, const AnswerTensor& scales);

}  // namespace mxcheck
