#pragma once
// A GEMM behind the candidate interface on memory of its own: bound, checked against the GPU model, ready to be
// enqueued over copies of its tensors; the same for another library; and the same tensors as cuBLASLt takes them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/peers/peer.h"
#include "benchmarks/sm90/common/device.h"
#include "benchmarks/sm90/gemm/cublaslt.h"
#include "benchmarks/sm90/gemm/report.h"
#include "benchmarks/sm90/gemm/request.h"
#include "kernels/candidate_matmul.h"

namespace mxcheck::bench {

class GemmLibrary {
 public:
  explicit GemmLibrary(const std::string& path);  // throws Error{environment}
  // The operation that offers this, or null.
  [[nodiscard]] const mxcheck_operation* find(const GemmRequest& request) const;
  [[nodiscard]] std::string name() const;
  // Set for a peer that tells its change of layouts from its kernel; else null.
  [[nodiscard]] const mxcheck_peer_steps* steps() const { return steps_; }

 private:
  const mxcheck_candidate_table* table_ = nullptr;
  const mxcheck_peer_steps* steps_ = nullptr;
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

  // The same of a library beside ours, which outlives this. check_beside runs both and compares their outputs; where it
  // is offered, the others may be enqueued: the whole call, and, with `steps`, the kernel over layouts made before.
  GemmCheck check_beside(const mxcheck_operation& operation, const mxcheck_peer_steps* steps, cudaStream_t stream);
  void enqueue_beside(std::size_t copy, cudaStream_t stream);
  void enqueue_prepared(std::size_t copy, cudaStream_t stream);

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
  // Calls an operation, with a workspace that grows where it is too small: at the checks alone, before anything is
  // captured. `run` takes the place of the operation's.
  using Run = std::function<mxcheck_status(const mxcheck_call&)>;
  mxcheck_status try_run(const mxcheck_operation& operation, const Bound& bound,
                         std::unique_ptr<DeviceBuffer>& workspace, cudaStream_t stream, std::string& message,
                         const Run& run = {});
  mxcheck_status prepared(std::size_t copy, bool prepares, cudaStream_t stream, std::string& message);
  // Over D as it was before; downloads it.
  std::vector<std::byte> output_of(const DeviceBuffer* c, cudaStream_t stream, GemmCheck& result,
                                   const std::function<mxcheck_status(std::string&)>& run);
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
  const mxcheck_operation* beside_ = nullptr;
  const mxcheck_peer_steps* beside_steps_ = nullptr;
  std::unique_ptr<DeviceBuffer> beside_workspace_;
  std::vector<std::unique_ptr<DeviceBuffer>> prepared_;  // a workspace for each copy
};

}  // namespace mxcheck::bench
