// Rows of all ranks' tokens to the ranks of their experts, and each token's rows back and added up: the operations of
// kernels/candidate_dispatch.h. Bytes are copied rank by rank, in the order in which rows stand.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/candidate_dispatch.h"
#include "kernels/common/arguments.h"
#include "kernels/common/layer/tensors.h"
#include "kernels/cpu/arguments.h"
#include "kernels/cpu/layer/codes.h"
#include "kernels/cpu/partition.h"

namespace mxcheck_kernels::cpu {
namespace {

constexpr std::int64_t kScaleBlock = 128;

struct DispatchRoutes {
  std::int64_t tokens = 0, ranks = 0, experts = 0, routed = 0, capacity = 0;
  Checked rank_tokens, expert_rank, token_offsets, slot_experts;
  [[nodiscard]] std::int64_t slots() const { return slot_experts.cols; }
  [[nodiscard]] const std::int64_t* token_slots() const { return static_cast<const std::int64_t*>(token_offsets.data); }
  [[nodiscard]] const std::int64_t* rank_ends() const { return static_cast<const std::int64_t*>(rank_tokens.data); }
  [[nodiscard]] std::int32_t rank_of(std::int64_t expert) const {
    return static_cast<const std::int32_t*>(expert_rank.data)[expert];
  }
  [[nodiscard]] std::int32_t expert_of(std::int64_t slot) const {
    return static_cast<const std::int32_t*>(slot_experts.data)[slot];
  }
};

// The place of each row, before anything is written.
struct Places {
  std::vector<std::int64_t> first;      // of each expert's rows
  std::vector<std::int32_t> slot_rows;  // of each slot; -1: dropped
  std::vector<std::int32_t> row_token;  // of each row; -1: nothing fills it
  std::vector<std::int64_t> counts;     // ranks x experts
};

struct Offer {
  bool coded = false;
  bool weighted = false;
};

Offer read_policy(const mxcheck_policy* policy, DLDataType wide, bool combines) {
  const auto& p = policy_of<mxcheck_dispatch_policy>(policy, ", that of mxcheck_dispatch_policy");
  if (p.policy.threads < 0) invalid("policy.threads is " + std::to_string(p.policy.threads) + ": must be 0 or more");
  if (p.policy.layout != MXCHECK_COMPACT)
    invalid("policy.layout is " + std::to_string(p.policy.layout) + ": must be 0 (compact)");
  if (p.policy.format == nullptr || p.policy.recipe == nullptr) invalid("policy.format or recipe is null");
  if (*p.policy.recipe != '\0') invalid("policy.recipe is \"" + std::string(p.policy.recipe) + "\": must be \"\"");
  require_flag("weighted", p.weighted);
  if (!combines && p.weighted != 0) invalid("policy.weighted is 1: nothing is weighted by dispatch, must be 0");
  Offer offer{!combines && same(wide, kByteType), p.weighted != 0};
  if (!offer.coded && !same(wide, kBf16Type)) unsupported("rows are offered in BF16, those of dispatch as codes too");
  const bool has_format = *p.policy.format != '\0';
  if (has_format != offer.coded) {
    invalid(std::string("policy.format is \"") + p.policy.format + "\": must be " +
            (offer.coded ? "that of the codes" : "\"\" for rows in BF16"));
  }
  if (offer.coded) element_named(p.policy.format);
  const std::int64_t block_rows = offer.coded ? 1 : 0;
  const std::int64_t block_cols = offer.coded ? kScaleBlock : 0;
  if (p.policy.block_rows != block_rows || p.policy.block_cols != block_cols) {
    invalid("blocks are " + std::to_string(p.policy.block_rows) + "x" + std::to_string(p.policy.block_cols) +
            ": must be " + std::to_string(block_rows) + "x" + std::to_string(block_cols));
  }
  return offer;
}

// The last four inputs.
DispatchRoutes read_routes(const mxcheck_call& call) {
  const auto& p = policy_of<mxcheck_dispatch_policy>(call.policy);
  DispatchRoutes r{p.policy.rows, p.ranks, p.experts, p.routed, p.capacity, {}, {}, {}, {}};
  if (p.policy.rows < 0 || p.policy.cols < 0) invalid("policy.rows or cols is negative: must be 0 or more");
  if (r.ranks < 1) invalid("policy.ranks is " + std::to_string(r.ranks) + ": must be 1 or more");
  if (r.experts < 1) invalid("policy.experts is " + std::to_string(r.experts) + ": must be 1 or more");
  if (r.capacity < 0) invalid("policy.capacity is " + std::to_string(r.capacity) + ": must be 0 or more");
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (r.routed < 0 || r.routed > kMost)
    invalid("policy.routed is " + std::to_string(r.routed) + ": must be 0 to " + std::to_string(kMost));
  std::int64_t rows = 0;
  if (r.capacity > 0 && (__builtin_mul_overflow(r.capacity, r.experts, &rows) || rows != r.routed))
    invalid("policy.routed is " + std::to_string(r.routed) + ": must be experts times capacity");
  const DLTensor* const in = call.inputs + call.num_inputs - 4;
  r.rank_tokens = check_tensor("rank_tokens", in[0], kInt64Type, 1, Strides::contiguous);
  if (r.ranks == std::numeric_limits<std::int64_t>::max()) invalid("policy.ranks is 2^63 - 1");
  require_shape("rank_tokens", r.rank_tokens, 1, r.ranks + 1);
  r.expert_rank = check_tensor("expert_rank", in[1], kInt32Type, 1, Strides::contiguous);
  require_shape("expert_rank", r.expert_rank, 1, r.experts);
  r.token_offsets = check_tensor("token_offsets", in[2], kInt64Type, 1, Strides::contiguous);
  if (r.tokens == std::numeric_limits<std::int64_t>::max()) invalid("policy.rows is 2^63 - 1");
  require_shape("token_offsets", r.token_offsets, 1, r.tokens + 1);
  r.slot_experts = check_tensor("slot_experts", in[3], kInt32Type, 1, Strides::contiguous);
  return r;
}

void check_ends(const char* name, const std::int64_t* ends, std::int64_t count, std::int64_t end) {
  for (std::int64_t i = 0; i <= count; ++i) {
    const std::int64_t low = i == 0 ? 0 : ends[i - 1];
    const std::int64_t high = i == 0 ? 0 : end;
    if (ends[i] >= low && ends[i] <= high && (i < count || ends[i] == end)) continue;
    invalid(std::string(name) + "[" + std::to_string(i) + "] is " + std::to_string(ends[i]) +
            ": must ascend from 0 to " + std::to_string(end));
  }
}

void check_values(const DispatchRoutes& r) {
  check_ends("rank_tokens", r.rank_ends(), r.ranks, r.tokens);
  check_ends("token_offsets", r.token_slots(), r.tokens, r.slots());
  for (std::int64_t e = 0; e < r.experts; ++e) {
    if (r.rank_of(e) >= 0 && r.rank_of(e) < r.ranks) continue;
    invalid("expert_rank[" + std::to_string(e) + "] is " + std::to_string(r.rank_of(e)) + ": must be 0 to " +
            std::to_string(r.ranks - 1));
  }
  for (std::int64_t slot = 0; slot < r.slots(); ++slot) {
    if (r.expert_of(slot) >= -1 && r.expert_of(slot) < r.experts) continue;
    invalid("slot_experts[" + std::to_string(slot) + "] is " + std::to_string(r.expert_of(slot)) + ": must be -1 to " +
            std::to_string(r.experts - 1));
  }
}

// Where the rows of each expert begin: ranks in order, experts of a rank in order.
void place_experts(const DispatchRoutes& r, const std::vector<std::int64_t>& kept, Places& places) {
  std::int64_t next = 0;
  places.first.resize(kept.size());
  for (std::int64_t rank = 0; rank < r.ranks; ++rank) {
    for (std::int64_t e = 0; e < r.experts; ++e) {
      if (r.rank_of(e) != rank) continue;
      places.first[static_cast<std::size_t>(e)] = next;
      next += r.capacity > 0 ? r.capacity : kept[static_cast<std::size_t>(e)];
    }
  }
  if (next != r.routed)
    invalid("policy.routed is " + std::to_string(r.routed) + ": slots that are kept are " + std::to_string(next));
}

Places place_rows(const DispatchRoutes& r) {
  check_values(r);
  Places places;
  std::vector<std::int64_t> kept(static_cast<std::size_t>(r.experts));
  for (std::int64_t slot = 0; slot < r.slots(); ++slot) {
    if (r.expert_of(slot) >= 0) ++kept[static_cast<std::size_t>(r.expert_of(slot))];
  }
  place_experts(r, kept, places);
  std::vector<std::int64_t> filled(kept.size());
  places.counts.resize(static_cast<std::size_t>(r.ranks) * kept.size());
  places.slot_rows.assign(static_cast<std::size_t>(r.slots()), -1);
  places.row_token.assign(static_cast<std::size_t>(r.routed), -1);
  for (std::int64_t rank = 0; rank < r.ranks; ++rank) {
    for (std::int64_t token = r.rank_ends()[rank]; token < r.rank_ends()[rank + 1]; ++token) {
      for (std::int64_t slot = r.token_slots()[token]; slot < r.token_slots()[token + 1]; ++slot) {
        if (r.expert_of(slot) < 0) continue;
        const auto expert = static_cast<std::size_t>(r.expert_of(slot));
        if (r.capacity > 0 && filled[expert] >= r.capacity) continue;
        const std::int64_t row = places.first[expert] + filled[expert]++;
        places.slot_rows[static_cast<std::size_t>(slot)] = static_cast<std::int32_t>(row);
        places.row_token[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(token);
        ++places.counts[static_cast<std::size_t>(rank) * kept.size() + expert];
      }
    }
  }
  return places;
}

// Rows of `line` bytes each, zeros where nothing fills them.
void copy_rows(const Places& places, const Checked& from, const Checked& to, std::int64_t line, std::int32_t threads) {
  if (to.bytes == 0) return;
  const auto rows = static_cast<std::int64_t>(places.row_token.size());
  const std::int64_t parts = part_count(rows, static_cast<std::int64_t>(to.bytes), threads);
  for_each_part(rows, parts, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t token = places.row_token[static_cast<std::size_t>(row)];
      char* const place = static_cast<char*>(to.data) + row * line;
      if (token < 0) {
        std::memset(place, 0, static_cast<std::size_t>(line));
      } else {
        std::memcpy(place, static_cast<const char*>(from.data) + token * line, static_cast<std::size_t>(line));
      }
    }
  });
}

template <class T>
void copy_all(const std::vector<T>& from, const Checked& to) {
  if (to.bytes != 0) std::memcpy(to.data, from.data(), from.size() * sizeof(T));
}

struct RowTensors {
  Checked x, scales;
};
RowTensors read_rows(const DLTensor* tensors, bool coded, std::int64_t rows, std::int64_t cols) {
  RowTensors t;
  t.x = check_tensor(coded ? "codes" : "x", tensors[0], coded ? kByteType : kBf16Type, 2, Strides::contiguous);
  require_shape(coded ? "codes" : "x", t.x, rows, cols);
  if (!coded) return t;
  t.scales = check_tensor("scales", tensors[1], kByteType, 2, Strides::contiguous);
  require_shape("scales", t.scales, rows, blocks_of(cols, kScaleBlock));
  return t;
}

}  // namespace

