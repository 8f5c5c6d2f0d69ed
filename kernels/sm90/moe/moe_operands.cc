#include "kernels/sm90/moe/moe_operands.h"

#include <string>
#include <variant>

#include "kernels/common/refusal.h"
#include "kernels/sm90/moe/moe_kernels.h"
#include "kernels/sm90/moe/ms_eden_values.cuh"
#include "kernels/sm90/moe/two_level_values.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

// ---- NVFP4 ----

std::uint32_t stream_of(const MoeCall& c, std::uint32_t number) { return 0x80000000U | c.layer << 8 | number; }

// The tensor of an operand in NVFP4: x, of which the rows that `index` names are the matrix, or all.
struct TwoLevelSource {
  const std::uint16_t* x = nullptr;
  const std::int32_t* index = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t expert_rows = 0;
  TiledRows tiles;
  bool weights = false;  // results lie where those of weights do, and may be there already
};

// Refused before a step is enqueued: a call that keeps weights would else write those of the steps before.
void require_width(const char* name, bool is_taken, std::int64_t cols) {
  if (!is_taken) unsupported(std::string(name) + " of " + std::to_string(cols) + " columns is not offered");
}

// One step: the amax and the values, both of the rotated matrix where there is a rotation.
MoeOperand add_two_level(MoeBuilder& b, const char* name, const TwoLevelSource& from, Along along,
                         const TwoLevelRule& rule, RoundedOperand operand) {
  const MoeCall& c = b.call();
  Arena& results = from.weights ? b.weights() : b.memory;
  MoeOperand out;
  out.part = results.take(from.rows, 2 * from.cols);
  out.amax_part = results.take(1, sizeof(std::uint32_t));
  TwoLevelJob job;
  job.x = from.x, job.index = from.index, job.cols = from.cols, job.expert_rows = from.expert_rows;
  job.rows = from.tiles;
  job.blocks = rule.squares           ? TwoLevelBlocks::squares
               : along == Along::rows ? TwoLevelBlocks::rows
                                      : TwoLevelBlocks::columns;
  require_width(name, takes_two_level(job.blocks, job.cols), job.cols);
  job.by_columns = along == Along::columns, job.rule = rule;
  job.random = {c.seed, stream_of(c, static_cast<std::uint32_t>(operand)), c.step};
  job.values = results.at<std::uint16_t>(out.part), job.amax = results.at<std::uint32_t>(out.amax_part);
  out.values = job.values, out.amax = job.amax, out.unit = rule.four_over_six ? kFourOverSixUnit : kAmaxUnit;
  if (from.weights) out.part = b.droppable(out.part), out.amax_part = b.droppable(out.amax_part);
  if (from.weights && !c.quantizes_weights()) return out;
  // Each pass over the matrix once: the amax reads, the values read and write.
  b.add(name, MoeStepKind::quantize, bytes_of(from.rows, from.cols, 6),
        [job](cudaStream_t stream) { return launch_two_level(job, stream); });
  return out;
}

// One step: the rotation with the amax, and the values. `made`: x are values of two levels; of the outer scale it says
// what they are to be multiplied by.
MoeOperand add_ms_eden(MoeBuilder& b, const char* name, const TwoLevelSource& from, Along along, RoundedOperand operand,
                       const MoeOperand& made = {}) {
  const MoeCall& c = b.call();
  const auto number = static_cast<std::uint32_t>(operand);
  MoeOperand out;
  out.part = b.memory.take(from.rows, 2 * from.cols);
  out.amax_part = b.memory.take(1, sizeof(std::uint32_t));
  const Part rotated = b.memory.take(from.rows, 2 * from.cols);
  MsEdenJob job;
  job.x = from.x, job.index = from.index, job.cols = from.cols, job.rows = from.tiles;
  job.x_amax = made.amax, job.x_unit = made.unit;
  job.down_columns = along == Along::columns;
  require_width(name, takes_ms_eden(job.down_columns, job.cols), job.cols);
  job.random = {c.seed, stream_of(c, number), c.step};
  job.signs = stream_of(c, 16 + number / 2);
  job.rotated = b.memory.at<std::uint16_t>(rotated), job.values = b.memory.at<std::uint16_t>(out.part);
  job.amax = b.memory.at<std::uint32_t>(out.amax_part);
  out.values = job.values, out.amax = job.amax, out.unit = kEdenUnit;
  b.add(name, MoeStepKind::quantize, bytes_of(from.rows, from.cols, 8),
        [job](cudaStream_t stream) { return launch_ms_eden(job, stream); });
  b.memory.drop(rotated);
  return out;
}

