// A right library (LENIENT_OF names its file) that accepts one kind of bad argument, named by LENIENT:
// where the right one refuses a call, the call is mended in that one way and run again. LENIENT_OPERATION names
// the one operation that it has.

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <list>
#include <string>
#include <vector>

#include "kernels/candidate_matmul.h"
#include "kernels/candidate_route.h"
#include "tests/libraries/right/right_call.h"

namespace {

using right::variable;

constexpr std::uint64_t kWorkspace = 100;  // needed for nothing, and refused when it is not there

union AnyPolicy {
  mxcheck_policy all;
  mxcheck_matmul_policy matmul;
  mxcheck_route_policy route;
};

// A call to mend: its own copy of the policy, the tensors, their shapes.
struct Mended {
  explicit Mended(const mxcheck_call& from) : call(from) {
    std::memset(static_cast<void*>(&policy), 0, sizeof(policy));
    std::memcpy(static_cast<void*>(&policy), from.policy, sizeof(policy));  // the gate's is larger than any
    call.size = sizeof(call), call.policy = &policy.all;
    tensors.assign(from.inputs, from.inputs + from.num_inputs);
    tensors.insert(tensors.end(), from.outputs, from.outputs + from.num_outputs);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      DLTensor& t = tensors[i];
      for (int n = 0; n < t.ndim && t.shape != nullptr; ++n) shapes[i][static_cast<std::size_t>(n)] = t.shape[n];
      if (t.shape != nullptr) t.shape = shapes[i].data();
    }
  }
  Mended(const Mended&) = delete;
  Mended& operator=(const Mended&) = delete;

  void drop(std::size_t tensor) {
    tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(tensor));
    --(static_cast<int>(tensor) < call.num_inputs ? call.num_inputs : call.num_outputs);
  }
  const mxcheck_call* done() {
    call.inputs = tensors.data(), call.outputs = tensors.data() + call.num_inputs;
    return &call;
  }

  mxcheck_call call;
  AnyPolicy policy;
  std::vector<DLTensor> tensors;
  // Offsets that are changed: each change(offset, its place, the one before).
  template <class Change>
  bool change_offsets(Change change) {
    for (int i = 0; i < call.num_inputs; ++i) {
      DLTensor& t = tensors[static_cast<std::size_t>(i)];
      if (t.dtype.code != kDLInt || t.dtype.bits != 64 || t.ndim != 1 || t.data == nullptr || t.shape == nullptr ||
          t.shape[0] < 1)
        continue;
      const auto* from = reinterpret_cast<const std::int64_t*>(static_cast<std::byte*>(t.data) + t.byte_offset);
      std::vector<std::int64_t>& to = offsets.emplace_back(from, from + t.shape[0]);
      for (std::size_t n = 0; n < to.size(); ++n) change(to[n], n, n == 0 ? 0 : to[n - 1]);
      t.data = to.data(), t.byte_offset = 0;
    }
    return !offsets.empty();
  }

  std::array<std::array<std::int64_t, 3>, 16> shapes{};
  std::list<std::vector<std::int64_t>> offsets;
};

