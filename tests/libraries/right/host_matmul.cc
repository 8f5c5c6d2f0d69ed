// A host library whose matmul is the reference's, so that the gate's statements about matmul run without a GPU; and,
// named by MATMUL_FAULT, the faults that kernels make.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/candidate_matmul.h"
#include "reference/matmul/matmul.h"
#include "tests/libraries/right/right_call.h"

namespace {

using mxcheck::Format;

std::string fault() {
  const char* name = std::getenv("MATMUL_FAULT");
  return name == nullptr ? "" : name;
}

using right::refuse;

const mxcheck_matmul_policy* policy_of(const mxcheck_policy* p) {
  return p != nullptr && p->size >= sizeof(mxcheck_matmul_policy) ? reinterpret_cast<const mxcheck_matmul_policy*>(p)
                                                                  : nullptr;
}

mxcheck_status supports(const mxcheck_policy* base, DLDataType) {
  const mxcheck_matmul_policy* p = policy_of(base);
  if (p == nullptr) return MXCHECK_INVALID;
  return p->policy.block_cols == 128 || p->scale_type == 0 ? MXCHECK_OK : MXCHECK_UNSUPPORTED;
}

const std::byte* data_of(const DLTensor& t) { return static_cast<const std::byte*>(t.data) + t.byte_offset; }

bool has_shape(const DLTensor& t, std::int64_t rows, std::int64_t cols, int code, int bits) {
  return t.ndim == 2 && t.shape[0] == rows && t.shape[1] == cols && t.dtype.code == code && t.dtype.bits == bits;
}

std::int64_t blocks(std::int64_t extent, std::int64_t block) { return (extent + block - 1) / block; }

// Blocks as a policy may have them: of scales, or none.
bool has_blocks(const mxcheck_matmul_policy& p) {
  const auto is = [](std::int64_t value, std::int64_t a, std::int64_t b) { return value == a || value == b; };
  if (p.scale_type == MXCHECK_NO_SCALES)
    return p.policy.block_rows == 0 && p.policy.block_cols == 0 && p.block_b_rows == 0 && p.block_b_cols == 0;
  return p.policy.block_rows == 1 && is(p.policy.block_cols, 32, 128) && is(p.block_b_rows, 1, 128) &&
         is(p.block_b_cols, 32, 128);
}

mxcheck_status run_as(const mxcheck_call* call, std::string_view contract) {
  if (!right::has_fields(call)) return MXCHECK_INVALID;
  if (const char* problem = right::problem_of(*call, sizeof(mxcheck_matmul_policy), false))
    return refuse(call, MXCHECK_INVALID, problem);
  const mxcheck_matmul_policy* p = policy_of(call->policy);
  if (p == nullptr) return refuse(call, MXCHECK_INVALID, "no policy of a matmul");
  const auto a_format = mxcheck::find_format(p->policy.format);
  const auto b_format = mxcheck::find_format(p->format_b);
  const std::int64_t m = p->policy.rows;
  const std::int64_t n = p->policy.cols;
  const std::int64_t k = p->depth;
  const bool scaled = p->scale_type != 0;
  const int needed = 2 + (scaled ? 2 : 0) + (p->accumulate != 0 ? 1 : 0);
  if (!a_format || !b_format || k < 0 || k > INT32_MAX || p->policy.layout != 0 || p->grouping < 0 || p->grouping > 2 ||
      p->scale_type < 0 || p->scale_type > 2 || call->num_outputs != 1 || call->num_inputs < needed ||
      call->num_inputs > needed + 2 || !has_blocks(*p) || p->accumulate < 0 || p->accumulate > 1) {
    return refuse(call, MXCHECK_INVALID, "policy and tensors make no matmul");
  }
  const DLTensor* in = call->inputs;
  mxcheck::Matmul x;
  std::vector<std::int64_t> offsets;
  const DLTensor* index = nullptr;
  for (int i = needed; i < call->num_inputs; ++i) {
    const bool again = in[i].dtype.bits == 32 ? index != nullptr : !offsets.empty();
    if (in[i].ndim != 1 || in[i].dtype.code != kDLInt || again)
      return refuse(call, MXCHECK_INVALID, "neither offsets nor index");
    if (in[i].dtype.bits == 32) index = &in[i];
    if (in[i].dtype.bits == 64) {
      const auto* values = reinterpret_cast<const std::int64_t*>(data_of(in[i]));
      offsets.assign(values, values + in[i].shape[0]);
    }
  }
  if (offsets.empty() != (p->grouping == 0)) return refuse(call, MXCHECK_INVALID, "offsets go with groups");
  const std::int64_t experts = offsets.empty() ? 1 : static_cast<std::int64_t>(offsets.size()) - 1;
  const std::int64_t matrices = p->grouping == MXCHECK_ROWS ? experts : 1;
  const std::int64_t results = p->grouping == MXCHECK_DEPTH ? experts : 1;
  const int width_a = mxcheck::spec(*a_format).bits;
  if (index == nullptr ? in[0].shape[0] != m : index->shape[0] != m)
    return refuse(call, MXCHECK_INVALID, "rows differ");
  if (in[0].ndim != 2) return refuse(call, MXCHECK_INVALID, "a is no matrix");
  const std::int64_t a_rows = in[0].shape[0];
  const auto code_type = [](int bits) { return bits <= 8 ? kDLUInt : kDLFloat; };
  const bool halves = width_a == 16 && *a_format == Format::bf16;
  const int type = halves ? static_cast<int>(kDLBfloat) : static_cast<int>(code_type(width_a));
  const int out_bits = call->outputs[0].dtype.bits;
  const int out_type = out_bits == 16 ? static_cast<int>(kDLBfloat) : static_cast<int>(kDLFloat);
  bool right = has_shape(in[0], a_rows, k, type, width_a) && has_shape(in[1], matrices * n, k, type, width_a) &&
               has_shape(call->outputs[0], results * m, n, out_type, out_bits);
  const int scale_bits = p->scale_type == MXCHECK_E8M0 ? 8 : 32;
  const int scale_code = p->scale_type == MXCHECK_E8M0 ? static_cast<int>(kDLUInt) : static_cast<int>(kDLFloat);
  std::int64_t columns = 0;
  if (scaled && p->grouping == MXCHECK_DEPTH) {
    for (std::size_t e = 1; e < offsets.size(); ++e) columns += blocks(offsets[e] - offsets[e - 1], 128);
  } else if (scaled) {
    columns = blocks(k, 128);
  }
  if (scaled) {
    right = right && has_shape(in[2], blocks(a_rows, p->policy.block_rows), columns, scale_code, scale_bits) &&
            has_shape(in[3], matrices * blocks(n, p->block_b_rows), columns, scale_code, scale_bits);
  }
  if (p->accumulate != 0) right = right && has_shape(in[needed - 1], results * m, n, out_type, out_bits);
  if (!right) return refuse(call, MXCHECK_INVALID, "a tensor has another shape or type");

  const auto operand = [&](const DLTensor& codes, Format format, std::int64_t rows, const DLTensor* scales,
                           std::int64_t br, std::int64_t bc) {
    mxcheck::MatmulOperand o;
    o.format = format, o.codes = data_of(codes), o.rows = rows, o.depth = k, o.row_stride = k;
    if (scales != nullptr) {
      o.block = {br, bc};
      o.scale_format = p->scale_type == MXCHECK_E8M0 ? Format::e8m0 : Format::fp32;
      o.scales = data_of(*scales), o.scale_row_stride = columns;
    }
    return o;
  };
  x.a = operand(in[0], *a_format, a_rows, scaled ? &in[2] : nullptr, p->policy.block_rows, p->policy.block_cols);
  x.b = operand(in[1], *b_format, n, scaled ? &in[3] : nullptr, p->block_b_rows, p->block_b_cols);
  x.output = out_bits == 16 ? Format::bf16 : Format::fp32;
  x.alpha = p->alpha;
  if (p->accumulate != 0) x.c = data_of(in[needed - 1]);
  x.grouping = static_cast<mxcheck::Grouping>(p->grouping);
  x.offsets = offsets;
  if (index != nullptr) {
    x.gathers = true;
    x.row_index = {reinterpret_cast<const std::int32_t*>(data_of(*index)), static_cast<std::size_t>(m)};
  }
  const std::string injected = fault();
  std::string text(contract);
  if (injected == "no_promotion" && !scaled) text = "sm90_fp8";
  if (injected == "promotes_every_256" && !scaled) text = "sm90_fp8+promote256";
  if (injected == "fp32_sums") text = "ieee_fp32";
  if (injected == "a_scale_first") text += "+a_first";
  if (injected == "backwards") text += "+descending";
  if (injected == "k_block_dropped" && k > 128) x.a.depth = x.b.depth = (k - 1) / 128 * 128;
  std::vector<std::byte> shifted;
  if (injected == "scale_before" && scaled && p->grouping == 0 && k % 128 == 0 && k > 0) {
    const std::size_t width = p->scale_type == MXCHECK_E8M0 ? 1 : 4;
    const auto* from = static_cast<const std::byte*>(x.a.scales);
    const std::size_t line = static_cast<std::size_t>(k / 128) * width;
    shifted.assign(from, from + line * static_cast<std::size_t>(a_rows));
    for (std::size_t i = 0; i < shifted.size(); ++i) {
      if (i % line >= width) shifted[i] = from[i - width];
    }
    x.a.scales = shifted.data();
  }
  std::vector<float> uncut;
  if (injected == "c_forgotten") x.c = nullptr;
  try {
    x.contract = mxcheck::parse_matmul_contract(text);
    if (x.c == nullptr) x.contract.from_c = false;
    auto* d = const_cast<std::byte*>(data_of(call->outputs[0]));
    if (injected == "d_cleared_first") std::memset(d, 0, static_cast<std::size_t>(results * m * n * out_bits / 8));
    if (injected == "output_cut" && out_bits == 16 && x.c == nullptr) {
      uncut.resize(static_cast<std::size_t>(results * m * n));
      x.output = Format::fp32;
      mxcheck::matmul(x, uncut.data());
      for (std::size_t i = 0; i < uncut.size(); ++i) {
        std::memcpy(d + 2 * i, reinterpret_cast<const std::byte*>(&uncut[i]) + 2, 2);
      }
    } else {
      mxcheck::matmul(x, d);
    }
    if (injected == "last_row_zero" && m > 64 && n > 0) {
      const std::int64_t line = n * out_bits / 8;
      std::memset(d + (results * m - 1) * line, 0, static_cast<std::size_t>(line));
    }
  } catch (const std::exception& e) {
    return refuse(call, MXCHECK_INVALID, e.what());
  }
  return MXCHECK_OK;
}

mxcheck_status run_promoted(const mxcheck_call* call) { return run_as(call, "sm90_fp8+promote128"); }
mxcheck_status run_bf16(const mxcheck_call* call) { return run_as(call, "sm90_bf16+from_c"); }

constexpr mxcheck_operation kOperations[] = {
    {"matmul", "sm90_fp8+promote128", 0, 0, 1, 1, supports, nullptr, run_promoted},
    {"matmul", "sm90_bf16+from_c", 0, 0, 1, 1,
     [](const mxcheck_policy* p, DLDataType) {
       const mxcheck_matmul_policy* q = policy_of(p);
       return q != nullptr && q->grouping == 0 ? MXCHECK_OK : MXCHECK_UNSUPPORTED;
     },
     nullptr, run_bf16},
};
constexpr mxcheck_candidate_table kTable{
    MXCHECK_CANDIDATE_VERSION, sizeof(mxcheck_candidate_table), "host_matmul", "1", kDLCPU, 2, kOperations};

}  // namespace

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate() { return &kTable; }
