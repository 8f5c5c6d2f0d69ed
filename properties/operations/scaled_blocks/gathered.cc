#include "properties/operations/scaled_blocks/gathered.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "properties/core/limits.h"

namespace mxcheck {

Gathered gather_from(Input& matrix, std::uint64_t seed, std::int64_t source_rows) {
  const std::size_t line = matrix.row_bytes();
  Gathered gathered{draw_index(seed, matrix.rows, source_rows), {}};
  gathered.source.assign(static_cast<std::size_t>(source_rows) * line, std::byte{0xFF});
  std::vector<bool> used(static_cast<std::size_t>(source_rows));
  for (std::size_t i = 0; i < gathered.index.size(); ++i) {
    const auto from = static_cast<std::size_t>(gathered.index[i]);
    std::byte* row = matrix.bytes.data() + i * line;
    if (line == 0) continue;
    if (!used[from]) std::memcpy(gathered.source.data() + from * line, row, line);
    if (used[from]) std::memcpy(row, gathered.source.data() + from * line, line);
    used[from] = true;
  }
  return gathered;
}

namespace {

// x with a column stride, and its rows by index if there is one: contiguous.
Input matrix_of_strided(const CallTensor& x, const Case& c, const std::vector<std::int32_t>& from) {
  Input input{{}, x.dtype, c.rows, c.cols, c.cols};
  const std::size_t width = value_bytes(x.dtype);
  input.bytes.resize(static_cast<std::size_t>(c.rows) * input.row_bytes());
  std::byte* to = input.bytes.data();
  for (std::int64_t i = 0; i < c.rows; ++i) {
    const std::int64_t row = from.empty() ? i : from[static_cast<std::size_t>(i)];
    for (std::int64_t j = 0; j < c.cols; ++j, to += width) {
      const std::size_t at = static_cast<std::size_t>(row * x.strides[0] + j * x.strides[1]) * width;
      if (at + width > x.bytes) throw Error(ErrorKind::internal, "a call whose x is too short");
      std::memcpy(to, x.data + at, width);
    }
  }
  return input;
}

}  // namespace

Input matrix_of_call(const Call& call, const Case& c) {
  const CallTensor& x = call.inputs[0];
  const CallTensor* index = nullptr;
  for (const CallTensor& tensor : call.inputs) {
    if (tensor.is_index) index = &tensor;
  }
  // Rows by index, if there is one, with the stride that the call has.
  std::vector<std::int32_t> from;
  if (index != nullptr) from = values_in<std::int32_t>({index->data, index->bytes});
  if (!x.strides.empty()) return matrix_of_strided(x, c, from);
  Input input{{}, x.dtype, c.rows, c.cols, x.row_stride != 0 ? x.row_stride : c.cols};
  const std::size_t line = static_cast<std::size_t>(c.cols) * value_bytes(x.dtype);
  const std::size_t step = input.row_bytes();
  const std::size_t bytes = static_cast<std::size_t>(c.rows) * step;
  if (index == nullptr && step == line && bytes <= x.bytes) {  // every row where it is, and no gaps between them
    input.bytes.assign(x.data, x.data + bytes);
    return input;
  }
  input.bytes.resize(bytes);
  for (std::size_t i = 0; i < static_cast<std::size_t>(c.rows) && line != 0; ++i) {
    const std::size_t row = index != nullptr ? static_cast<std::size_t>(from[i]) : i;
    if (row * step + line > x.bytes) throw Error(ErrorKind::internal, "a call whose x is too short");
    std::memcpy(input.bytes.data() + i * step, x.data + row * step, line);
  }
  return input;
}

std::string gathered_line(const Gathered& gathered, std::int64_t row) {
  return fmt::format("gathered  row {} is row {} of the source", row, gathered.index[static_cast<std::size_t>(row)]);
}

namespace {

struct OtherRows {
  std::string name;
  std::vector<std::int64_t> rows;  // of the source
};

// Other rows than those that the index names; some may not be there.
std::vector<OtherRows> other_rows(const Gathered& gathered, std::span<const std::int64_t> offsets) {
  const std::vector<std::int64_t> right(gathered.index.begin(), gathered.index.end());
  const std::size_t rows = right.size();
  std::vector<OtherRows> all;
  const auto add = [&](const char* name, const std::function<std::int64_t(std::size_t)>& row_of) {
    std::vector<std::int64_t> from;
    for (std::size_t i = 0; i < rows; ++i) from.push_back(row_of(i));
    if (from != right) all.push_back({name, std::move(from)});
  };
  add("rows are not gathered", [](std::size_t i) { return static_cast<std::int64_t>(i); });
  add("the row index is read as 16 bits", [&](std::size_t i) { return right[i] & 0xFFFF; });
  add("the row index of the row before", [&](std::size_t i) { return right[i == 0 ? 0 : i - 1]; });
  add("the row index of the row after", [&](std::size_t i) { return right[std::min(i + 1, rows - 1)]; });
  add("the last row has the row index of the one before it",
      [&](std::size_t i) { return right[i > 0 && i + 1 == rows ? i - 1 : i]; });
  add("the row before the one that the row index names", [&](std::size_t i) { return right[i] - 1; });
  add("the row index begins again at each expert", [&](std::size_t i) {
    const auto row = static_cast<std::int64_t>(i);
    const auto after = std::upper_bound(offsets.begin(), offsets.end(), row);
    return right[static_cast<std::size_t>(after == offsets.begin() ? row : row - *(after - 1))];
  });
  return all;
}

}  // namespace

Table gather_table(const Gathered& gathered, const Input& matrix, std::span<const std::int64_t> offsets,
                   const std::function<std::vector<Bytes>(Input matrix)>& outputs_of) {
  const std::size_t line = matrix.row_bytes();
  if (line == 0 || matrix.rows == 0) return {};
  const auto source = std::make_shared<const std::vector<std::byte>>(gathered.source);
  const auto source_rows = static_cast<std::int64_t>(gathered.source.size() / line);
  const Input shape{{}, matrix.dtype, matrix.rows, matrix.cols, matrix.stride};
  const auto memo = std::make_shared<AnswerMemo>();
  Table table;
  for (OtherRows& other : other_rows(gathered, offsets)) {
    const auto is_there = [&](std::int64_t row) { return row >= 0 && row < source_rows; };
    if (!std::ranges::all_of(other.rows, is_there)) continue;
    const auto answer = [source, shape, line, outputs_of, rows = std::move(other.rows)] {
      Input x = shape;
      for (const std::int64_t row : rows) {
        const auto from = source->begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row) * line);
        x.bytes.insert(x.bytes.end(), from, from + static_cast<std::ptrdiff_t>(line));
      }
      return outputs_of(std::move(x));
    };
    table.push_back(definition_of_all(std::move(other.name), answer, memo));
  }
  return table;
}

}  // namespace mxcheck
