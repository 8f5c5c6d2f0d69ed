#include "kernels/common/layer/tensors.h"

#include <array>
#include <limits>
#include <string>
#include <utility>

namespace mxcheck_kernels {
namespace {

// Twice the columns must be a number, and every product of two extents is checked with its tensor.
void check_extents(const mxcheck_policy& p) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 4;
  for (const auto& [name, value] : {std::pair("rows", p.rows), std::pair("cols", p.cols)}) {
    if (value >= 0 && value <= kMost) continue;
    invalid(std::string("policy.") + name + " is " + std::to_string(value) + ": must be 0 to 2^61");
  }
}

// Takes tensors one after the other.
class Reader {
 public:
  Reader(const mxcheck_call& call, CheckTensor check) : call_(call), check_(check) {}

  Checked in(const char* name, DLDataType type, std::int64_t rows, std::int64_t cols,
             Strides strides = Strides::contiguous) {
    return shaped(name, check_(name, call_.inputs[next_in_++], type, 2, strides), rows, cols);
  }
  Checked in_vector(const char* name, DLDataType type, std::int64_t size) {
    return shaped(name, check_(name, call_.inputs[next_in_++], type, 1, Strides::contiguous), 1, size);
  }
  Checked out(const char* name, DLDataType type, std::int64_t rows, std::int64_t cols) {
    return shaped(name, check_(name, call_.outputs[next_out_++], type, 2, Strides::contiguous), rows, cols);
  }
  Checked out_vector(const char* name, DLDataType type, std::int64_t size) {
    return shaped(name, check_(name, call_.outputs[next_out_++], type, 1, Strides::contiguous), 1, size);
  }

  CodeTensors rows(const char* codes, const char* scales, const Coding& c, std::int64_t rows, std::int64_t cols) {
    CodeTensors t;
    t.codes = out(codes, kByteType, rows, cols);
    t.scales = out(scales, scale_type(c.scale), rows, blocks_of(cols, c.block));
    return t;
  }
  // Without offsets there is one expert of all rows; with them the scales' columns are what they say they are.
  CodeTensors columns(const char* codes, const char* scales, const Coding& c, std::int64_t rows, std::int64_t cols,
                      bool offsets) {
    CodeTensors t;
    t.codes = out(codes, kByteType, cols, rows);
    t.scales = check_(scales, call_.outputs[next_out_++], scale_type(c.scale), 2, Strides::contiguous);
    shaped(scales, t.scales, cols, offsets ? t.scales.cols : blocks_of(rows, c.block));
    return t;
  }

 private:
  static Checked shaped(const char* name, const Checked& t, std::int64_t rows, std::int64_t cols) {
    require_shape(name, t, rows, cols);
    return t;
  }

  const mxcheck_call& call_;
  CheckTensor check_;
  int next_in_ = 0;
  int next_out_ = 0;
};

Checked offsets_of(const DLTensor& tensor, CheckTensor check) {
  const Checked t = check("offsets", tensor, kInt64Type, 1, Strides::contiguous);
  if (t.cols == 0) invalid("offsets is empty: must hold one value more than there are experts");
  return t;
}

void read_inputs(SwigluTensors& x, const SwigluPlan& plan, Reader& reader) {
  constexpr std::int64_t kHBlock = 32;
  const std::int64_t width = 2 * x.n;
  if (plan.coded_h) {
    x.h = reader.in("codes of h", kByteType, x.rows, width);
    x.h_scales = reader.in("scales of h", kByteType, x.rows, blocks_of(width, kHBlock));
  } else {
    x.h = reader.in("h", kBf16Type, x.rows, width, Strides::any);
  }
  if (!plan.backward) return;
  x.p = reader.in("p", kFp32Type, x.rows, x.n);
  x.weights = reader.in_vector("weights", kFp32Type, x.rows);
}

void read_outputs(SwigluTensors& x, const SwigluPlan& plan, bool offsets, Reader& reader) {
  const std::int64_t width = 2 * x.n;
  if (plan.backward) x.ds = reader.out_vector("ds", kFp32Type, x.rows);
  if (plan.values) {
    x.a = reader.out(plan.backward ? "scaled_a" : "a", kBf16Type, x.rows, x.n);
    if (plan.backward) x.dh = reader.out("dh", kBf16Type, x.rows, width);
  }
  if (plan.rows) {
    x.row = reader.rows(plan.backward ? "codes of dh" : "codes of a", "scales of rows", plan.coding, x.rows,
                        plan.backward ? width : x.n);
  }
  if (!plan.columns) return;
  x.column_a = reader.columns(plan.backward ? "transposed codes of scaled_a" : "transposed codes of a",
                              "scales of transposed codes of a", plan.coding, x.rows, x.n, offsets);
  if (!plan.backward) return;
  x.column_dh =
      reader.columns("transposed codes of dh", "scales of transposed codes of dh", plan.coding, x.rows, width, offsets);
}

}  // namespace