void check_dispatch(const mxcheck_policy* policy, DLDataType type) { read_policy(policy, type, false); }
void check_combine(const mxcheck_policy* policy, DLDataType type) { read_policy(policy, type, true); }

void run_dispatch(const mxcheck_call& call) {
  if (call.inputs == nullptr || call.num_inputs < 1) invalid("there is no input: x is missing");
  const bool coded = read_policy(call.policy, call.inputs[0].dtype, false).coded;
  const int tensors = coded ? 2 : 1;
  check_call(call, tensors + 4, tensors + 4, tensors + 3);
  const DispatchRoutes r = read_routes(call);
  const std::int64_t cols = call.policy->cols;
  const RowTensors in = read_rows(call.inputs, coded, r.tokens, cols);
  const RowTensors out = read_rows(call.outputs, coded, r.routed, cols);
  const DLTensor* const others = call.outputs + tensors;
  const Checked row_token = check_tensor("row_token", others[0], kInt32Type, 1, Strides::contiguous);
  require_shape("row_token", row_token, 1, r.routed);
  const Checked slot_rows = check_tensor("slot_rows", others[1], kInt32Type, 1, Strides::contiguous);
  require_shape("slot_rows", slot_rows, 1, r.slots());
  const Checked counts = check_tensor("counts", others[2], kInt64Type, 2, Strides::contiguous);
  require_shape("counts", counts, r.ranks, r.experts);
  require_disjoint(std::array{in.x, in.scales, r.rank_tokens, r.expert_rank, r.token_offsets, r.slot_experts},
                   std::array{out.x, out.scales, row_token, slot_rows, counts});
  const Places places = place_rows(r);
  copy_rows(places, in.x, out.x, coded ? cols : 2 * cols, call.policy->threads);
  copy_rows(places, in.scales, out.scales, blocks_of(cols, kScaleBlock), call.policy->threads);
  copy_all(places.row_token, row_token);
  copy_all(places.slot_rows, slot_rows);
  copy_all(places.counts, counts);
}

