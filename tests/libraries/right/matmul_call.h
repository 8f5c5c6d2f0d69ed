#pragma once
// A call of the candidate interface as the reference takes a matmul.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/candidate_matmul.h"
#include "reference/matmul/matmul.h"

namespace right {

inline const std::byte* data_of(const DLTensor& t) { return static_cast<const std::byte*>(t.data) + t.byte_offset; }

// Nothing is checked.
inline mxcheck::Matmul matmul_of(const mxcheck_call& call, std::string_view contract) {
  const auto& p = *reinterpret_cast<const mxcheck_matmul_policy*>(call.policy);
  const DLTensor* in = call.inputs;
  const bool scaled = p.scale_type != MXCHECK_NO_SCALES;
  mxcheck::Matmul x;
  const auto operand = [&](int i, const char* format, std::int64_t rows, mxcheck::BlockShape block) {
    mxcheck::MatmulOperand o;
    o.format = *mxcheck::find_format(format), o.codes = data_of(in[i]), o.rows = rows, o.depth = o.row_stride = p.depth;
    if (!scaled) return o;
    o.block = block;
    o.scale_format = p.scale_type == MXCHECK_E8M0 ? mxcheck::Format::e8m0 : mxcheck::Format::fp32;
    o.scales = data_of(in[i + 2]), o.scale_row_stride = in[i + 2].shape[1];
    return o;
  };
  x.a = operand(0, p.policy.format, in[0].shape[0], {p.policy.block_rows, p.policy.block_cols});
  x.b = operand(1, p.format_b, p.policy.cols, {p.block_b_rows, p.block_b_cols});
  int next = scaled ? 4 : 2;
  if (p.accumulate != 0) x.c = data_of(in[next++]);
  for (; next < call.num_inputs; ++next) {
    const auto count = static_cast<std::size_t>(in[next].shape[0]);
    if (in[next].dtype.bits == 64) x.offsets = {reinterpret_cast<const std::int64_t*>(data_of(in[next])), count};
    if (in[next].dtype.bits == 32) {
      x.row_index = {reinterpret_cast<const std::int32_t*>(data_of(in[next])), count};
      x.gathers = true;
    }
  }
  x.output = call.outputs[0].dtype.bits == 16 ? mxcheck::Format::bf16 : mxcheck::Format::fp32;
  x.alpha = p.alpha, x.grouping = static_cast<mxcheck::Grouping>(p.grouping);
  x.contract = mxcheck::parse_matmul_contract(contract);
  if (x.c == nullptr) x.contract.from_c = false;
  return x;
}

}  // namespace right