constexpr std::int64_t kQuarter = INT64_C(1) << 62;
constexpr std::int64_t kWord = INT64_C(0xFFFF'FFFF);

// One way to mend a tensor; false where the tensor is not wrong in this way.
struct TensorMend {
  std::string_view name;
  bool (*mend)(Mended&, DLTensor&);
};

std::int64_t& last(DLTensor& t) { return t.shape[t.ndim - 1]; }
bool forget_strides(DLTensor& t, bool wrong) {
  if (wrong) t.strides = nullptr;
  return wrong;
}
bool has_rows(const DLTensor& t) { return t.ndim == 2 && t.strides != nullptr; }

constexpr TensorMend kTensorMends[] = {
    {"null_data",
     [](Mended&, DLTensor& t) {
       alignas(256) static std::array<char, 1 << 22> memory;
       return t.data == nullptr && (t.data = memory.data());
     }},
    {"null_shape",
     [](Mended& m, DLTensor& t) {
       static std::int64_t shape[2];
       shape[0] = m.policy.all.rows, shape[1] = m.policy.all.cols;
       return t.shape == nullptr && (t.shape = shape);
     }},
    {"first_extent_negative", [](Mended& m, DLTensor& t) { return t.shape[0] = m.policy.all.rows, true; }},
    {"last_extent_negative", [](Mended& m, DLTensor& t) { return last(t) = m.policy.all.cols, true; }},
    {"row_missing", [](Mended&, DLTensor& t) { return t.ndim == 2 && ++t.shape[0] != 0; }},
    {"row_more", [](Mended&, DLTensor& t) { return t.ndim == 2 && t.shape[0]-- > 0; }},
    {"column_missing", [](Mended&, DLTensor& t) { return ++last(t), true; }},
    {"column_more", [](Mended&, DLTensor& t) { return last(t)-- > 0; }},
    {"dimension_missing",
     [](Mended& m, DLTensor& t) {
       if (t.ndim != 1 || m.policy.all.rows == 0) return false;
       t.shape[1] = t.shape[0] / m.policy.all.rows, t.shape[0] = m.policy.all.rows, t.ndim = 2;
       return true;
     }},
    {"dimension_more", [](Mended&, DLTensor& t) { return ++t.shape, --t.ndim > 0; }},
    {"any_dtype",
     [](Mended&, DLTensor& t) {
       return t.dtype.code == kDLUInt ? (t.dtype = {kDLBfloat, 16, 1}, true) : (t.dtype = {kDLUInt, 8, 1}, true);
     }},
    {"lanes", [](Mended&, DLTensor& t) { return t.dtype.lanes = 1, true; }},
    {"device_kind", [](Mended&, DLTensor& t) { return t.device.device_type = kDLCPU, true; }},
    {"device_number", [](Mended&, DLTensor& t) { return t.device.device_id = 0, true; }},
    {"column_stride",
     [](Mended&, DLTensor& t) { return forget_strides(t, t.strides != nullptr && t.strides[t.ndim - 1] != 1); }},
    {"rows_overlap",
     [](Mended&, DLTensor& t) { return forget_strides(t, has_rows(t) && 0 < t.strides[0] && t.strides[0] < last(t)); }},
    {"row_stride_zero", [](Mended&, DLTensor& t) { return forget_strides(t, has_rows(t) && t.strides[0] == 0); }},
    {"row_stride_negative", [](Mended&, DLTensor& t) { return forget_strides(t, has_rows(t) && t.strides[0] < 0); }},
    {"gaps", [](Mended&, DLTensor& t) { return forget_strides(t, has_rows(t) && t.strides[0] > last(t)); }},
};

// One way to mend a call or its policy; false where it does not apply.
struct CallMend {
  std::string_view name;
  bool (*mend)(Mended&);
};

template <class T>
bool set(T& field, T value) {
  field = value;
  return true;
}

constexpr CallMend kCallMends[] = {
    {"input_more",
     [](Mended& m) {
       if (m.call.num_inputs < 2) return false;
       return m.drop(static_cast<std::size_t>(m.call.num_inputs) - 1), true;
     }},
    {"integers_more",
     [](Mended& m) {
       const auto at = static_cast<std::size_t>(m.call.num_inputs) - 1;
       if (m.call.num_inputs < 2 || m.tensors[at].dtype.code != kDLInt) return false;
       return m.drop(at), true;
     }},
    {"output_more", [](Mended& m) { return m.drop(m.tensors.size() - 1), true; }},
    {"rows", [](Mended& m) { return set(m.policy.all.rows, m.tensors[0].shape[0]); }},
    {"cols", [](Mended& m) { return set(m.policy.all.cols, m.tensors[0].shape[1]); }},
    {"rows_of_32_bits", [](Mended& m) { return (m.policy.all.rows &= kWord) >= 0; }},
    {"rows_of_a_product",
     [](Mended& m) {
       return m.tensors[0].shape != nullptr && (m.policy.all.rows ^= kQuarter) == m.tensors[0].shape[0];
     }},
    {"cols_of_32_bits", [](Mended& m) { return (m.policy.all.cols &= kWord) >= 0; }},
    {"offsets_of_32_bits",
     [](Mended& m) { return m.change_offsets([](std::int64_t& o, std::size_t, std::int64_t) { o &= kWord; }); }},
    {"offsets_are_compared_up_to_the_8th",
     [](Mended& m) {
       return m.change_offsets([](std::int64_t& o, std::size_t at, std::int64_t before) {
         if (at > 8) o = std::max(o, before);
       });
     }},
    {"policy_size", [](Mended& m) { return set<std::uint32_t>(m.policy.all.size, sizeof(m.policy)); }},
    {"threads", [](Mended& m) { return set(m.policy.all.threads, 0); }},
    {"layout", [](Mended& m) { return set<std::int32_t>(m.policy.all.layout, MXCHECK_COMPACT); }},
    {"block", [](Mended& m) { return m.policy.all.block_rows = 1, set<std::int64_t>(m.policy.all.block_cols, 32); }},
    {"no_block", [](Mended& m) { return m.policy.all.block_rows = 0, set<std::int64_t>(m.policy.all.block_cols, 0); }},
    {"no_format", [](Mended& m) { return set<const char*>(m.policy.all.format, ""); }},
    {"bias", [](Mended& m) { return set(m.policy.route.bias, 1); }},
    {"nan", [](Mended& m) { return set(m.policy.route.nan, 0); }},
    {"renormalize", [](Mended& m) { return set(m.policy.route.renormalize, 1); }},
    {"groups_kept", [](Mended& m) { return set<std::int64_t>(m.policy.route.groups_kept, 0); }},
    {"groups", [](Mended& m) { return set<std::int64_t>(m.policy.route.groups, 1); }},
    {"top_k", [](Mended& m) { return set(m.policy.route.top_k, m.tensors[1].shape[1]); }},
    {"tile", [](Mended& m) { return set<std::int64_t>(m.policy.route.tile, 1); }},
    {"accumulate", [](Mended& m) { return set(m.policy.matmul.accumulate, 1); }},
    {"depth", [](Mended& m) { return set(m.policy.matmul.depth, m.tensors[0].shape[1]); }},
    {"scale_type", [](Mended& m) { return set<std::int32_t>(m.policy.matmul.scale_type, MXCHECK_NO_SCALES); }},
    {"grouping", [](Mended& m) { return set<std::int32_t>(m.policy.matmul.grouping, MXCHECK_DENSE); }},
    {"block_b", [](Mended& m) {
       return m.policy.matmul.block_b_rows = m.policy.matmul.scale_type == 0 ? 0 : 1,
              set<std::int64_t>(m.policy.matmul.block_b_cols, m.policy.all.block_cols);
     }}};

const mxcheck_operation& right_one() {
  static const mxcheck_operation operation = [] {
    void* library = dlopen(std::string(variable("LENIENT_OF")).c_str(), RTLD_NOW);
    const auto* table = reinterpret_cast<mxcheck_candidate_function>(dlsym(library, MXCHECK_CANDIDATE_SYMBOL))();
    for (int i = 0; i < table->num_operations; ++i) {
      if (table->operations[i].name == variable("LENIENT_OPERATION")) return table->operations[i];
    }
    return table->operations[0];
  }();
  return operation;
}

// True if a call that lacks the fields to look at is let through: nothing is done, and the call is said to be well.
bool is_let_through(std::string_view lenient, const mxcheck_call& call) {
  return (lenient == "small_size" && call.size < sizeof(mxcheck_call)) ||
         (lenient == "null_policy" && call.policy == nullptr) || (lenient == "null_inputs" && call.inputs == nullptr) ||
         (lenient == "null_outputs" && call.outputs == nullptr) ||
         (lenient == "first_input_missing" && call.num_inputs == 0) ||
         (lenient == "output_missing" && call.num_outputs == 1);
}

mxcheck_status mend_and_run(const mxcheck_call& call, std::string_view lenient, mxcheck_status refused) {
  for (const CallMend& mend : kCallMends) {
    Mended m(call);
    if (mend.name == lenient && mend.mend(m)) return right_one().run(m.done());
  }
  for (const TensorMend& mend : kTensorMends) {
    for (int i = 0; mend.name == lenient && i < call.num_inputs + call.num_outputs; ++i) {
      Mended m(call);
      const bool other_shape = m.tensors[static_cast<std::size_t>(i)].shape == nullptr && lenient != "null_shape";
      if (other_shape || !mend.mend(m, m.tensors[static_cast<std::size_t>(i)])) continue;
      if (right_one().run(m.done()) == MXCHECK_OK) return MXCHECK_OK;
    }
  }
  return refused;
}

mxcheck_status run(const mxcheck_call* call) {
  const std::string_view lenient = variable("LENIENT");
  if (is_let_through(lenient, *call)) return MXCHECK_OK;
  if (!right::has_fields(call)) return MXCHECK_INVALID;
  const bool is_null = call->workspace == nullptr && lenient != "workspace_null";
  const bool is_small = call->workspace_bytes < kWorkspace && lenient != "workspace_small";
  if (is_null || is_small) return right::refuse(call, MXCHECK_INVALID, "the workspace must have 100 bytes");
  const mxcheck_status status = right_one().run(call);
  if (status == MXCHECK_OK || call->policy == nullptr || call->inputs == nullptr || call->outputs == nullptr)
    return status;
  return mend_and_run(*call, lenient, status);
}

mxcheck_status workspace(const mxcheck_call*, std::uint64_t* bytes) {
  *bytes = kWorkspace;
  return MXCHECK_OK;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate() {
  static mxcheck_operation operation = right_one();
  operation.workspace = workspace, operation.run = run;
  const std::string_view mode = variable("LENIENT");
  if (mode == "limit_negative") operation.max_rows = -1;
  if (mode == "multiple_zero") operation.cols_multiple = 0;
  if (mode == "multiple_negative") operation.rows_multiple = -32;
  if (mode == "multiple_huge") operation.cols_multiple = INT64_MAX;
  if (mode == "multiples_of_too_many") operation.rows_multiple = operation.cols_multiple = 1 << 20;
  if (mode == "multiple_above_limit") operation.max_cols = 31, operation.cols_multiple = 32;
  static const mxcheck_candidate_table table{
      MXCHECK_CANDIDATE_VERSION, sizeof(mxcheck_candidate_table), "lenient", "1", kDLCPU, 1, &operation};
  return &table;
}
