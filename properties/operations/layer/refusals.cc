// Calls of the steps of a layer that must be refused, beside those of every operation.

#include <string>
#include <utility>

#include "properties/core/invalid_call.h"
#include "properties/operations/layer/operation.h"

namespace mxcheck {
namespace {

using S = mxcheck_swiglu_policy;
using A = mxcheck_aggregate_policy;
using Common = mxcheck_policy;

constexpr int kCoded = MXCHECK_ROWS_CODED | MXCHECK_COLUMNS_CODED;

std::int64_t rows_of(const Call& call) { return read<Common>(call.policy).rows; }

InvalidCall without_input(const char* how, std::size_t from_first) {
  return {how, [from_first](Call& c) {
            if (c.operation != "swiglu_backward") return false;
            const std::size_t h = *read<S>(c.policy).format_h == '\0' ? 1 : 2;
            c.inputs.erase(c.inputs.begin() + static_cast<std::ptrdiff_t>(h + from_first));
            return true;
          }};
}

std::vector<InvalidCall> invalid_swiglu_policies() {
  return {
      invalid_policy<S>("gate_up is unknown", [](S& p) { return p.gate_up = 7, true; }),
      invalid_policy<S>("gate_up is negative", [](S& p) { return p.gate_up = -1, true; }),
      invalid_policy<S>("no output is asked for", [](S& p) { return p.outputs = 0, true; }),
      invalid_policy<S>("an output is asked for that there is not", [](S& p) { return p.outputs |= 8, true; }),
      invalid_policy<S>("outputs is negative", [](S& p) { return p.outputs = -1, true; }),
      invalid_policy<S>("nothing is coded and there is a format",
                        [](S& p) { return (p.outputs & kCoded) == 0 && (p.policy.format = "e4m3", true); }),
      invalid_policy<S>("nothing is coded and there is a recipe",
                        [](S& p) { return (p.outputs & kCoded) == 0 && (p.policy.recipe = "rceil", true); }),
      invalid_policy<S>(
          "nothing is coded and there are blocks",
          [](S& p) { return (p.outputs & kCoded) == 0 && (p.policy.block_rows = 1, p.policy.block_cols = 32, true); }),
      invalid_policy<S>("codes are of blocks of columns",
                        [](S& p) {
                          std::swap(p.policy.block_rows, p.policy.block_cols);
                          return (p.outputs & kCoded) != 0;
                        }),
      {"there is a format of transposed codes that are not written",
       [](Call& c) {
         const bool has = c.operation == "swiglu_backward" && (read<S>(c.policy).outputs & MXCHECK_COLUMNS_CODED) != 0;
         if (!has) edit<S>(c.policy, [](S& p) { p.format_scaled = "e4m3"; });
         return !has;
       }},
      invalid_policy<S>("the format of scaled_a is unknown",
                        [](S& p) { return *p.format_scaled != '\0' && (p.format_scaled = "z4m3", true); }),
      invalid_policy<S>("the format of h is unknown", [](S& p) { return p.format_h = "z4m3", true; }),
      {"h is BF16 and the policy has a format of its codes",
       [](Call& c) {
         if (*read<S>(c.policy).format_h != '\0') return false;
         edit<S>(c.policy, [](S& p) { p.format_h = "e4m3"; });
         return true;
       }},
      {"h is codes and the policy has no format of them",
       [](Call& c) {
         if (*read<S>(c.policy).format_h == '\0') return false;
         edit<S>(c.policy, [](S& p) { p.format_h = ""; });
         return true;
       }},
  };
}

template <class T>
bool change_last(Call& call, T value) {
  CallTensor& slots = call.inputs.back();
  return change_value(call, slots, slots.bytes / sizeof(T) - 1, value);
}

bool with_token_offset(Call& call, std::size_t at, std::int64_t value) {
  return change_value(call, call.inputs[call.inputs.size() - 2], at, value);
}
std::int64_t slots_of(const Call& call) { return call.inputs.back().shape[0]; }
std::size_t last_offset(const Call& call) { return static_cast<std::size_t>(rows_of(call)); }

std::vector<InvalidCall> invalid_aggregates() {
  return {
      invalid_policy<A>("weighted is 2", [](A& p) { return p.weighted = 2, true; }),
      invalid_policy<A>("weighted is negative", [](A& p) { return p.weighted = -1, true; }),
      invalid_policy<A>("weights are promised and missing",
                        [](A& p) { return p.weighted == 0 && (p.weighted = 1, true); }),
      invalid_policy<A>("weights are there that were not promised",
                        [](A& p) { return p.weighted == 1 && (p.weighted = 0, true); }),
      invalid_policy<A>("aggregate has a format", [](A& p) { return p.policy.format = "e4m3", true; }),
      invalid_policy<A>("aggregate has a recipe", [](A& p) { return p.policy.recipe = "rceil", true; }),
      invalid_policy<A>("aggregate has blocks",
                        [](A& p) { return p.policy.block_rows = 1, p.policy.block_cols = 32, true; }),
      {"token_offsets descend", [](Call& c) { return with_token_offset(c, 1, slots_of(c) + 1); }},
      {"token_offsets do not start at 0", [](Call& c) { return with_token_offset(c, 0, 1); }},
      {"token_offsets are negative", [](Call& c) { return with_token_offset(c, 0, -1); }},
      {"token_offsets end after the last slot",
       [](Call& c) { return with_token_offset(c, last_offset(c), slots_of(c) + 1); }},
      {"token_offsets end before the last slot",
       [](Call& c) { return with_token_offset(c, last_offset(c), slots_of(c) - 1); }},
      {"the last slot's row is -2", [](Call& c) { return change_last<std::int32_t>(c, -2); }},
      {"the last slot's row is the number of rows of y",
       [](Call& c) { return change_last(c, static_cast<std::int32_t>(c.inputs[0].shape[0])); }},
  };
}

InvalidCall tiled() {
  return invalid_policy<Common>("a step of a layer has scales in tiles",
                                [](Common& p) { return p.layout = MXCHECK_TCGEN05, true; });
}

}  // namespace

std::vector<InvalidCall> invalid_steps(std::string_view operation) {
  std::vector<InvalidCall> all{disagreeing_cols(), huge_cols(), unknown_layout(), negative_layout(), tiled()};
  if (operation == "aggregate") {
    add_invalid(all, {invalid_aggregates()});
    return all;
  }
  add_invalid(all, {{unknown_format(), unknown_recipe(), unwanted_row_index(),
                     without_input("the gradient of A is missing", 0), without_input("the weights are missing", 1)},
                    invalid_blocks(),
                    invalid_swiglu_policies(),
                    invalid_offsets(rows_of)});
  return all;
}

std::vector<InvalidCall> invalid_transposes() {
  std::vector<InvalidCall> all{disagreeing_cols(), huge_cols(),       unknown_format(), unknown_recipe(),
                               unknown_layout(),   negative_layout(), tiled()};
  all.push_back(invalid_policy<Common>("transposed codes are of blocks of one row",
                                       [](Common& p) { return std::swap(p.block_rows, p.block_cols), true; }));
  add_invalid(all, {invalid_blocks(), invalid_offsets(rows_of), invalid_row_index()});
  return all;
}

}  // namespace mxcheck
