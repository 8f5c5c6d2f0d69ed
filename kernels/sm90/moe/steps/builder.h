#pragma once
// A pass as it is put together: its steps so far, its workspace, and the steps that every recipe has.
//
// All kernels but those of "check routes" do nothing unless that step found the routes right: status() and the header
// of rows() say so on the device.

#include <cstdint>
#include <functional>
#include <string>

#include "kernels/sm90/layer/steps/plan.h"
#include "kernels/sm90/layer/steps/steps.h"
#include "kernels/sm90/moe/call/call.h"
#include "kernels/sm90/moe/plan.h"
#include "kernels/sm90/moe/steps/arena.h"

namespace mxcheck_kernels::sm90 {

class MoeBuilder {
 public:
  // Its first step is "check routes", whose result and tiles stay at the front of the workspace. band: of rows that
  // share a scale along tokens, 32 or 128.
  MoeBuilder(const MoeCall& call, int band);

  [[nodiscard]] const MoeCall& call() const { return call_; }
  [[nodiscard]] const std::int32_t* status() const { return header_ == nullptr ? nullptr : &header_->status; }
  [[nodiscard]] const PlanHeader* header() const { return header_; }

  // The routed rows in tiles of one expert each; any other rows in tiles of 128.
  [[nodiscard]] const TiledRows& routed_rows() const { return routed_; }
  [[nodiscard]] TiledRows plain_rows(std::int64_t rows) const;

  void add(std::string name, MoeStepKind kind, std::uint64_t bytes, std::function<cudaError_t(cudaStream_t)> enqueue);
  // products: multiply-adds.
  void add_gemm(std::string name, std::uint64_t bytes, std::uint64_t products, const MoeGemm& gemm,
                std::function<cudaError_t(cudaStream_t)> enqueue);
  // "aggregate" or "d_aggregate": o of y [routed, d], by the routes' weights if it is weighted.
  void add_aggregate(const char* name, const Part& y, const Checked& o, bool weighted);

  [[nodiscard]] MoePlan finish();

  Arena memory;

 private:
  const MoeCall& call_;
  MoePlan plan_;
  const PlanHeader* header_ = nullptr;
  TiledRows routed_;
};

// UNSUPPORTED for more tiles of a GEMM than the kernels number: m x n, with k cut into experts, or m.
void require_tiles(const char* name, std::int64_t m, std::int64_t n, std::int64_t experts, bool depth);

// The description of a GEMM, without the fields in which the two kinds of operands differ.
MoeGemm described(const MatmulCall& matmul);

// The offsets of experts as GEMMs take them: where each ends. Null without data.
inline const std::int64_t* ends_of(const std::int64_t* offsets) { return offsets == nullptr ? nullptr : offsets + 1; }

// rows * cols * bytes, of extents whose tensor was checked.
constexpr std::uint64_t bytes_of(std::int64_t rows, std::int64_t cols, std::int64_t bytes) {
  return static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(cols) * static_cast<std::uint64_t>(bytes);
}

}  // namespace mxcheck_kernels::sm90
