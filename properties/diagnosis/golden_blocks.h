#pragma once
// A quantize golden as a problem of blocks: the part in which a cause is looked for, and what its wrong elements have
// in common.

#include <cstdint>
#include <string>
#include <vector>

#include "properties/goldens/kind.h"
#include "properties/operations/scaled_blocks/definitions.h"

namespace mxcheck {

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
