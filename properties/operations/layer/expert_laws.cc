// What holds of blocks along tokens whatever the reference says: they end with their expert.

#include <algorithm>

#include "properties/operations/layer/problem.h"
#include "properties/operations/layer/statements.h"
#include "properties/operations/layer/tensors.h"
#include "properties/operations/layer/transposed_problem.h"
#include "properties/operations/scaled_blocks/fields.h"

namespace mxcheck {
namespace {

using Bytes = std::vector<std::byte>;

bool is_transpose(const Variant& v) { return v.operation == "quantize_transposed"; }

std::int64_t block_of(const Variant& v) { return is_transpose(v) ? blocks_of(v).block.rows : layer_of(v).block; }

// The same with empty experts before, between and after those that there are.
std::vector<std::int64_t> with_empty_experts(const Case& c) {
  const std::vector<std::int64_t> ends = c.experts.empty() ? std::vector<std::int64_t>{0, c.rows} : c.experts;
  std::vector<std::int64_t> all{0};
  for (const std::int64_t end : ends) all.insert(all.end(), 1 + static_cast<std::size_t>(c.seed % 2), end);
  all.push_back(c.rows);
  return all;
}

std::optional<Finding> empty_experts(CheckContext& context, const Case& c) {
  const std::unique_ptr<Problem> p = make_problem(c);
  const Got before = run_problem(context, *p);
  if (!before.usable()) return pass_on(context, before);
  Case more = c;
  more.experts = with_empty_experts(c);
  const Got after = run_problem(context, *make_problem(more));
  if (!after.usable()) return pass_on(context, after);
  for (std::size_t i = 0; i < p->outputs.size(); ++i) {
    if (auto f = differ(p->outputs[i], before.outputs[i], after.outputs[i],
                        p->outputs[i].name + " are others with experts that have no rows"))
      return f;
  }
  return std::nullopt;
}

// Columns [first, first + count) of a tensor of `cols` columns, whose lines are all that is known of it.
Bytes columns_of(const Bytes& from, const TensorInfo& info, std::int64_t first, std::int64_t count) {
  const auto element = static_cast<std::int64_t>(bytes_of_element(info));
  Bytes to;
  for (std::int64_t i = 0; i < info.rows; ++i) {
    const auto begin = from.begin() + (i * info.cols + first) * element;
    to.insert(to.end(), begin, begin + count * element);
  }
  return to;
}

// The rows [first, first + rows) as a problem of their own.
std::unique_ptr<Problem> alone(const Case& c, std::int64_t first, std::int64_t rows) {
  Case one = c;
  one.experts.clear(), one.rows = rows;
  if (!is_transpose(c.variant)) {
    layer_case(one).first_row += first;
    return std::make_unique<SwigluProblem>(one);
  }
  auto p = std::make_unique<TransposedProblem>(c);
  const Input all = p->gathered();
  const auto line = static_cast<std::ptrdiff_t>(all.row_bytes());
  p->c = one, p->c.gather = 0, p->index.clear();
  p->x = all, p->x.rows = rows;
  p->x.bytes.assign(all.bytes.begin() + first * line, all.bytes.begin() + (first + rows) * line);
  p->describe_outputs();
  return p;
}

std::optional<Finding> expert_alone(CheckContext& context, const Case& c) {
  if (c.experts.size() < 3) return nothing_claimed(context);
  const std::unique_ptr<Problem> p = make_problem(c);
  const Got all = run_problem(context, *p);
  if (!all.usable()) return pass_on(context, all);
  const auto rows_of = [&](std::size_t e) { return c.experts[e + 1] - c.experts[e]; };
  std::size_t largest = 0;
  for (std::size_t e = 1; e + 1 < c.experts.size(); ++e) {
    if (rows_of(e) > rows_of(largest)) largest = e;
  }
  const std::int64_t first = c.experts[largest];
  const std::int64_t block = block_of(c.variant);
  const std::int64_t scales_before = scales_along_rows(first, block, std::span(c.experts).first(largest + 1));
  const std::unique_ptr<Problem> one = alone(c, first, rows_of(largest));
  const Got got = run_problem(context, *one);
  if (!got.usable()) return pass_on(context, got);
  for (std::size_t i = 0; i < p->outputs.size(); ++i) {
    const TensorInfo& info = p->outputs[i];
    if (info.name.find("transposed") == std::string::npos) continue;
    const bool is_codes = info.name.find("codes") != std::string::npos;
    const Bytes part = columns_of(all.outputs[i], info, is_codes ? first : scales_before, one->outputs[i].cols);
    if (auto f = differ(one->outputs[i], got.outputs[i], part,
                        info.name + " of an expert among others are not those of it alone"))
      return f;
  }
  return std::nullopt;
}

bool has_offsets(const Variant& v, std::span<const Variant>) { return is_swiglu(v) || is_transpose(v); }
bool is_along_tokens(const Variant& v, std::span<const Variant>) {
  return writes(v, MXCHECK_COLUMNS_CODED) || is_transpose(v);
}

}  // namespace

std::vector<Statement> expert_law_statements() {
  std::vector<Statement> s{
      step_law("an_expert_without_rows_changes_nothing",
               "offsets that name further experts without rows, anywhere, give the same outputs", has_offsets,
               empty_experts),
      step_law("blocks_along_tokens_end_with_their_expert",
               "codes and scales along tokens of an expert among others are those of it alone", is_along_tokens,
               expert_alone),
  };
  s[1].experts = 100;
  return s;
}

}  // namespace mxcheck
