#include "kernels/sm100/candidate/stage.h"

#include <algorithm>

#include "kernels/sm100/candidate/clean.h"
#include "kernels/sm100/candidate/copy.h"
#include "kernels/sm100/scales/emulated.h"

namespace mxcheck_kernels::sm100 {
namespace {

namespace emulation = mxcheck::emulation::sm100;
namespace gemm = mxcheck::sm100::gemm;
namespace scales = mxcheck::sm100::scales;

scales::Groups groups_of(const MatmulTensors& x, bool grouped, std::int64_t extent) {
  if (grouped) return {static_cast<const std::int64_t*>(x.offsets.data), x.experts, 0};
  return {nullptr, 1, extent};
}

// TMA reads rows that begin at multiples of 16 bytes; groups along depth must begin at whole blocks, or there is
// nothing to read of them.
bool is_readable_in_place(const MatmulTensors& x, const scales::Groups& depth) {
  const std::int64_t k = x.policy->depth;
  if (k == 0 || k % 16 != 0 || !is_aligned(x.a.data, 16) || !is_aligned(x.b.data, 16)) return false;
  for (std::int64_t e = 0; e < depth.count; ++e) {
    if (depth.begin(e) % scales::kBlock != 0 && depth.length(e) != 0) return false;
  }
  return true;
}

void copy_operand(const Staging& s, const Checked& operand, std::uint64_t to, bool is_a) {
  CopyJob job;
  job.from = static_cast<const std::uint8_t*>(operand.data);
  job.to = s.at<std::uint32_t>(to);
  job.rows = is_a ? s.shape.m : operand.rows;
  job.row_bytes = s.shape.k;
  job.pitch_bytes = s.plan.pitch;
  if (is_a && s.x.gathers) job.index = static_cast<const std::int32_t*>(s.x.index.data);
  job.depth = s.depth;
  require_clean("the copy of operands",
                emulation::launch({.blocks = 2, .threads = kCopyThreads}, options_of(s.shape), [&job] {
                  mxcheck::sm100::role("copy");
                  copy(job);
                }));
}

// Their number, at least the one that a tensor map needs.
std::int64_t pack_scales(const Staging& s, const Checked& compact, std::uint64_t to, bool is_a) {
  scales::PackJob job;
  job.compact = static_cast<const std::uint8_t*>(compact.data);
  job.columns = compact.cols;
  job.chunks = s.at<std::uint32_t>(to);
  job.chunks_k = s.depth.pieces(scales::kChunkScales * scales::kBlock);
  if (is_a && s.x.gathers) job.index = static_cast<const std::int32_t*>(s.x.index.data);
  job.rows = is_a ? groups_of(s.x, s.shape.by_rows, s.shape.m)
                  : scales::Groups{nullptr, s.shape.by_rows ? s.shape.groups : 1, s.shape.n};
  job.depth = s.depth;
  const std::int64_t chunks = job.rows.pieces(scales::kChunkRows) * job.chunks_k;
  if (chunks > 0) require_clean("the packing of scales", scales::pack_emulated(job, options_of(s.shape)));
  return std::max<std::int64_t>(chunks, 1);
}

// Copies of a and b in place of them, a's rows gathered: groups of k begin elsewhere then.
void use_copies(const Staging& s, gemm::Problem& g) {
  copy_operand(s, s.x.a, s.plan.a_at, true);
  copy_operand(s, s.x.b, s.plan.b_at, false);
  g.a = s.at<std::uint8_t>(s.plan.a_at);
  g.gathered_rows = nullptr;
  g.b = s.at<std::uint8_t>(s.plan.b_at);
  g.k = s.plan.pitch;
  if (g.grouping != gemm::Grouping::depth && s.shape.k != 0) return;
  // A matmul without depth is one whose groups have none: the copies are of zeros, which nobody reads.
  const bool by_depth = g.grouping == gemm::Grouping::depth;
  auto* const offsets = s.at<std::int64_t>(s.plan.offsets_at);
  g.grouping = gemm::Grouping::depth;
  g.groups = by_depth ? s.shape.groups : 1;
  g.offsets = offsets;
  offsets[0] = 0;
  for (std::int64_t e = 0; e < g.groups; ++e) {
    const std::int64_t length = by_depth ? s.depth.length(e) : 0;
    offsets[e + 1] = offsets[e] + (length + scales::kBlock - 1) / scales::kBlock * scales::kBlock;
  }
}

}  // namespace

Staging make_staging(const MatmulTensors& x, const MatmulShape& shape, const Workspace& plan, void* workspace) {
  return {.x = x,
          .shape = shape,
          .plan = plan,
          .workspace = static_cast<std::byte*>(workspace),
          .depth = groups_of(x, shape.by_depth, shape.k)};
}

void stage(const Staging& s, gemm::Problem& g) {
  g.scales_a = s.at<std::byte>(s.plan.scales_a_at);
  g.scales_b = s.at<std::byte>(s.plan.scales_b_at);
  g.chunks_k = s.depth.pieces(gemm::kTileK);
  g.chunks_a = pack_scales(s, s.x.scale_a, s.plan.scales_a_at, true);
  g.chunks_b = pack_scales(s, s.x.scale_b, s.plan.scales_b_at, false);
  if (!is_readable_in_place(s.x, s.depth)) use_copies(s, g);
}

}  // namespace mxcheck_kernels::sm100
