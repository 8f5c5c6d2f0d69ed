#pragma once
// cuBLASLt, loaded with dlopen and never linked: dense GEMMs D = A B^T in row-major terms, for comparison.

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "benchmarks/sm90/common/device.h"

namespace mxcheck::bench {

// The functions in use, with the header's types.
struct CublasLtApi {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtGetVersion) version = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
};

class CublasLt {
 public:
  // A path, or "" for the usual places. Throws Error{environment} with dlopen's message.
  explicit CublasLt(const std::string& path);
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;
  [[nodiscard]] const CublasLtApi& api() const { return api_; }
  [[nodiscard]] cublasLtHandle_t handle() const { return handle_; }
  [[nodiscard]] const DeviceBuffer& workspace() const { return *workspace_; }
  [[nodiscard]] const std::string& path() const { return path_; }  // of the file that was loaded
  [[nodiscard]] std::size_t version() const { return api_.version(); }

 private:
  CublasLtApi api_;
  cublasLtHandle_t handle_ = nullptr;
  std::unique_ptr<DeviceBuffer> workspace_;  // 64 MB
  std::string path_;
};

enum class LtMode : std::uint8_t {
  fp8,         // E4M3, one FP32 scale a tensor
  fp8_fast,    // the same with FAST_ACCUM
  fp8_blocks,  // E4M3, FP32 scales of 1x128 blocks of A, and of 128x128 or 1x128 blocks of B
  bf16
};
inline constexpr LtMode kLtModes[] = {LtMode::fp8, LtMode::fp8_fast, LtMode::fp8_blocks, LtMode::bf16};
const char* name_of(LtMode mode);

struct LtProblem {
  LtMode mode = LtMode::fp8;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t stride = 0;   // elements from row to row of A and of B
  bool square = true;        // fp8_blocks: B's blocks are 128x128
  bool accumulates = false;  // D is FP32 and is added to; else BF16
};

// Device pointers. Scales of blocks: A's are [k / 128][m], B's [n / 128][k / 128 rounded up to 4] or [k / 128][n].
struct LtOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  const float* scale_a = nullptr;
  const float* scale_b = nullptr;
  void* d = nullptr;
};

class LtMatmul {
 public:
  LtMatmul(const CublasLt& library, const LtProblem& problem);
  ~LtMatmul();
  LtMatmul(const LtMatmul&) = delete;
  LtMatmul& operator=(const LtMatmul&) = delete;

  // Asks the heuristic for 8 algorithms and keeps the one that is fastest over these calls: "", or why there is none.
  std::string search(std::span<const LtOperands> calls, cudaStream_t stream);
  void enqueue(const LtOperands& operands, cudaStream_t stream);
  [[nodiscard]] std::string algorithm() const;  // "2 of 8"

 private:
  cublasStatus_t launch(const LtOperands& operands, const cublasLtMatmulAlgo_t& algorithm, cudaStream_t stream);
  void point_to_scales(const LtOperands& operands);

  const CublasLt& library_;
  LtProblem problem_;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t first_ = nullptr;   // cuBLAS's A: our B
  cublasLtMatrixLayout_t second_ = nullptr;  // cuBLAS's B: our A
  cublasLtMatrixLayout_t result_ = nullptr;
  std::vector<cublasLtMatmulHeuristicResult_t> found_;
  std::size_t best_ = 0;
};

}  // namespace mxcheck::bench