// By a rule that is no RoundRule, of values.
MoeOperand add_nvfp4(MoeBuilder& b, const char* name, const TwoLevelSource& from, Along along, const OperandRule& rule,
                     RoundedOperand operand) {
  const auto* const two_level = std::get_if<TwoLevelRule>(&rule);
  return two_level != nullptr ? add_two_level(b, name, from, along, *two_level, operand)
                              : add_ms_eden(b, name, from, along, operand);
}

bool is_round_trip(const OperandRule& rule) { return std::holds_alternative<RoundRule>(rule); }
bool requantizes(const OperandRule& rule) {
  const auto* const eden = std::get_if<MsEdenRule>(&rule);
  return eden != nullptr && eden->requantizes;
}

// ---- Blocks of 32 ----

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

MoeOperand rows_of_tokens(MoeBuilder& b, const TokenNames& names, const Checked& x, RoundedOperand operand) {
  const MoeCall& c = b.call();
  const MaybeRule& rule = c.recipe->rule(operand);
  const auto* const values = data_of<const std::uint16_t>(x);
  if (!rule) return gather_tokens(b, names.copy, values);
  if (!is_round_trip(*rule)) {
    const TwoLevelSource from{values, nullptr, c.tokens, c.d, 0, b.plain_rows(c.tokens)};
    const MoeOperand by_token = add_nvfp4(b, names.values, from, Along::rows, *rule, operand);
    MoeOperand rows = gather_tokens(b, names.copy, by_token.values);
    b.memory.drop(by_token.part);
    rows.amax = by_token.amax, rows.amax_part = by_token.amax_part, rows.unit = by_token.unit;
    return rows;
  }
  const Part part = b.memory.take(c.tokens, 2 * c.d);
  RoundTripJob job;
  job.x = values, job.cols = c.d, job.rows = b.plain_rows(c.tokens);
  set_along(job, Along::rows, b.memory.at<std::uint16_t>(part), std::get<RoundRule>(*rule));
  add_round_trip(b, names.values, job, c.tokens);
  const MoeOperand gathered = gather_tokens(b, names.copy, job.along_rows);
  b.memory.drop(part);
  return gathered;
}

MoeOperand round_gathered(MoeBuilder& b, const char* name, const Checked& x, RoundedOperand operand) {
  const MoeCall& c = b.call();
  const OperandRule& rule = *c.recipe->rule(operand);
  TwoLevelSource from{data_of<const std::uint16_t>(x),
                      data_of<const std::int32_t>(c.tensors.row_token),
                      c.routed,
                      c.d,
                      0,
                      b.routed_rows()};
  if (requantizes(rule)) {  // X alone, of what up made of it
    const TwoLevelSource tokens{from.x, nullptr, c.tokens, c.d, 0, b.plain_rows(c.tokens)};
    const auto& forward = std::get<TwoLevelRule>(*c.recipe->rule(RoundedOperand::up_x));
    const MoeOperand made = add_two_level(b, "quantize X", tokens, Along::rows, forward, RoundedOperand::up_x);
    from.x = made.values;
    const MoeOperand out = add_ms_eden(b, name, from, Along::columns, operand, made);
    drop(b, made);
    return out;
  }
  if (!is_round_trip(rule)) return add_nvfp4(b, name, from, Along::columns, rule, operand);
  const Part part = b.memory.take(c.routed, 2 * c.d);
  RoundTripJob job;
  job.x = data_of<const std::uint16_t>(x), job.cols = c.d, job.rows = b.routed_rows();
  job.index = data_of<const std::int32_t>(c.tensors.row_token);
  set_along(job, Along::columns, b.memory.at<std::uint16_t>(part), std::get<RoundRule>(rule));
  add_round_trip(b, name, job, c.tokens < c.routed ? c.tokens : c.routed);
  return {job.along_columns, part};
}

