#include "properties/core/invalid_call.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/candidate.h"
#include "numerics/bytes.h"
#include "numerics/format/format.h"
#include "properties/core/check.h"
#include "properties/core/rng.h"

namespace mxcheck {

namespace {

constexpr std::int64_t kWord = std::int64_t{1} << 32;
constexpr std::int64_t kQuarter = std::int64_t{1} << 62;

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

std::uint64_t element_bytes(const CallTensor& t) {
  return t.is_offsets ? 8 : t.is_index ? 4 : static_cast<std::uint64_t>((spec(t.dtype).bits + 7) / 8);
}

// Another extent, with memory for it: zeros, after the values that the tensor has. False where there is none to take
// away. Memory of a strided tensor stays as it is.
bool resize(Call& call, CallTensor& t, const TensorPlace& place, std::size_t dimension, int by) {
  std::int64_t& extent = t.shape[dimension];
  if (extent + by < 0) return false;
  extent += by;
  if (t.row_stride != 0) return true;
  std::uint64_t bytes = element_bytes(t);
  for (const std::int64_t n : t.shape) bytes *= static_cast<std::uint64_t>(n);
  if (!place.is_output && bytes > t.bytes) {
    std::vector<std::byte> copy(t.data, t.data + t.bytes);
    copy.resize(bytes);
    t.data = call.own(std::move(copy));
  }
  t.bytes = bytes;
  return true;
}

bool resize_rows(Call& call, CallTensor& t, const TensorPlace& place, int by) {
  return t.shape.size() == 2 && resize(call, t, place, 0, by);
}

bool resize_cols(Call& call, CallTensor& t, const TensorPlace& place, int by) {
  return !place.may_have_any_cols && resize(call, t, place, t.shape.size() - 1, by);
}

// sign * the columns and a number more.
bool set_row_stride(CallTensor& t, std::int64_t more, int sign) {
  if (t.shape.size() != 2 || t.shape[0] < 2 || t.shape[1] < 2) return false;
  t.strides = {sign * t.shape[1] + more, 1};
  return true;
}

bool set_col_stride(CallTensor& t, std::int64_t stride) {
  if (t.shape.size() != 2 || t.shape[0] < 2 || t.shape[1] < 2) return false;
  t.strides = {t.shape[1], stride};
  return true;
}

bool set_one_index(Call& call, std::int32_t value) {
  for (CallTensor& input : call.inputs) {
    if (input.is_index && input.bytes != 0) return change_one(call, input, value);
  }
  return false;
}

}  // namespace

std::uint64_t hash_of_bytes(const CallTensor& input) {
  constexpr std::uint64_t kMost = 4096;
  const std::string_view bytes(reinterpret_cast<const char*>(input.data), std::min(input.bytes, kMost));
  return derived_seed(input.bytes, bytes);
}

std::vector<InvalidCall> common_invalid_calls() {
  const auto with_defect = [](CallDefect defect) { return [defect](Call& c) { return c.defect = defect, true; }; };
  std::vector<InvalidCall> all{
      {"the call's size is 4", with_defect(CallDefect::small_size), false, false},
      {"the policy is a null pointer", with_defect(CallDefect::null_policy)},
      {"inputs is a null pointer", with_defect(CallDefect::null_inputs)},
      {"outputs is a null pointer", with_defect(CallDefect::null_outputs)},
      {"the workspace is a null pointer", with_defect(CallDefect::null_workspace)},
      {"the workspace is one byte too small", with_defect(CallDefect::small_workspace)},
      {"the first input is missing",
       [](Call& c) {
         c.inputs.erase(c.inputs.begin());
         return true;
       }},
      {"the last input is there twice",
       [](Call& c) {
         const CallTensor last = c.inputs.back();
         c.inputs.push_back(last);
         return true;
       }},
      {"there is another tensor like the first input",
       [](Call& c) {
         const CallTensor first = c.inputs.front();
         c.inputs.push_back(first);
         return true;
       }},
      {"the last output is missing",
       [](Call& c) {
         c.outputs.pop_back();
         return true;
       }},
      {"the last output is there twice",
       [](Call& c) {
         const CallTensor last = c.outputs.back();
         c.outputs.push_back(last);
         return true;
       }},
      invalid_policy<mxcheck_policy>("the policy's rows are negative",
                                     [](mxcheck_policy& p) { return p.rows = -1, true; }),
      invalid_policy<mxcheck_policy>("the policy's rows are 2^63 - 1",
                                     [](mxcheck_policy& p) { return p.rows = INT64_MAX, true; }),
      invalid_policy<mxcheck_policy>("the policy's cols are negative",
                                     [](mxcheck_policy& p) { return p.cols = -1, true; }),
      invalid_policy<mxcheck_policy>("the policy's size is 8", [](mxcheck_policy& p) { return p.size = 8, true; }),
      {"the policy ends before the operation's own fields",
       [](Call& c) {
         if (c.policy.num_bytes == sizeof(mxcheck_policy)) return false;
         if (operation_named(c.operation).has_policies_by_size()) return false;
         edit<mxcheck_policy>(c.policy, [](mxcheck_policy& p) { p.size = sizeof(mxcheck_policy); });
         return true;
       }},
      invalid_policy<mxcheck_policy>("the number of threads is negative",
                                     [](mxcheck_policy& p) { return p.threads = -1, true; }),
  };
  all.back().host_only = true;
  return all;
}

std::vector<TensorPlace> tensor_places(const Call& call, const Operation& operation, bool takes_col_stride) {
  const bool gathers = std::any_of(call.inputs.begin() + 1, call.inputs.end(),
                                   [](const CallTensor& t) { return t.is_index && t.shape.size() == 1; });
  std::vector<TensorPlace> places;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const bool any_cols = call.inputs[i].is_offsets && !call.inputs[i].is_counts && operation.has_offsets_of_experts();
    places.push_back(
        {false, i, i == 0 && operation.may_have_row_stride(), i == 0 && gathers, any_cols, i == 0 && takes_col_stride});
  }
  for (std::size_t i = 0; i < call.outputs.size(); ++i) places.push_back({true, i});
  return places;
}

