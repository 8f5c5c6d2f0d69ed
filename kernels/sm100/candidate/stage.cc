#include "kernels/sm100/candidate/stage.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "kernels/sm100/gemm/emulated.h"
#include "kernels/sm100/gemm/pack.h"

namespace mxcheck_kernels::sm100 {

// --- the workspace

namespace {

namespace gemm = mxcheck::sm100::gemm;
namespace scales = mxcheck::sm100::scales;

constexpr std::uint64_t kAlignment = 256;

// Elements of k of one mma.
constexpr std::int64_t step_of(const gemm::Encoding& e) { return gemm::kStepK * 8 / e.bits; }
constexpr std::int64_t kMostCoordinate = INT32_MAX;

struct Shape {
  std::int64_t rows, cols;
};

Shape shape_of(const char* name, const DLTensor& t) {
  if (t.ndim != 2 || t.shape == nullptr || t.shape[0] < 0 || t.shape[1] < 0)
    invalid(std::string(name) + " is no matrix");
  return {t.shape[0], t.shape[1]};
}

// Groups, by the offsets' shape; 1 where there are none, or none that can be read.
std::int64_t groups_of(const mxcheck_call& call) {
  for (int i = 4; i < call.num_inputs; ++i) {
    const DLTensor& t = call.inputs[i];
    if (same(t.dtype, kInt64Type) && t.ndim == 1 && t.shape != nullptr && t.shape[0] > 1 && t.shape[0] <= 65537) {
      return t.shape[0] - 1;
    }
  }
  return 1;
}

class Plan {
 public:
  // Where `rows` x `row_bytes` bytes begin.
  std::uint64_t add(const char* what, std::int64_t rows, std::int64_t row_bytes) {
    const std::uint64_t at = bytes_;
    std::int64_t size = 0;
    if (__builtin_mul_overflow(rows, row_bytes, &size) || size > INT64_MAX / 16) {
      invalid(std::string(what) + " of " + std::to_string(rows) + " rows is too large");
    }
    bytes_ += (static_cast<std::uint64_t>(size) + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  std::uint64_t bytes_ = 0;
};

void require_coordinate(const char* what, std::int64_t value) {
  if (value <= kMostCoordinate) return;
  unsupported(std::string(what) + " are offered up to 2^31 - 1: these are " + std::to_string(value));
}

// Chunks of 128 rows of `groups` groups, at most, whatever their ends.
std::int64_t most_pieces(std::int64_t extent, std::int64_t groups, std::int64_t size) {
  return std::min(extent, (extent + groups * (size - 1)) / size);
}

}  // namespace

Workspace plan_workspace(const mxcheck_call& call) {
  const mxcheck_matmul_policy& p = matmul_policy(call.policy);
  if (call.inputs == nullptr || call.num_inputs < 4) invalid("a matmul with scales has four inputs or more");
  if (call.outputs == nullptr || call.num_outputs != 1) invalid("a matmul has one output, d");
  const std::int64_t b_rows = shape_of("b", call.inputs[1]).rows;
  const std::int64_t columns = shape_of("scales of a", call.inputs[2]).cols;
  const gemm::Encoding encoding = encoding_of(p);
  const Shape d = shape_of("d", call.outputs[0]);
  if (p.policy.rows < 0 || p.policy.rows > INT32_MAX) invalid("policy.rows must be 0 to 2^31 - 1");
  if (p.policy.cols < 0 || p.policy.cols > INT32_MAX) invalid("policy.cols must be 0 to 2^31 - 1");
  const std::int64_t groups = groups_of(call);
  require_coordinate("blocks of depth", columns > INT64_MAX / scales::kBlock ? columns : columns * encoding.block);
  require_coordinate("rows of b, of all experts,", b_rows);
  const bool by_rows = p.grouping == MXCHECK_ROWS;
  const bool by_depth = p.grouping == MXCHECK_DEPTH;
  const std::int64_t chunks_k = most_pieces(columns, by_depth ? groups : 1, scales::kChunkScales);
  const std::int64_t rows_a = most_pieces(p.policy.rows, by_rows ? groups : 1, scales::kChunkRows);
  const std::int64_t rows_b = (by_rows ? groups : 1) * ((p.policy.cols + scales::kChunkRows - 1) / scales::kChunkRows);
  constexpr std::int64_t kChunkBytes = std::int64_t{4} * scales::kChunkWords;
  // Chunks of scales are at least one, even where there are none, since a tensor map has no extent of 0.
  const auto chunks = [&](std::int64_t rows) {
    std::int64_t count = 0;
    if (__builtin_mul_overflow(rows, chunks_k, &count)) count = INT64_MAX;
    require_coordinate("chunks of scales", count);
    return std::max<std::int64_t>(count, 1);
  };
  Workspace w;
  const std::int64_t steps = most_pieces(columns, by_depth ? groups : 1, step_of(encoding) / encoding.block);
  w.pitch = std::max<std::int64_t>(steps, 1) * gemm::kStepK;
  Plan plan;
  w.a_at = plan.add("a", p.policy.rows, w.pitch);
  w.b_at = plan.add("b", b_rows, w.pitch);
  w.scales_a_at = plan.add("scales of a", chunks(rows_a), kChunkBytes);
  w.scales_b_at = plan.add("scales of b", chunks(rows_b), kChunkBytes);
  w.offsets_at = plan.add("offsets", groups + 1, sizeof(std::int64_t));
  if (d.cols != 0 && d.rows > INT64_MAX / 4 / d.cols) invalid("d is too large");
  w.d_at = plan.add("d", d.rows * d.cols, 4);
  w.bytes = plan.bytes();
  return w;
}

// --- copies
//
// Operands that TMA cannot read where they are, copied to rows that it can: at multiples of 16 bytes, gathered, and
// each group of k filled up with zeros to whole mma. Such zeros change no sum: a product of zero adds nothing and does
// not widen the window (numerics/accumulate/fused_sum.h, steps 2 and 3), nor does a group of them. A kernel on the thin
// layer.

inline constexpr int kCopyThreads = 64;

struct CopyJob {
  const std::uint8_t* from = nullptr;  // rows of row_bytes, one after the other, at any address
  std::int64_t bits = 8;               // of a code: 8, or 4, that of the even k in a byte's low half
  std::int64_t step = 32;              // codes that groups of k are filled up to a multiple of
  std::uint32_t* to = nullptr;         // rows of pitch_bytes
  std::int64_t rows = 0;
  std::int64_t row_bytes = 0;
  std::int64_t pitch_bytes = 0;         // a multiple of 32: those of all groups, whatever is beyond them is zeroed
  const std::int32_t* index = nullptr;  // row i is row index[i] of `from`; null: row i
  mxcheck::sm100::scales::Groups depth;
};

// Codes `first` to `first` + `count` - 1 of a row as words of the copy, the last of them perhaps followed by zeros.
// Copies `count` codes of a row. Bits beyond the last code of a byte are not copied.
MXCHECK_SM100_DEVICE void copy_codes(const std::uint8_t* row, std::int64_t bits, std::int64_t first, std::int64_t count,
                                     std::uint32_t* to, std::int64_t words) {
  const std::int64_t per_byte = 8 / bits;
  const std::int64_t per_word = 32 / bits;
  const auto mask = static_cast<std::uint32_t>((1 << bits) - 1);
  for (std::int64_t w = mxcheck::sm100::thread_index(); w < words; w += mxcheck::sm100::block_threads()) {
    std::uint32_t word = 0;
    for (std::int64_t j = 0; j < per_word && w * per_word + j < count; ++j) {
      const std::int64_t at = first + w * per_word + j;
      const std::uint32_t code = std::uint32_t{row[at / per_byte]} >> (at % per_byte * bits) & mask;
      word |= code << (j * bits);
    }
    to[w] = word;
  }
}

// Any number of threads and CTAs: a CTA takes every grid_blocks()-th row.
MXCHECK_SM100_DEVICE void copy(const CopyJob& job) {
  for (std::int64_t row = mxcheck::sm100::block_index(); row < job.rows; row += mxcheck::sm100::grid_blocks()) {
    const std::uint8_t* const from = job.from + (job.index != nullptr ? job.index[row] : row) * job.row_bytes;
    std::uint32_t* const to = job.to + row * (job.pitch_bytes / 4);
    std::int64_t at = 0;  // words
    for (std::int64_t e = 0; e < job.depth.count; ++e) {
      const std::int64_t words = (job.depth.length(e) + job.step - 1) / job.step * job.step * job.bits / 32;
      copy_codes(from, job.bits, job.depth.begin(e), job.depth.length(e), to + at, words);
      at += words;
    }
    copy_codes(nullptr, job.bits, 0, 0, to + at, job.pitch_bytes / 4 - at);
  }
}

// --- staging

namespace {

namespace emulation = mxcheck::emulation::sm100;

scales::Groups groups_of(const MatmulTensors& x, bool grouped, std::int64_t extent) {
  if (grouped) return {static_cast<const std::int64_t*>(x.offsets.data), x.experts, 0};
  return {nullptr, 1, extent};
}

// TMA reads rows that begin at multiples of 16 bytes; groups along depth must begin at whole mma, or there is nothing
// to read of them.
bool is_readable_in_place(const MatmulTensors& x, const gemm::Encoding& encoding, const scales::Groups& depth) {
  const std::int64_t k = x.policy->depth;
  if (k == 0 || k * encoding.bits % 128 != 0 || !is_aligned(x.a.data, 16) || !is_aligned(x.b.data, 16)) return false;
  for (std::int64_t e = 0; e < depth.count; ++e) {
    if (depth.begin(e) % step_of(encoding) != 0 && depth.length(e) != 0) return false;
  }
  return true;
}

void copy_operand(const Staging& s, const Checked& operand, std::uint64_t to, bool is_a) {
  CopyJob job;
  job.from = static_cast<const std::uint8_t*>(operand.data);
  job.to = s.at<std::uint32_t>(to);
  job.bits = s.encoding.bits;
  job.step = step_of(s.encoding);
  job.rows = is_a ? s.shape.m : operand.rows;
  job.row_bytes = operand.cols;
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
  job.block = s.encoding.block;
  job.chunks = s.at<std::uint32_t>(to);
  job.chunks_k = s.depth.pieces(s.encoding.chunk_depth);
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
  g.k = s.plan.pitch * 8 / s.encoding.bits;
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
    const std::int64_t step = step_of(s.encoding);
    offsets[e + 1] = offsets[e] + (length + step - 1) / step * step;
  }
}

}  // namespace

Staging make_staging(const MatmulTensors& x, const MatmulShape& shape, const Workspace& plan, void* workspace) {
  return {.x = x,
          .shape = shape,
          .encoding = encoding_of(*x.policy),
          .plan = plan,
          .workspace = static_cast<std::byte*>(workspace),
          .depth = groups_of(x, shape.by_depth, shape.k)};
}

void stage(const Staging& s, gemm::Problem& g) {
  g.scales_a = s.at<std::byte>(s.plan.scales_a_at);
  g.scales_b = s.at<std::byte>(s.plan.scales_b_at);
  g.chunks_k = s.depth.pieces(s.encoding.chunk_depth);
  g.chunks_a = pack_scales(s, s.x.scale_a, s.plan.scales_a_at, true);
  g.chunks_b = pack_scales(s, s.x.scale_b, s.plan.scales_b_at, false);
  if (!is_readable_in_place(s.x, s.encoding, s.depth)) use_copies(s, g);
}

}  // namespace mxcheck_kernels::sm100
