// The rows of each token, added up in the order of its slots.

#include <atomic>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/common/layer/tensors.h"
#include "kernels/cpu/arguments.h"
#include "kernels/cpu/layer/codes.h"
#include "kernels/cpu/partition.h"

namespace mxcheck_kernels::cpu {
namespace {

const std::int64_t* offsets_of(const AggregateTensors& x) {
  return static_cast<const std::int64_t*>(x.token_offsets.data);
}
const std::int32_t* rows_of(const AggregateTensors& x) { return static_cast<const std::int32_t*>(x.token_rows.data); }

void check_slots(const AggregateTensors& x) {
  const std::int64_t* const offsets = offsets_of(x);
  const std::int64_t slots = x.token_rows.cols;
  if (offsets[0] != 0) invalid("token_offsets[0] is " + std::to_string(offsets[0]) + ": must be 0");
  for (std::int64_t t = 1; t <= x.tokens; ++t) {
    if (offsets[t] >= offsets[t - 1] && offsets[t] <= slots) continue;
    invalid("token_offsets[" + std::to_string(t) + "] is " + std::to_string(offsets[t]) + ": must be " +
            std::to_string(offsets[t - 1]) + " to " + std::to_string(slots));
  }
  if (offsets[x.tokens] != slots) {
    invalid("the last of token_offsets is " + std::to_string(offsets[x.tokens]) + ": must be the number of slots, " +
            std::to_string(slots));
  }
  for (std::int64_t i = 0; i < slots; ++i) {
    const std::int64_t row = rows_of(x)[i];
    if (row >= -1 && row < x.y.rows) continue;
    invalid("token_rows[" + std::to_string(i) + "] is " + std::to_string(row) + ": must be -1 to " +
            std::to_string(x.y.rows - 1));
  }
}

void add_rows(const AggregateTensors& x, std::int64_t token, bool weighted, std::vector<float>& sum) {
  sum.assign(static_cast<std::size_t>(x.cols), 0.0F);
  for (std::int64_t slot = offsets_of(x)[token]; slot < offsets_of(x)[token + 1]; ++slot) {
    const std::int64_t row = rows_of(x)[slot];
    if (row < 0) continue;
    const auto* const y = static_cast<const std::uint16_t*>(x.y.data) + row * x.cols;
    const float weight = weighted ? static_cast<const float*>(x.weights.data)[row] : 1;
    for (std::size_t j = 0; j < sum.size(); ++j)
      sum[j] = weighted ? std::fma(weight, fp32_of(y[j]), sum[j]) : sum[j] + fp32_of(y[j]);
  }
}

}  // namespace

void add_rows_of_tokens(const AggregateTensors& x, bool weighted, std::int32_t threads) {
  if (x.o.bytes == 0) return;
  const std::int64_t parts = part_count(x.tokens, static_cast<std::int64_t>(x.o.bytes), threads);
  std::vector<std::vector<float>> sums(static_cast<std::size_t>(parts));
  for (std::vector<float>& sum : sums) sum.reserve(static_cast<std::size_t>(x.cols));
  std::atomic<std::size_t> next{0};
  for_each_part(x.tokens, parts, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float>& sum = sums[next++];
    for (std::int64_t t = begin; t < end; ++t) {
      add_rows(x, t, weighted, sum);
      auto* const o = static_cast<std::uint16_t*>(x.o.data) + t * x.cols;
      for (std::size_t j = 0; j < sum.size(); ++j) o[j] = bf16_of(sum[j]);
    }
  });
}

void run_aggregate(const mxcheck_call& call) {
  if (call.inputs == nullptr || call.num_inputs < 1) invalid("there is no input: y is missing");
  const bool weighted = read_aggregate_policy(call.policy, call.inputs[0].dtype);
  const AggregateTensors x = read_aggregate(call, weighted, check_tensor);
  check_slots(x);
  add_rows_of_tokens(x, weighted, call.policy->threads);
}

}  // namespace mxcheck_kernels::cpu
