#pragma once
// How a pass of a layer is put together: the workspace, the list of steps, and the steps that every recipe has. Steps
// are those of docs/layer.md, in its order; the passes are made in moe_bf16_passes.cc and moe_fp8_passes.cc, by what
// their GEMMs multiply.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/sm90/layer/steps/plan.h"
#include "kernels/sm90/layer/steps/steps.h"
#include "kernels/sm90/moe/kept/kept_weights.h"
#include "kernels/sm90/moe/moe_call.h"
#include "kernels/sm90/moe/moe_kernels.h"
#include "kernels/sm90/moe/moe_plan.h"
#include "kernels/sm90/moe/two_level.h"

namespace mxcheck_kernels::sm90 {

// ---- The workspace ----
//
// Steps run one after the other, so memory of what no later step reads is handed out again:
// each part lies at the first gap that holds it. Without memory it only counts.
//
//   const Part p = arena.take(rows, 4 * n);   // bytes: rows * 4 * n
//   ... steps that write and read arena.at<float>(p) ...
//   arena.drop(p);                            // after the last of them was added

struct Part {
  std::uint64_t at = 0;
  std::uint64_t bytes = 0;
};

class Arena {
 public:
  explicit Arena(void* base) : base_(static_cast<std::uint8_t*>(base)) {}

  // Aligned to 256 bytes. INVALID where it ends beyond what an address can be.
  Part take(std::int64_t rows, std::int64_t row_bytes);
  void drop(const Part& part);

  // Null without memory, and for no bytes.
  template <class T>
  [[nodiscard]] T* at(const Part& part) const {
    return base_ == nullptr || part.bytes == 0 ? nullptr : reinterpret_cast<T*>(base_ + part.at);
  }
  // That all parts together need.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  std::uint8_t* base_;
  std::uint64_t bytes_ = 0;
  std::vector<Part> taken_;  // ascending
};

// ---- The builder ----
//
// A pass as it is put together: its steps so far, its workspace, and the steps that every recipe has.
//
// All kernels but those of "check routes" do nothing unless that step found the routes right: status() and the header
// of rows() say so on the device.

class MoeBuilder {
 public:
  // Its first steps are "check routes", and with kept weights those of their header, which the last one writes. Of
  // "check routes" the result and tiles stay at the front of the workspace. band: of rows that share a scale along
  // tokens, 32 or 128.
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

  // Where the results of weights lie: in the workspace, or in the memory for kept weights, whose parts have
  // no bytes for drop().
  [[nodiscard]] Arena& weights() { return call_.keeps_weights() ? kept_ : memory; }
  [[nodiscard]] Part droppable(const Part& part) const { return call_.keeps_weights() ? Part() : part; }
  Arena memory;

 private:
  // Checks the header of kept weights, or begins to keep some: finish() writes it then. Nothing without the option.
  void add_kept_weights();
  void add_digest(const char* name, const Checked& w, unsigned long long* to);

  const MoeCall& call_;
  Arena kept_;
  std::optional<KeptJob> keeping_;
  MoePlan plan_;
  PlanHeader* header_ = nullptr;
  TiledRows routed_;
};

// The check of the call's routes: where it writes its header and table is still to be said.
RoutesJob routes_job(const MoeCall& call, int band);
// The check of the header of kept weights, which is taken from their memory: the plan it is for is still to be said.
KeptJob kept_job(const MoeCall& call, Arena& memory);

// UNSUPPORTED for more tiles of a GEMM than the kernels number: m x n, with k (k_grouped) or m cut into
// experts.
void require_tiles(const char* name, std::int64_t m, std::int64_t n, std::int64_t experts, bool k_grouped);

// The description of a GEMM, without the fields in which the two kinds of operands differ.
MoeGemm described(const MatmulCall& matmul);

// The offsets of experts as GEMMs take them: where each ends. Null without data.
inline const std::int64_t* ends_of(const std::int64_t* offsets) { return offsets == nullptr ? nullptr : offsets + 1; }

// rows * cols * bytes, of extents whose tensor was checked.
constexpr std::uint64_t bytes_of(std::int64_t rows, std::int64_t cols, std::int64_t bytes) {
  return static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(cols) * static_cast<std::uint64_t>(bytes);
}

// ---- Steps that both kinds of operands have ----

// Rows of tokens copied to where their experts' rows are, as steps "gather ...".
//
// GEMMs can read rows of tokens through row_token instead (gemm/matmul.h), and it is slower: a row that is
// gathered costs the tensor cores' pipeline more than its copy costs memory (docs/performance_log.md, whole layers).
//
// scales: of codes; its rows have no bytes where there are none.
void add_gather(MoeBuilder& b, const char* name, const GatherRows& values, const GatherRows& scales);

// SwiGLU and its gradient as steps in BF16: A, or A', dH and dS of the H that is given.
//
// H [routed, 2 n], contiguous, as the kernels of layer/steps take it: in BF16, or as it was kept.
HInput bf16_h(const MoeCall& call, const std::uint16_t* h);
HInput kept_h(const MoeCall& call);
// Bytes that are read of H.
std::uint64_t h_bytes(const MoeCall& call, const HInput& h);

// A [routed, n].
void add_swiglu(MoeBuilder& b, const std::uint16_t* h, const Part& a);

// A' [routed, n] and dH [routed, 2 n] in BF16, and dS: of P [routed, n] in FP32.
struct SwigluGradients {
  Part a;
  Part dh;
};
void add_swiglu_backward(MoeBuilder& b, const HInput& h, const Part& p, const SwigluGradients& to);

// ---- The passes ----

// BF16, through a block format or not.
MoePlan forward_of_values(const MoeCall& call);
MoePlan backward_of_values(const MoeCall& call);

// FP8 codes.
MoePlan forward_of_codes(const MoeCall& call);
MoePlan backward_of_codes(const MoeCall& call);

}  // namespace mxcheck_kernels::sm90
