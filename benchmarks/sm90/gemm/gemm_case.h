#pragma once
// Which GEMMs are measured; one of them behind the candidate interface on memory of its own: bound, checked against the
// GPU model, ready to be enqueued over copies of its tensors; and the same tensors as cuBLASLt takes them.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/sm90/common/device.h"
#include "benchmarks/sm90/gemm/cublaslt.h"
#include "kernels/candidate_matmul.h"
#include "kernels/candidate_nvfp4.h"

namespace mxcheck::bench {

struct GemmRequest {
  std::string contract;
  std::string format = "e4m3";  // of both operands
  mxcheck_scale_type scale = MXCHECK_NO_SCALES;
  std::int64_t block = 0;   // columns of a scale's block
  std::int64_t b_rows = 0;  // rows of one of b
  mxcheck_grouping grouping = MXCHECK_DENSE;
  int experts = 1;
  bool ragged = false;
  std::int64_t m = 0;  // of all groups
  std::int64_t n = 0;
  std::int64_t k = 0;     // of all groups
  std::int64_t rows = 0;  // of masked groups: of each, of its m / experts

  [[nodiscard]] std::string text() const;
  // Groups along depth accumulate FP32 in place, the others write BF16.
  [[nodiscard]] bool accumulates() const { return grouping == MXCHECK_DEPTH; }
  [[nodiscard]] bool is_masked() const { return grouping == MXCHECK_MASKED; }
  // Matrices of b, one below the other.
  [[nodiscard]] std::int64_t matrices() const { return grouping == MXCHECK_ROWS || is_masked() ? experts : 1; }
  [[nodiscard]] bool decodes() const { return contract == "sm90_bf16+decode"; }
  [[nodiscard]] bool packs() const { return format == "e2m1"; }  // two codes a byte
  [[nodiscard]] double operations() const {
    const std::int64_t multiplied = is_masked() ? experts * rows : m;
    return 2.0 * static_cast<double>(multiplied) * static_cast<double>(n) * static_cast<double>(k);
  }
};

std::vector<GemmRequest> all_gemm_requests(bool quick);

// The ends of the groups after a first 0; the 0 alone where there are none. The rows of each masked group.
std::vector<std::int64_t> ends_of(const GemmRequest& request);

// Without the extents. Its texts are the request's, which outlives it.
mxcheck_matmul_policy policy_of(const GemmRequest& request);

// --- cases

class GemmLibrary {
 public:
  explicit GemmLibrary(const std::string& path);  // throws Error{environment}
  // The operation that offers this, or null.
  [[nodiscard]] const mxcheck_operation* find(const GemmRequest& request) const;
  [[nodiscard]] std::string name() const;

 private:
  const mxcheck_candidate_table* table_ = nullptr;
};

struct GemmCheck {
  bool offered = true;  // run may refuse what supports() was not asked
  bool equal = false;
  std::uint64_t compared = 0;
  double model_seconds = 0;  // that the GPU model took for all outputs
  std::string message;       // what differs or why it is not offered
};

// The GEMM that was requested, or the dense one of as much work: all rows with the first expert's b, all of k
// in one. Of masked groups there is none.
enum class GemmForm : std::uint8_t { asked, dense };

class GemmCase {
 public:
  // Copies until our GEMM touches so many bytes.
  GemmCase(const mxcheck_operation& operation, const GemmRequest& request, std::uint64_t least_bytes);
  GemmCase(const GemmCase&) = delete;
  GemmCase& operator=(const GemmCase&) = delete;
  [[nodiscard]] std::size_t copies() const { return sets_.size(); }
  void enqueue(GemmForm form, std::size_t copy, cudaStream_t stream);  // throws unless the library accepts it
  // Runs over poison and compares every output with the model.
  GemmCheck check(GemmForm form, cudaStream_t stream);

  [[nodiscard]] LtProblem lt_problem(LtMode mode) const;
  // One GEMM, or one for each group along depth.
  [[nodiscard]] std::vector<LtOperands> lt_operands(LtMode mode, std::size_t copy) const;
  // Root mean square of cuBLASLt's difference, relative to our dense GEMM's; NaN where D accumulates.
  double distance(LtMatmul& lt, LtMode mode, cudaStream_t stream);

 private:
  struct Bound {  // a call's tensors; their shapes are pointed to when it runs
    mxcheck_matmul_policy policy{};
    std::array<std::array<std::int64_t, 2>, 7> shapes{};
    std::array<DLTensor, 7> tensors{};  // inputs, then d
    int inputs = 0;
  };
  struct Set {  // one copy of the memory
    std::unique_ptr<DeviceBuffer> a, b, wide_a, wide_b, packed_a, packed_b, scale_a, scale_b, lt_scale_a, lt_scale_b, d;
    Bound asked, dense;
    [[nodiscard]] const DeviceBuffer* codes_a(const GemmRequest& r) const {
      return (r.format == "bf16" ? wide_a : r.packs() ? packed_a : a).get();
    }
    [[nodiscard]] const DeviceBuffer* codes_b(const GemmRequest& r) const {
      return (r.format == "bf16" ? wide_b : r.packs() ? packed_b : b).get();
    }
  };
  [[nodiscard]] GemmRequest in_form(GemmForm form) const;
  [[nodiscard]] Set make_set(std::uint32_t seed) const;
  void make_lt_scales(Set& set, std::uint32_t seed) const;
  [[nodiscard]] Bound bind(const Set& set, const GemmRequest& request) const;
  mxcheck_status try_run(const Bound& bound, cudaStream_t stream, std::string& message);
  void compare_groups(const MxcheckGpuModelCall& all, GemmCheck& result, cudaStream_t stream);
  void compare(const GemmRequest& request, const Set& set, const float* c, GemmCheck& result, cudaStream_t stream);

  const mxcheck_operation& operation_;
  GemmRequest request_;
  std::vector<std::int64_t> offsets_;
  DeviceBuffer offsets_memory_;
  DeviceBuffer report_;
  DeviceBuffer one_;  // FP32 1: cuBLASLt's scale of a tensor
  std::unique_ptr<DeviceBuffer> workspace_;
  std::vector<Set> sets_;
};

}  // namespace mxcheck::bench
