#include "kernels/parallel/moe_call.h"

#include <vector>

namespace mxcheck_kernels::parallel {
namespace {

// E5M6 in groups of eight codes, three words each (kernels/candidate_moe.h).
std::int64_t packed_bytes(std::int64_t cols) { return 12 * ((cols + 7) / 8); }

void* row_of(const Memory& memory, std::int64_t row, std::int64_t row_bytes) {
  return memory.data() == nullptr ? nullptr : memory.at(size_of(row, row_bytes));
}

}  // namespace

mxcheck_moe_policy moe_policy(const LayerSpec& spec, std::int64_t tokens, std::int64_t rows, std::int64_t experts) {
  auto p = empty_policy<mxcheck_moe_policy>();
  p.policy.size = sizeof(p), p.policy.layout = MXCHECK_COMPACT;
  p.policy.format = "", p.policy.recipe = spec.recipe.c_str();
  p.policy.rows = tokens, p.policy.cols = spec.width, p.policy.threads = spec.threads;
  p.inner = spec.inner, p.experts = experts, p.routed = rows;
  p.gate_up = spec.interleaved ? MXCHECK_INTERLEAVED : MXCHECK_HALVES;
  return p;
}

mxcheck_policy dispatch_policy(const LayerSpec& spec, std::int64_t rows) {
  auto p = empty_policy<mxcheck_policy>();
  p.size = sizeof(p), p.layout = MXCHECK_COMPACT, p.format = "e4m3", p.recipe = "rceil";
  p.block_rows = 1, p.block_cols = kScaleBlock, p.rows = rows, p.cols = spec.width, p.threads = spec.threads;
  return p;
}

Kept::Kept(Device& device, const LayerSpec& spec, std::int64_t h_rows, std::int64_t x_rows) : spec_(spec) {
  const std::int64_t h = 2 * spec.inner;
  h_ = Memory(device, size_of(h_rows, spec.keeps_h_e5m6 ? packed_bytes(h) : kBf16Bytes * h));
  if (spec.keeps_h_e5m6) h_scales_ = Memory(device, size_of(h_rows, scale_blocks(h)));
  if (!spec.keeps_x_codes) return;
  x_ = Memory(device, size_of(x_rows, spec.width));
  x_scales_ = Memory(device, size_of(x_rows, scale_blocks(spec.width) * (spec.x_scales_fp32 ? kFp32Bytes : 1)));
}

std::vector<Kept::Tensor> Kept::tensors(bool of_x, std::int64_t first, std::int64_t rows) const {
  if (of_x) {
    if (!spec_.keeps_x_codes) return {};
    const std::int64_t blocks = scale_blocks(spec_.width);
    return {{row_of(x_, first, spec_.width), kBytes, rows, spec_.width},
            {row_of(x_scales_, first, blocks * (spec_.x_scales_fp32 ? kFp32Bytes : 1)),
             spec_.x_scales_fp32 ? kFp32 : kBytes, rows, blocks}};
  }
  const std::int64_t h = 2 * spec_.inner;
  if (!spec_.keeps_h_e5m6) return {{row_of(h_, first, kBf16Bytes * h), kBf16, rows, h}};
  return {{row_of(h_, first, packed_bytes(h)), kBytes, rows, packed_bytes(h)},
          {row_of(h_scales_, first, scale_blocks(h)), kBytes, rows, scale_blocks(h)}};
}

void Kept::add_outputs(LibraryCall& call, std::int64_t first, std::int64_t h_rows, std::int64_t x_rows) const {
  for (const bool of_x : {false, true}) {
    for (const Tensor& t : tensors(of_x, first, of_x ? x_rows : h_rows)) call.out(t.data, t.type, {t.rows, t.cols});
  }
}

void Kept::add_inputs(LibraryCall& call, std::int64_t first, std::int64_t h_rows, std::int64_t x_rows,
                      const void* x) const {
  for (const bool of_x : {false, true}) {
    for (const Tensor& t : tensors(of_x, first, of_x ? x_rows : h_rows)) call.in(t.data, t.type, {t.rows, t.cols});
  }
  if (!spec_.keeps_x_codes) call.in(x, kBf16, {x_rows, spec_.width});
}

}  // namespace mxcheck_kernels::parallel