CallTensor& tensor_at(Call& call, const TensorPlace& place) {
  return (place.is_output ? call.outputs : call.inputs)[place.number];
}

std::vector<InvalidTensor> invalid_tensors() {
  using P = TensorPlace;
  using T = CallTensor;
  return {
      {"its data is a null pointer", [](Call&, T& t, const P&) { return t.bytes != 0 && (t.null_data = true); }},
      {"its shape is a null pointer", [](Call&, T& t, const P&) { return t.null_shape = true; }},
      {"its first extent is negative", [](Call&, T& t, const P&) { return t.shape.front() = -1, true; }},
      {"its last extent is negative", [](Call&, T& t, const P&) { return t.shape.back() = -1, true; }},
      {"it has one row too few",
       [](Call& c, T& t, const P& p) { return !p.may_have_any_rows && resize_rows(c, t, p, -1); }},
      {"it has one row too many",
       [](Call& c, T& t, const P& p) { return !p.may_have_any_rows && resize_rows(c, t, p, 1); }},
      {"it has one column too few", [](Call& c, T& t, const P& p) { return resize_cols(c, t, p, -1); }},
      {"it has one column too many", [](Call& c, T& t, const P& p) { return resize_cols(c, t, p, 1); }},
      {"it has one dimension too few",
       [](Call&, T& t, const P&) {
         if (t.shape.size() != 2) return false;
         t.shape = {t.shape[0] * t.shape[1]};
         t.row_stride = 0;
         return true;
       }},
      {"it has one dimension too many",
       [](Call&, T& t, const P&) {
         t.shape.insert(t.shape.begin(), 1);
         t.row_stride = 0;
         return true;
       }},
      {"it has another dtype",
       [](Call&, T& t, const P&) {
         const bool is_bytes = t.dtype == Format::e4m3 && !t.is_index && !t.is_offsets;
         t.dtype = is_bytes ? Format::fp32 : Format::e4m3;
         t.is_index = t.is_offsets = false;
         return true;
       }},
      {"its dtype has two lanes", [](Call&, T& t, const P&) { return t.lanes = 2, true; }},
      {"it is on another kind of device", [](Call&, T& t, const P&) { return t.elsewhere = true; }},
      {"it is on device number 1", [](Call&, T& t, const P&) { return t.device_id = 1, true; }},
      {"its column stride is 2",
       [](Call&, T& t, const P&) {
         const std::int64_t cols = t.shape.back();
         if (t.shape.size() == 2) t.strides = {t.row_stride != 0 ? t.row_stride : cols, 2};
         if (t.shape.size() == 1) t.strides = {2};
         return cols > 1;
       }},
      {"its rows overlap by an element", [](Call&, T& t, const P&) { return set_row_stride(t, -1, 1); }},
      {"its row stride is 0", [](Call&, T& t, const P&) { return set_row_stride(t, 0, 0); }},
      {"its row stride is negative", [](Call&, T& t, const P&) { return set_row_stride(t, 0, -1); }},
      {"it has gaps between rows",
       [](Call&, T& t, const P& p) { return !p.may_have_row_stride && set_row_stride(t, 1, 1); }},
      {"its column stride is 0", [](Call&, T& t, const P& p) { return p.may_have_col_stride && set_col_stride(t, 0); }},
      {"its column stride is negative",
       [](Call&, T& t, const P& p) { return p.may_have_col_stride && set_col_stride(t, -1); }},
  };
}

void add_invalid(std::vector<InvalidCall>& to, std::initializer_list<std::vector<InvalidCall>> families) {
  for (const std::vector<InvalidCall>& family : families) to.insert(to.end(), family.begin(), family.end());
}

