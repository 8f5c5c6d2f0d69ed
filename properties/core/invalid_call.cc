#include "properties/core/invalid_call.h"

#include <string>
#include <string_view>
#include <utility>

#include "kernels/candidate.h"
#include "numerics/bytes.h"
#include "properties/core/check.h"

namespace mxcheck {
namespace {

// No name begins with this letter.
std::string misspelt(std::string_view text) { return "z" + std::string(text.empty() ? text : text.substr(1)); }

void set_offsets(Call& call, const std::vector<std::int64_t>& offsets) {
  CallTensor t = offsets_tensor(offsets);
  t.data = call.own(to_bytes(offsets));
  for (CallTensor& input : call.inputs) {
    if (input.is_offsets) {
      input = t;
      return;
    }
  }
  call.inputs.push_back(t);
}

bool set_last_index(Call& call, std::int32_t value) {
  for (CallTensor& input : call.inputs) {
    if (input.is_index && input.bytes != 0)
      return change_value(call, input, static_cast<std::size_t>(input.shape[0]) - 1, value);
  }
  return false;
}

}  // namespace

std::vector<InvalidCall> common_invalid_calls() {
  return {
      {"the first input's data is a null pointer",
       [](Call& c) {
         c.inputs[0].null_data = true;
         return true;
       }},
      {"the first output's data is a null pointer",
       [](Call& c) {
         c.outputs[0].null_data = true;
         return true;
       }},
      {"the last output is missing",
       [](Call& c) {
         c.outputs.pop_back();
         return true;
       }},
      {"the first output has one row too few",
       [](Call& c) {
         if (c.outputs[0].shape.size() != 2) return false;
         --c.outputs[0].shape[0];
         return true;
       }},
      {"the last output has one column too few",
       [](Call& c) {
         --c.outputs.back().shape.back();
         return true;
       }},
      invalid_policy<mxcheck_policy>("the policy's rows are negative",
                                     [](mxcheck_policy& p) {
                                       p.rows = -1;
                                       return true;
                                     }),
      {"an extent is negative",
       [](Call& c) {
         c.inputs[0].shape[0] = -1;
         return true;
       }},
      {"the first input has another dtype",
       [](Call& c) {
         CallTensor& first = c.inputs[0];
         const bool bytes = first.dtype == Format::e4m3 && !first.is_index && !first.is_offsets;
         first.dtype = bytes ? Format::fp32 : Format::e4m3;
         first.is_index = first.is_offsets = false;
         return true;
       }},
  };
}

InvalidCall disagreeing_cols() {
  return invalid_policy<mxcheck_policy>("the policy's cols disagree with the tensors", [](mxcheck_policy& p) {
    p.cols += 1;
    return true;
  });
}

InvalidCall unknown_format() {
  return {"the format is unknown", [](Call& call) {
            const std::string wrong = misspelt(read<mxcheck_policy>(call.policy).format);
            edit<mxcheck_policy>(call.policy, [&](mxcheck_policy& p) { p.format = wrong.c_str(); });
            return true;
          }};
}

InvalidCall unknown_recipe() {
  return {"the recipe is unknown", [](Call& call) {
            const std::string wrong = misspelt(read<mxcheck_policy>(call.policy).recipe);
            edit<mxcheck_policy>(call.policy, [&](mxcheck_policy& p) { p.recipe = wrong.c_str(); });
            return true;
          }};
}

InvalidCall unknown_layout() {
  return invalid_policy<mxcheck_policy>("the layout is unknown", [](mxcheck_policy& p) {
    p.layout = 7;
    return true;
  });
}

InvalidCall negative_block() {
  return invalid_policy<mxcheck_policy>("the block is of negative size", [](mxcheck_policy& p) {
    p.block_cols = -32;
    return true;
  });
}

std::vector<InvalidCall> invalid_offsets(const std::function<std::int64_t(const Call&)>& end) {
  return {
      {"the offsets are not sorted",
       [end](Call& c) {
         const std::int64_t last = end(c);
         if (last <= 2) return false;
         set_offsets(c, {0, last, 1, last});
         return true;
       }},
      {"the last offset is not the row count",
       [end](Call& c) {
         set_offsets(c, {0, end(c) / 2, end(c) + 1});
         return true;
       }},
      {"the first offset is not zero",
       [end](Call& c) {
         set_offsets(c, {1, end(c)});
         return true;
       }},
  };
}

std::vector<InvalidCall> invalid_row_index() {
  return {
      {"a row index is negative", [](Call& c) { return set_last_index(c, -1); }},
      {"a row index is the number of rows that there are",
       [](Call& c) { return set_last_index(c, static_cast<std::int32_t>(c.inputs[0].shape[0])); }},
  };
}

}  // namespace mxcheck