SwigluTensors read_swiglu(const mxcheck_call& call, const SwigluPlan& plan, CheckTensor check) {
  const int inputs = 1 + (plan.coded_h ? 1 : 0) + (plan.backward ? 2 : 0);
  const int passes = plan.backward ? 2 : 1;  // values and columns of A' and dH, or of A
  const int outputs =
      (plan.backward ? 1 : 0) + (plan.values ? passes : 0) + (plan.rows ? 2 : 0) + (plan.columns ? 2 * passes : 0);
  check_call(call, inputs, inputs + 1, outputs);
  check_extents(*call.policy);
  SwigluTensors x;
  x.rows = call.policy->rows, x.n = call.policy->cols;
  Reader reader(call, check);
  read_inputs(x, plan, reader);
  const bool offsets = call.num_inputs > inputs;
  if (offsets) x.offsets = offsets_of(call.inputs[inputs], check);
  read_outputs(x, plan, offsets, reader);
  require_disjoint(std::array{x.h, x.h_scales, x.p, x.weights, x.offsets},
                   std::array{x.ds, x.a, x.dh, x.row.codes, x.row.scales, x.column_a.codes, x.column_a.scales,
                              x.column_dh.codes, x.column_dh.scales});
  return x;
}

AggregateTensors read_aggregate(const mxcheck_call& call, bool weighted, CheckTensor check) {
  const int inputs = weighted ? 4 : 3;
  check_call(call, inputs, inputs, 1);
  check_extents(*call.policy);
  AggregateTensors x;
  x.tokens = call.policy->rows, x.cols = call.policy->cols;
  const DLTensor* in = call.inputs;
  x.y = check("y", in[0], kBf16Type, 2, Strides::contiguous);
  require_shape("y", x.y, x.y.rows, x.cols);
  if (weighted) {
    x.weights = check("weights", in[1], kFp32Type, 1, Strides::contiguous);
    require_shape("weights", x.weights, 1, x.y.rows);
  }
  x.token_offsets = check("token_offsets", in[inputs - 2], kInt64Type, 1, Strides::contiguous);
  require_shape("token_offsets", x.token_offsets, 1, x.tokens + 1);
  x.token_rows = check("token_rows", in[inputs - 1], kInt32Type, 1, Strides::contiguous);
  x.o = check("o", call.outputs[0], kBf16Type, 2, Strides::contiguous);
  require_shape("o", x.o, x.tokens, x.cols);
  require_disjoint(std::array{x.y, x.weights, x.token_offsets, x.token_rows}, std::array{x.o});
  return x;
}

TransposeTensors read_transpose(const mxcheck_call& call, const TransposePlan& plan, CheckTensor check) {
  check_call(call, 1, 3, 2);
  check_extents(*call.policy);
  TransposeTensors x;
  x.rows = call.policy->rows, x.cols = call.policy->cols;
  for (int i = 1; i < call.num_inputs; ++i) {
    const bool index = same(call.inputs[i].dtype, kInt32Type);
    if (index ? x.has_index : x.has_offsets) invalid("a tensor is given twice: must be offsets and a row index");
    if (index) {
      x.index = check("row index", call.inputs[i], kInt32Type, 1, Strides::contiguous);
      require_shape("row index", x.index, 1, x.rows);
      x.has_index = true;
    } else {
      x.offsets = offsets_of(call.inputs[i], check);
      x.has_offsets = true;
    }
  }
  x.x = check("x", call.inputs[0], dl_type(plan.dtype), 2, Strides::any);
  require_shape("x", x.x, x.has_index ? x.x.rows : x.rows, x.cols);
  Reader reader(call, check);
  x.out = reader.columns("transposed codes", "scales", plan.coding, x.rows, x.cols, x.has_offsets);
  require_disjoint(std::array{x.x, x.offsets, x.index}, std::array{x.out.codes, x.out.scales});
  return x;
}

}  // namespace mxcheck_kernels
