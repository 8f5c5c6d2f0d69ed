#include "kernels/sm100/gemm/on_sm90/tensors.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <string>
#include <vector>

#include "emulation/on_sm90/launch.h"

namespace mxcheck::sm100::gemm::on_sm90 {
namespace {

using emulation::on_sm90::require_success;

constexpr std::size_t kGuard = 4096;  // bytes on either side of D
constexpr std::uint8_t kGuardByte = 0x5C;
constexpr std::size_t kAlignment = 256;

// Memory that calls have one after the other: it grows and is never freed, since a call's is the next one's.
class Arena {
 public:
  void reserve(std::size_t bytes) {
    used_ = 0;
    if (bytes <= bytes_) return;
    if (memory_ != nullptr) require_success(cudaFree(memory_), "cudaFree");
    memory_ = nullptr;
    bytes_ = 0;
    require_success(cudaMalloc(&memory_, bytes), "cudaMalloc of a GEMM's tensors");
    bytes_ = bytes;
  }
  std::byte* take(std::size_t bytes) {
    std::byte* const here = static_cast<std::byte*>(memory_) + used_;
    used_ += padded(bytes);
    return here;
  }
  static std::size_t padded(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t used_ = 0;
};

Arena& arena() {
  static auto* const the_arena = new Arena;
  return *the_arena;
}

std::size_t bytes_of(std::int64_t count, std::int64_t each) { return static_cast<std::size_t>(count * each); }

}  // namespace

Tensors::Tensors(const Problem& p) : host_(p), card_(p) {
  const bool by_rows = p.grouping == Grouping::rows;
  const Encoding encoding = encoding_of(p.operands);
  const bool scaled = encoding.block != 0;
  const bool promoted = p.operands == Operands::promoted;
  const std::int64_t experts = by_rows ? p.groups : 1;
  const std::int64_t blocks_b = (p.n + p.block_b - 1) / p.block_b;
  d_bytes_ = bytes_of(p.m * p.n * (p.grouping == Grouping::depth ? p.groups : 1), p.bf16 ? 2 : 4);

  struct Copy {
    const void* from;
    std::size_t bytes;
    const void** to;
  };
  const void* factors_a = nullptr;
  const void* factors_b = nullptr;
  const void* offsets = nullptr;
  const void* gathered_rows = nullptr;
  const std::int64_t rows_a = p.gathered_rows != nullptr ? p.rows_a : p.m;
  constexpr std::int64_t kChunk = kChunkBytes;
  const std::vector<Copy> copies{
      {p.a, bytes_of(rows_a * p.k, encoding.bits) / 8, &card_.a},
      {p.b, bytes_of(experts * p.n * p.k, encoding.bits) / 8, &card_.b},
      {scaled ? p.scales_a : nullptr, bytes_of(p.chunks_a, kChunk), &card_.scales_a},
      {scaled ? p.scales_b : nullptr, bytes_of(p.chunks_b, kChunk), &card_.scales_b},
      {promoted ? p.factors_a : nullptr, bytes_of(rows_a * p.chunks_k, 4), &factors_a},
      {promoted ? p.factors_b : nullptr, bytes_of(experts * blocks_b * p.chunks_k, 4), &factors_b},
      {p.c, d_bytes_, &card_.c},
      {p.gathered_rows, bytes_of(p.m, 4), &gathered_rows},
      {p.grouping == Grouping::dense ? nullptr : p.offsets, bytes_of(p.groups + 1, 8), &offsets}};
  std::size_t all = Arena::padded(d_bytes_ + 2 * kGuard);
  for (const Copy& copy : copies) all += Arena::padded(copy.bytes);
  arena().reserve(all);
  for (const Copy& copy : copies) {
    *copy.to = nullptr;
    if (copy.from == nullptr) continue;
    std::byte* const to = arena().take(copy.bytes);
    require_success(cudaMemcpy(to, copy.from, copy.bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    *copy.to = to;
  }
  card_.factors_a = static_cast<const float*>(factors_a);
  card_.factors_b = static_cast<const float*>(factors_b);
  card_.gathered_rows = static_cast<const std::int32_t*>(gathered_rows);
  card_.offsets = static_cast<const std::int64_t*>(offsets);
  std::byte* const d = arena().take(d_bytes_ + 2 * kGuard);
  require_success(cudaMemset(d, kGuardByte, d_bytes_ + 2 * kGuard), "cudaMemset");
  require_success(cudaMemcpy(d + kGuard, p.d, d_bytes_, cudaMemcpyHostToDevice), "cudaMemcpy");
  card_.d = d + kGuard;
}

void Tensors::take(emulation::sm100::LaunchResult& result) const {
  const auto* const d = static_cast<const std::byte*>(card_.d);
  std::vector<std::uint8_t> guards(2 * kGuard);
  require_success(cudaMemcpy(guards.data(), d - kGuard, kGuard, cudaMemcpyDeviceToHost), "cudaMemcpy");
  require_success(cudaMemcpy(guards.data() + kGuard, d + d_bytes_, kGuard, cudaMemcpyDeviceToHost), "cudaMemcpy");
  require_success(cudaMemcpy(host_.d, d, d_bytes_, cudaMemcpyDeviceToHost), "cudaMemcpy");
  const auto written = std::ranges::count_if(guards, [](std::uint8_t byte) { return byte != kGuardByte; });
  if (written == 0) return;
  emulation::sm100::Finding finding;
  finding.hazard = emulation::sm100::Hazard::address;
  finding.who = "the kernel";
  finding.instruction = "st.global";
  finding.what = std::to_string(written) + " bytes within 4096 before and after D are written";
  finding.right = "stores inside D alone";
  result.findings.push_back(finding);
}

}  // namespace mxcheck::sm100::gemm::on_sm90
