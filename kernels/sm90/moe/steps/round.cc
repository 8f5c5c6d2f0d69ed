#include "kernels/sm90/moe/steps/round.h"

#include <algorithm>

#include "kernels/sm90/moe/steps/gather.h"

namespace mxcheck_kernels::sm90 {
namespace {

// rows x cols out of as many rows of x, or of fewer of `source_rows` that are gathered.
void add_round_trip(MoeBuilder& b, const char* name, const RoundTripJob& job, std::int64_t source_rows) {
  const std::int64_t outputs = (job.along_rows != nullptr ? 1 : 0) + (job.along_columns != nullptr ? 1 : 0);
  const std::uint64_t index = job.index == nullptr ? 0 : bytes_of(job.rows.rows, 1, 4);
  const std::uint64_t bytes = bytes_of(source_rows, job.cols, 2) + bytes_of(job.rows.rows, job.cols, 2 * outputs);
  const bool empty = job.rows.rows == 0 || job.cols == 0;
  b.add(name, MoeStepKind::quantize, bytes + index,
        [job, empty](cudaStream_t stream) { return empty ? cudaSuccess : launch_round_trip(job, stream); });
}

void set_along(RoundTripJob& job, Along along, std::uint16_t* to, RoundRule rule) {
  if (along == Along::rows) {
    job.along_rows = to, job.row_rule = rule;
  } else {
    job.along_columns = to, job.column_rule = rule;
  }
}

}  // namespace

MoeOperand gather_tokens(MoeBuilder& b, const char* name, const std::uint16_t* x) {
  const MoeCall& c = b.call();
  const Part part = b.memory.take(c.routed, 2 * c.d);
  auto* const to = b.memory.at<std::uint16_t>(part);
  add_gather(b, name, {x, to, 2 * c.d}, {});
  return {to, part};
}

MoeOperand rows_of_tokens(MoeBuilder& b, const TokenNames& names, const Checked& x, const MaybeRule& rule) {
  const MoeCall& c = b.call();
  const auto* const values = data_of<const std::uint16_t>(x);
  if (!rule) return gather_tokens(b, names.copy, values);
  const Part part = b.memory.take(c.tokens, 2 * c.d);
  RoundTripJob job;
  job.x = values, job.cols = c.d, job.rows = b.plain_rows(c.tokens);
  set_along(job, Along::rows, b.memory.at<std::uint16_t>(part), *rule);
  add_round_trip(b, names.values, job, c.tokens);
  const MoeOperand gathered = gather_tokens(b, names.copy, job.along_rows);
  b.memory.drop(part);
  return gathered;
}

MoeOperand round_gathered(MoeBuilder& b, const char* name, const Checked& x, RoundRule rule) {
  const MoeCall& c = b.call();
  const Part part = b.memory.take(c.routed, 2 * c.d);
  RoundTripJob job;
  job.x = data_of<const std::uint16_t>(x), job.cols = c.d, job.rows = b.routed_rows();
  job.index = data_of<const std::int32_t>(c.tensors.row_token);
  set_along(job, Along::columns, b.memory.at<std::uint16_t>(part), rule);
  add_round_trip(b, name, job, c.tokens < c.routed ? c.tokens : c.routed);
  return {job.along_columns, part};
}

MoeOperand round_weights(MoeBuilder& b, const char* name, const Checked& w, std::int64_t rows, std::int64_t cols,
                         Along along, const MaybeRule& rule) {
  const MoeCall& c = b.call();
  if (!rule) return {data_of<const std::uint16_t>(w), {}};
  const Part part = b.memory.take(c.experts * rows, 2 * cols);
  RoundTripJob job;
  job.x = data_of<const std::uint16_t>(w), job.cols = cols, job.expert_rows = rows;
  job.rows = b.plain_rows(c.experts * rows);
  set_along(job, along, b.memory.at<std::uint16_t>(part), *rule);
  add_round_trip(b, name, job, c.experts * rows);
  return {b.memory.at<const std::uint16_t>(part), part};
}

MoeOperand round_routed(MoeBuilder& b, const char* name, const Part& x, std::int64_t cols, Along along,
                        const MaybeRule& rule) {
  const MoeCall& c = b.call();
  if (!rule) return {b.memory.at<const std::uint16_t>(x), x};
  const Part part = b.memory.take(c.routed, 2 * cols);
  RoundTripJob job;
  job.x = b.memory.at<const std::uint16_t>(x), job.cols = cols;
  job.rows = along == Along::rows ? b.plain_rows(c.routed) : b.routed_rows();
  set_along(job, along, b.memory.at<std::uint16_t>(part), *rule);
  add_round_trip(b, name, job, c.routed);
  b.memory.drop(x);
  return {b.memory.at<const std::uint16_t>(part), part};
}

RoundedPair round_both(MoeBuilder& b, const char* name, const Part& x, std::int64_t cols, const MaybeRule& along_rows,
                       const MaybeRule& along_columns) {
  const MoeCall& c = b.call();
  const auto* const values = b.memory.at<const std::uint16_t>(x);
  RoundedPair pair{{values, {}}, {values, x}};
  if (!along_rows && !along_columns) return pair;
  RoundTripJob job;
  job.x = values, job.cols = cols, job.rows = b.routed_rows();
  const auto rounded = [&](Along along, const RoundRule& rule) -> MoeOperand {
    const Part part = b.memory.take(c.routed, 2 * cols);
    set_along(job, along, b.memory.at<std::uint16_t>(part), rule);
    return {b.memory.at<const std::uint16_t>(part), part};
  };
  if (along_rows) pair.rows = rounded(Along::rows, *along_rows);
  if (along_columns) pair.columns = rounded(Along::columns, *along_columns);
  if (!along_rows) pair.rows.part = x;
  add_round_trip(b, name, job, c.routed);
  if (along_rows && along_columns) b.memory.drop(x);
  return pair;
}

}  // namespace mxcheck_kernels::sm90
