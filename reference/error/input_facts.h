#pragma once
// Statistics of a tensor, and the error of rounding it to BF16, beside which recipes are shown.
//
// Errors: Error{usage} for a matrix without elements.

#include <cstdint>

#include "numerics/measure/measures.h"
#include "reference/common/matrix.h"

namespace mxcheck {

// Statistics of the input.
struct InputFacts {
  std::uint64_t count = 0;
  std::uint64_t zeros = 0;
  std::uint64_t nan = 0;
  std::uint64_t infinite = 0;
  float largest = 0;  // magnitude of the largest and the smallest finite nonzero element; 0 where there are none
  float smallest = 0;

  void add(const InputFacts& other);  // of another part of the tensor
};
InputFacts input_facts(const MatrixView& input);

// The input rounded to BF16 (nearest even), by the same measures: what a recipe is compared with.
ErrorMeasures study_bf16(const MatrixView& input);
// A panel's share of it.
ErrorMeter::Part measure_bf16(const ErrorMeter& meter, const MatrixView& input);

// Error{usage} unless it is a matrix with elements; of a matrix that is not there yet, by its size.
void check_has_elements(const MatrixView& input);
void check_has_elements(std::int64_t rows, std::int64_t cols);

}  // namespace mxcheck