std::vector<InvalidCall> disagreeing_extents(std::vector<InvalidCall> others) {
  using P = mxcheck_policy;
  std::vector<InvalidCall> all{
      invalid_policy<P>("the policy's cols disagree with the tensors", [](P& p) { return ++p.cols != 0; }),
      invalid_policy<P>("the policy's cols are 2^63 - 1", [](P& p) { return p.cols = INT64_MAX, true; }),
      // The right number in 32 bits, and often the right product in 64.
      wrapping_policy<P>("the policy's rows are 2^32 more", [](P& p) { return p.rows += kWord, true; }),
      wrapping_policy<P>("the policy's rows are 2^62 more", [](P& p) { return p.rows += kQuarter, true; }),
      wrapping_policy<P>("the policy's cols are 2^32 more", [](P& p) { return p.cols += kWord, true; }),
      wrapping_policy<P>("the policy's cols are 2^62 more", [](P& p) { return p.cols += kQuarter, true; }),
  };
  add_invalid(all, {std::move(others)});
  return all;
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

InvalidCall negative_layout() {
  return invalid_policy<mxcheck_policy>("the layout is negative", [](mxcheck_policy& p) {
    p.layout = -1;
    return true;
  });
}

std::vector<InvalidCall> invalid_blocks() {
  using P = mxcheck_policy;
  return {
      invalid_policy<P>("the blocks have a negative number of rows", [](P& p) { return p.block_rows = -32, true; }),
      invalid_policy<P>("the blocks have a negative number of columns", [](P& p) { return p.block_cols = -32, true; }),
      invalid_policy<P>("the blocks have 7 columns", [](P& p) { return p.block_cols = 7, true; }),
      invalid_policy<P>("the blocks have 2^63 - 1 rows", [](P& p) { return p.block_rows = INT64_MAX, true; }),
      invalid_policy<P>("the blocks have 2^63 - 1 columns", [](P& p) { return p.block_cols = INT64_MAX, true; }),
  };
}

InvalidCall unwanted_offsets() {
  return {"there are offsets, which the operation has not", [](Call& c) {
            set_offsets(c, {0, read<mxcheck_policy>(c.policy).rows});
            return true;
          }};
}

InvalidCall unwanted_row_index() {
  return {"there is a row index, which the operation has not", [](Call& c) {
            const std::vector<std::int32_t> index(
                static_cast<std::size_t>(read<mxcheck_policy>(c.policy).rows));  // all of them 0
            CallTensor t = index_tensor(index);
            t.data = c.own(to_bytes(index));
            c.inputs.push_back(t);
            return true;
          }};
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

namespace {

using Offsets = std::vector<std::int64_t>;

// One between the first and the last above the next, or below the one before; false where there is no such place.
bool descend(Offsets& o, std::uint64_t drawn) {
  for (std::size_t tried = 0; tried + 2 < o.size(); ++tried) {
    const std::size_t at = 1 + (drawn + tried) % (o.size() - 2);
    const bool has_above = o[at + 1] < o.back();
    if (!has_above && o[at - 1] == 0) continue;
    o[at] = has_above ? o[at + 1] + 1 : o[at - 1] - 1;
    return true;
  }
  return false;
}

// counts: also of how many rows masked groups have, in any order.
InvalidCall offsets_that(const char* how, std::uint64_t drawn, bool (*change)(Offsets&, std::uint64_t),
                         bool counts = true) {
  return {how, [=](Call& call) {
            std::vector<CallTensor*> lists;
            for (CallTensor& input : call.inputs) {
              if (input.is_offsets && input.bytes != 0 && (counts || !input.is_counts)) lists.push_back(&input);
            }
            if (lists.empty()) return false;
            CallTensor& list = *lists[drawn % lists.size()];
            Offsets offsets = values_in<std::int64_t>({list.data, list.bytes});
            if (!change(offsets, drawn >> 8)) return false;
            list.data = call.own(to_bytes(offsets));
            return true;
          }};
}

}  // namespace

std::vector<InvalidCall> misplaced_offsets(std::uint64_t drawn) {
  return {
      offsets_that("the offsets descend at one place", drawn, descend, false),
      offsets_that("2^32 is added to one offset", drawn,
                   [](Offsets& o, std::uint64_t at) { return o[at % o.size()] += kWord, true; }),
      offsets_that("2^32 is added to the last offset", drawn,
                   [](Offsets& o, std::uint64_t) { return o.back() += kWord, true; }),
      offsets_that("the sign of one offset is set", drawn,
                   [](Offsets& o, std::uint64_t at) { return o[at % o.size()] += INT64_MIN, true; }),
  };
}

std::vector<InvalidCall> invalid_row_index() {
  return {
      {"a row index is negative", [](Call& c) { return set_one_index(c, -1); }},
      {"a row index is the number of rows that there are",
       [](Call& c) { return set_one_index(c, static_cast<std::int32_t>(c.inputs[0].shape[0])); }},
  };
}

}  // namespace mxcheck