void run_combine(const mxcheck_call& call) {
  if (call.inputs == nullptr || call.num_inputs < 1) invalid("there is no input: y is missing");
  const bool weighted = read_policy(call.policy, call.inputs[0].dtype, true).weighted;
  const int inputs = weighted ? 6 : 5;
  check_call(call, inputs, inputs, 1);
  const DispatchRoutes r = read_routes(call);
  AggregateTensors x;
  x.tokens = r.tokens, x.cols = call.policy->cols;
  x.y = check_tensor("y", call.inputs[0], kBf16Type, 2, Strides::contiguous);
  require_shape("y", x.y, r.routed, x.cols);
  Checked weights;
  if (weighted) {
    weights = check_tensor("weights", call.inputs[1], kFp32Type, 1, Strides::contiguous);
    require_shape("weights", weights, 1, r.slots());
  }
  x.o = check_tensor("o", call.outputs[0], kBf16Type, 2, Strides::contiguous);
  require_shape("o", x.o, x.tokens, x.cols);
  require_disjoint(std::array{x.y, weights, r.rank_tokens, r.expert_rank, r.token_offsets, r.slot_experts},
                   std::array{x.o});
  Places places = place_rows(r);
  std::vector<float> of_rows(weighted ? places.row_token.size() : 0, 1.0F);
  for (std::int64_t slot = 0; weighted && slot < r.slots(); ++slot) {
    const std::int32_t row = places.slot_rows[static_cast<std::size_t>(slot)];
    if (row >= 0) of_rows[static_cast<std::size_t>(row)] = static_cast<const float*>(weights.data)[slot];
  }
  x.token_offsets = r.token_offsets;
  x.token_rows.data = places.slot_rows.data(), x.token_rows.cols = r.slots();
  x.weights.data = of_rows.data();
  add_rows_of_tokens(x, weighted, call.policy->threads);
}

}  // namespace mxcheck_kernels::cpu
