#pragma once
// The tensors of a call of kernels/candidate_layer.h, checked against the policy and one another before anything is
// read through them. What follows from offsets, the number of blocks along tokens, is left to the caller: only the
// device may be able to read them. All throw Refusal.

#include <cstdint>

#include "kernels/common/arguments.h"
#include "kernels/common/layer/policy.h"

namespace mxcheck_kernels {

// The library's own: kernels/common/arguments.h's check_layout, and that the memory is on its device.
using CheckTensor = Checked (*)(const char* name, const DLTensor& tensor, DLDataType type, int rank, Strides strides);

struct CodeTensors {
  Checked codes, scales;
};

struct SwigluTensors {
  std::int64_t rows = 0;
  std::int64_t n = 0;
  Checked h, h_scales;              // h_scales of coded h alone
  Checked p, weights;               // backward
  Checked offsets;                  // no columns where there are none
  Checked ds;                       // backward
  Checked a, dh;                    // values; a is A, or A' of the backward pass
  CodeTensors row;                  // of A, or of dH
  CodeTensors column_a, column_dh;  // transposed: of A, or of A' and dH
};
SwigluTensors read_swiglu(const mxcheck_call& call, const SwigluPlan& plan, CheckTensor check);

struct AggregateTensors {
  std::int64_t tokens = 0;
  std::int64_t cols = 0;
  Checked y, weights, token_offsets, token_rows, o;
};
AggregateTensors read_aggregate(const mxcheck_call& call, bool weighted, CheckTensor check);

struct TransposeTensors {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  Checked x, offsets, index;  // no columns where there are none
  bool has_offsets = false, has_index = false;
  CodeTensors out;
};
TransposeTensors read_transpose(const mxcheck_call& call, const TransposePlan& plan, CheckTensor check);

constexpr std::int64_t blocks_of(std::int64_t extent, std::int64_t block) { return (extent + block - 1) / block; }

}  // namespace mxcheck_kernels
