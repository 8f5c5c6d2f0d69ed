#pragma once
// The part of a quantize golden in which a cause is looked for, and what its wrong elements have in common.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "goldens/format/golden.h"
#include "properties/diagnosis/cause.h"
#include "properties/operations/scaled_blocks/definitions.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {

// A list of numbers as the bytes that a dataset holds.
template <class T>
std::vector<std::byte> dataset_bytes(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

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
