#include "reference/error/input_facts.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "numerics/error.h"
#include "numerics/format/codec.h"

namespace mxcheck {

void check_has_elements(std::int64_t rows, std::int64_t cols) {
  if (rows != 0 && cols != 0) return;
  throw Error(ErrorKind::usage,
              "a matrix of " + std::to_string(rows) + " x " + std::to_string(cols) + " has no elements to measure");
}

void check_has_elements(const MatrixView& input) {
  check_matrix(input);
  check_has_elements(input.rows, input.cols);
}

void InputFacts::add(const InputFacts& other) {
  count += other.count;
  zeros += other.zeros;
  nan += other.nan;
  infinite += other.infinite;
  largest = std::max(largest, other.largest);
  if (other.smallest > 0) smallest = smallest == 0 ? other.smallest : std::min(smallest, other.smallest);
}

InputFacts input_facts(const MatrixView& input) {
  check_has_elements(input);
  InputFacts facts;
  std::vector<float> row(static_cast<std::size_t>(input.cols));
  for (std::int64_t r = 0; r < input.rows; ++r) {
    input.read_row(r, row);
    for (const float x : row) {
      ++facts.count;
      const float magnitude = std::fabs(x);
      if (std::isnan(x)) {
        ++facts.nan;
      } else if (std::isinf(x)) {
        ++facts.infinite;
      } else if (x == 0) {
        ++facts.zeros;
      } else {
        facts.largest = std::max(facts.largest, magnitude);
        facts.smallest = facts.smallest == 0 ? magnitude : std::min(facts.smallest, magnitude);
      }
    }
  }
  return facts;
}

ErrorMeter::Part measure_bf16(const ErrorMeter& meter, const MatrixView& input) {
  check_has_elements(input);
  ErrorMeter::Part part = meter.part(static_cast<std::uint64_t>(input.first_row * input.cols));
  constexpr std::uint32_t kLargestCode = 0x7F7F;
  const double largest = decode(Format::bf16, kLargestCode);
  std::vector<float> row(static_cast<std::size_t>(input.cols)), back(row.size());
  for (std::int64_t r = 0; r < input.rows; ++r) {
    input.read_row(r, row);
    if (input.dtype == Format::bf16) {
      part.add(row, row);
      continue;
    }
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::uint32_t code = encode<Bf16>(row[c], Rounding::nearest_even, Overflow::non_saturate).bits;
      back[c] = std::bit_cast<float>(code << 16);
      const float magnitude = std::fabs(row[c]);
      part.flushed += back[c] == 0 && magnitude > 0 ? 1 : 0;
      part.saturated += (code & 0x7FFF) == kLargestCode && magnitude > largest ? 1 : 0;
    }
    part.add(row, back);
  }
  return part;
}

ErrorMeasures study_bf16(const MatrixView& input) {
  ErrorMeter meter;
  do {
    meter.add(measure_bf16(meter, input));
  } while (!meter.finish_pass());
  return meter.measures();
}

}  // namespace mxcheck
