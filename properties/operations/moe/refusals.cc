// Calls of a layer that must be refused, beside those of every operation.

#include <utility>

#include "properties/core/invalid_call.h"
#include "properties/operations/moe/operation.h"

namespace mxcheck {
namespace {

using M = mxcheck_moe_policy;

// The routes are the last five inputs.
CallTensor& route_input(Call& call, std::size_t number) { return call.inputs[call.inputs.size() - 5 + number]; }
CallTensor& row_token(Call& call) { return route_input(call, 0); }
CallTensor& token_offsets(Call& call) { return route_input(call, 2); }
CallTensor& token_rows(Call& call) { return route_input(call, 3); }
CallTensor& offsets(Call& call) { return route_input(call, 4); }

std::int64_t routed_of(const Call& call) { return read<M>(call.policy).routed; }
std::int64_t slots_of(Call& call) { return token_rows(call).shape[0]; }
std::size_t last_of(const CallTensor& t) { return static_cast<std::size_t>(t.shape[0]) - 1; }

bool change_last_index(Call& call, CallTensor& t, std::int64_t value) {
  return t.shape[0] > 0 && change_value(call, t, last_of(t), static_cast<std::int32_t>(value));
}

std::vector<InvalidCall> invalid_policies() {
  return {
      invalid_policy<M>("gate_up is unknown", [](M& p) { return p.gate_up = 7, true; }),
      invalid_policy<M>("gate_up is negative", [](M& p) { return p.gate_up = -1, true; }),
      invalid_policy<M>("a layer has a format", [](M& p) { return p.policy.format = "e4m3", true; }),
      invalid_policy<M>("a layer has blocks",
                        [](M& p) { return p.policy.block_rows = 1, p.policy.block_cols = 32, true; }),
      invalid_policy<M>("a layer has scales in tiles", [](M& p) { return p.policy.layout = MXCHECK_TCGEN05, true; }),
      invalid_policy<M>("inner disagrees with the weights", [](M& p) { return p.inner += 128, true; }),
      invalid_policy<M>("inner is negative", [](M& p) { return p.inner = -1, true; }),
      invalid_policy<M>("inner is 2^63 - 1", [](M& p) { return p.inner = INT64_MAX, true; }),
      invalid_policy<M>("there are more experts than offsets say", [](M& p) { return p.experts += 1, true; }),
      invalid_policy<M>("the number of experts is negative", [](M& p) { return p.experts = -1, true; }),
      invalid_policy<M>("the number of experts is 2^63 - 1", [](M& p) { return p.experts = INT64_MAX, true; }),
      invalid_policy<M>("routed is one more than there are rows", [](M& p) { return p.routed += 1, true; }),
      invalid_policy<M>("routed is negative", [](M& p) { return p.routed = -1, true; }),
      invalid_policy<M>("routed is 2^63 - 1", [](M& p) { return p.routed = INT64_MAX, true; }),
  };
}

// What of the values only the device can see.
std::vector<InvalidCall> invalid_routes() {
  return {
      {"the offsets of experts descend",
       [](Call& c) {
         return offsets(c).shape[0] > 2 && change_value<std::int64_t>(c, offsets(c), 1, routed_of(c) + 1);
       }},
      {"the offsets of experts do not start at 0",
       [](Call& c) { return change_value<std::int64_t>(c, offsets(c), 0, 1); }},
      {"the first offset of experts is negative",
       [](Call& c) { return change_value<std::int64_t>(c, offsets(c), 0, -1); }},
      {"the offsets of experts end after the last row",
       [](Call& c) { return change_value<std::int64_t>(c, offsets(c), last_of(offsets(c)), routed_of(c) + 1); }},
      {"the offsets of experts end before the last row",
       [](Call& c) { return change_value<std::int64_t>(c, offsets(c), last_of(offsets(c)), routed_of(c) - 1); }},
      {"token_offsets descend",
       [](Call& c) { return change_value<std::int64_t>(c, token_offsets(c), 1, slots_of(c) + 1); }},
      {"token_offsets do not start at 0",
       [](Call& c) { return change_value<std::int64_t>(c, token_offsets(c), 0, 1); }},
      {"token_offsets are negative", [](Call& c) { return change_value<std::int64_t>(c, token_offsets(c), 0, -1); }},
      {"token_offsets end after the last slot",
       [](Call& c) {
         return change_value<std::int64_t>(c, token_offsets(c), last_of(token_offsets(c)), slots_of(c) + 1);
       }},
      {"token_offsets end before the last slot",
       [](Call& c) {
         return change_value<std::int64_t>(c, token_offsets(c), last_of(token_offsets(c)), slots_of(c) - 1);
       }},
      {"the last row is of token -1", [](Call& c) { return change_last_index(c, row_token(c), -1); }},
      {"the last row is of a token that there is not",
       [](Call& c) { return change_last_index(c, row_token(c), read<M>(c.policy).policy.rows); }},
      {"the last slot's row is -2", [](Call& c) { return change_last_index(c, token_rows(c), -2); }},
      {"the last slot's row is the number of rows",
       [](Call& c) { return change_last_index(c, token_rows(c), routed_of(c)); }},
      {"the first input has a row more", [](Call& c) { return c.inputs[0].shape[0] += 1, true; }},
  };
}

}  // namespace

std::vector<InvalidCall> invalid_layers() {
  std::vector<InvalidCall> all{disagreeing_cols(), huge_cols(), unknown_recipe(), unknown_layout(), negative_layout()};
  add_invalid(all, {invalid_blocks(), invalid_policies(), invalid_routes()});
  return all;
}

}  // namespace mxcheck
