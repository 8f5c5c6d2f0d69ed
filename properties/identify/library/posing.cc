#include "properties/identify/library/posing.h"

#include <cstring>
#include <utility>

#include "numerics/error.h"
#include "numerics/format/format.h"
#include "properties/core/check.h"
#include "properties/core/limits.h"

namespace mxcheck {
namespace {

std::size_t width_of(const CallTensor& t) {
  if (t.is_offsets) return 8;
  if (t.is_index) return 4;
  return spec(t.dtype).bits <= 8 ? 1 : spec(t.dtype).bits <= 16 ? 2 : 4;
}

std::int64_t raised(std::int64_t extent, std::int64_t multiple, std::int64_t limit, const char* what) {
  const std::int64_t raised = to_multiple(extent, multiple, limit);
  if (raised >= extent) return raised;
  throw CallFailed{false, "not probed: it takes at most " + std::to_string(limit) + " " + what +
                              ", and the inputs have " + std::to_string(extent)};
}

Case case_of(const CandidateRunner& runner, const Variant& variant, std::int64_t rows, std::int64_t cols,
             const std::function<void(Case&)>& edit) {
  Case c;
  c.variant = variant;
  c.rows = rows, c.cols = cols;
  if (const OperationInfo* limits = runner.operation(variant.operation)) {
    c.rows = raised(rows, limits->rows_multiple, limits->max_rows, "rows");
    c.cols = raised(cols, limits->cols_multiple, limits->max_cols, "columns");
  }
  if (edit) edit(c);
  return c;
}

}  // namespace

Posing::Posing(CandidateRunner& runner, const Variant& variant, std::int64_t rows, std::int64_t cols,
               const std::function<void(Case&)>& edit)
    : runner_(runner), problem_(make_problem(case_of(runner, variant, rows, cols, edit))), call_(problem_->call()) {}

void Posing::set(std::size_t input, Format type, const std::vector<std::uint32_t>& words, std::int64_t rows,
                 std::int64_t cols, std::uint32_t fill) {
  CallTensor& t = call_.inputs.at(input);
  const std::size_t width = width_of(t);
  const std::int64_t all_cols = t.shape.back();
  if (t.shape.size() != 2 || t.shape[0] < rows || all_cols < cols || t.bytes % width != 0 ||
      static_cast<std::int64_t>(words.size()) != rows * cols || (width > 1 && spec(type).bits > 8 && t.dtype != type)) {
    throw Error(ErrorKind::internal, "an input that does not fit its case");
  }
  std::vector<std::byte> bytes(t.bytes);
  for (std::int64_t i = 0; i < t.shape[0] * all_cols; ++i) {
    const std::int64_t row = i / all_cols;
    const std::int64_t col = i % all_cols;
    const bool inside = row < rows && col < cols;
    const std::uint32_t word = inside ? words[static_cast<std::size_t>(row * cols + col)] : fill;
    std::memcpy(bytes.data() + static_cast<std::size_t>(i) * width, &word, width);
  }
  t.data = call_.own(std::move(bytes));
}

void Posing::run() {
  CallVerdict ran = judged(runner_.run(call_), problem_->c);
  if (ran.finding) throw CallFailed{ran.finding->kind == FindingKind::fault, ran.finding->summary};
  if (!ran.outcome) throw CallFailed{false, "the candidate does not offer this call"};
  outputs_ = std::move(ran.outcome->outputs);
}

std::vector<std::uint32_t> Posing::words(std::size_t output, std::int64_t rows, std::int64_t cols) const {
  const CallTensor& t = call_.outputs.at(output);
  const std::size_t width = width_of(t);
  const std::int64_t all_cols = t.shape.back();
  const std::vector<std::byte>& bytes = outputs_.at(output);
  if (t.shape.size() != 2 || t.shape[0] < rows || all_cols < cols ||
      bytes.size() < static_cast<std::size_t>(t.shape[0] * all_cols) * width) {
    throw Error(ErrorKind::internal, "an output that does not fit its case");
  }
  std::vector<std::uint32_t> words;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < cols; ++col) {
      words.push_back(
          static_cast<std::uint32_t>(word_at(bytes, width, static_cast<std::size_t>(row * all_cols + col))));
    }
  }
  return words;
}

}  // namespace mxcheck
