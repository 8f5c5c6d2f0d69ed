#pragma once
// Rows by index, of the operations that take a row index: row i of the matrix that is quantized is row index[i] of x,
// which then has any number of rows.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "properties/core/call.h"
#include "properties/core/case.h"
#include "properties/core/definitions.h"
#include "properties/core/input.h"

namespace mxcheck {

struct Gathered {
  std::vector<std::int32_t> index;
  std::vector<std::byte> source;  // rows with the stride of the matrix; those that nothing names hold NaN
};

// Source rows for the matrix, drawn by the seed. Where the index names one twice, the later row becomes the first.
Gathered gather_from(Input& matrix, std::uint64_t seed, std::int64_t source_rows);

// x of a call as it is quantized: its rows by index, if there is one; contiguous if it has a column stride.
Input matrix_of_call(const Call& call, const Case& c);

// "gathered  row 3 is row 7 of the source"
std::string gathered_line(const Gathered& gathered, std::int64_t row);

// Rows of a table about matrices of other source rows: outputs_of computes the outputs for one.
Table gather_table(const Gathered& gathered, const Input& matrix, std::span<const std::int64_t> offsets,
                   const std::function<std::vector<Bytes>(Input matrix)>& outputs_of);

}  // namespace mxcheck