MoeOperand round_weights(MoeBuilder& b, const char* name, const Checked& w, std::int64_t rows, std::int64_t cols,
                         Along along, RoundedOperand operand) {
  const MoeCall& c = b.call();
  const MaybeRule& rule = c.recipe->rule(operand);
  if (!rule) return {data_of<const std::uint16_t>(w), {}};
  TwoLevelSource from{data_of<const std::uint16_t>(w), nullptr, c.experts * rows, cols, rows,
                      b.plain_rows(c.experts * rows)};
  if (requantizes(*rule)) {  // W2 of d_down and W1 of d_up, of what down and up made of them
    const RoundedOperand before =
        operand == RoundedOperand::d_down_w2 ? RoundedOperand::down_w2 : RoundedOperand::up_w1;
    const auto& forward = std::get<TwoLevelRule>(*c.recipe->rule(before));
    const MoeOperand made = add_two_level(b, name, from, Along::columns, forward, before);
    from.x = made.values;
    const char* const again = before == RoundedOperand::down_w2 ? "requantize W2" : "requantize W1";
    const MoeOperand out = add_ms_eden(b, again, from, along, operand, made);
    drop(b, made);
    return out;
  }
  from.weights = true;
  if (!is_round_trip(*rule)) return add_nvfp4(b, name, from, along, *rule, operand);
  const Part part = b.weights().take(c.experts * rows, 2 * cols);
  const MoeOperand out{b.weights().at<const std::uint16_t>(part), b.droppable(part)};
  if (!c.quantizes_weights()) return out;
  RoundTripJob job;
  job.x = data_of<const std::uint16_t>(w), job.cols = cols, job.expert_rows = rows;
  job.rows = b.plain_rows(c.experts * rows);
  set_along(job, along, b.weights().at<std::uint16_t>(part), std::get<RoundRule>(*rule));
  add_round_trip(b, name, job, c.experts * rows);
  return out;
}

namespace {

// x [routed, cols] of the arena in NVFP4.
MoeOperand nvfp4_of_routed(MoeBuilder& b, const char* name, const Part& x, std::int64_t cols, Along along,
                           const OperandRule& rule, RoundedOperand operand) {
  const MoeCall& c = b.call();
  const TwoLevelSource from{b.memory.at<const std::uint16_t>(x),
                            nullptr,
                            c.routed,
                            cols,
                            0,
                            along == Along::rows ? b.plain_rows(c.routed) : b.routed_rows()};
  return add_nvfp4(b, name, from, along, rule, operand);
}

}  // namespace

MoeOperand round_routed(MoeBuilder& b, const char* name, const Part& x, std::int64_t cols, Along along,
                        RoundedOperand operand) {
  const MoeCall& c = b.call();
  const MaybeRule& rule = c.recipe->rule(operand);
  if (!rule) return {b.memory.at<const std::uint16_t>(x), x};
  if (!is_round_trip(*rule)) {
    const MoeOperand out = nvfp4_of_routed(b, name, x, cols, along, *rule, operand);
    b.memory.drop(x);
    return out;
  }
  const Part part = b.memory.take(c.routed, 2 * cols);
  RoundTripJob job;
  job.x = b.memory.at<const std::uint16_t>(x), job.cols = cols;
  job.rows = along == Along::rows ? b.plain_rows(c.routed) : b.routed_rows();
  set_along(job, along, b.memory.at<std::uint16_t>(part), std::get<RoundRule>(*rule));
  add_round_trip(b, name, job, c.routed);
  b.memory.drop(x);
  return {b.memory.at<const std::uint16_t>(part), part};
}

RoundedPair round_both(MoeBuilder& b, const PairNames& names, const Part& x, std::int64_t cols, RoundedOperand rows,
                       RoundedOperand columns) {
  const MoeCall& c = b.call();
  const MaybeRule& along_rows = c.recipe->rule(rows);
  const MaybeRule& along_columns = c.recipe->rule(columns);
  const auto* const values = b.memory.at<const std::uint16_t>(x);
  RoundedPair pair{{values, {}}, {values, x}};
  if (!along_rows && !along_columns) return pair;
  if (along_rows && along_columns && !is_round_trip(*along_rows)) {
    pair.rows = nvfp4_of_routed(b, names.rows, x, cols, Along::rows, *along_rows, rows);
    pair.columns = nvfp4_of_routed(b, names.columns, x, cols, Along::columns, *along_columns, columns);
    b.memory.drop(x);
    return pair;
  }
  RoundTripJob job;
  job.x = values, job.cols = cols, job.rows = b.routed_rows();
  const auto rounded = [&](Along along, const OperandRule& rule) -> MoeOperand {
    const Part part = b.memory.take(c.routed, 2 * cols);
    set_along(job, along, b.memory.at<std::uint16_t>(part), std::get<RoundRule>(rule));
    return {b.memory.at<const std::uint16_t>(part), part};
  };
  if (along_rows) pair.rows = rounded(Along::rows, *along_rows);
  if (along_columns) pair.columns = rounded(Along::columns, *along_columns);
  if (!along_rows) pair.rows.part = x;
  add_round_trip(b, names.rows, job, c.routed);
  if (along_rows && along_columns) b.memory.drop(x);
  return pair;
}

}  // namespace mxcheck_kernels::sm90
