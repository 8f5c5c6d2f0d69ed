#pragma once
// Which GEMMs are measured. Without CUDA.

#include <cstdint>
#include <string>
#include <vector>

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
  bool adds_c = false;    // dense: FP32 D += C

  [[nodiscard]] std::string text() const;
  // Groups along depth, and dense GEMMs that add C, accumulate FP32 in place; the others write BF16.
  [[nodiscard]] bool accumulates() const { return grouping == MXCHECK_DEPTH || adds_c; }
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

}  // namespace mxcheck::bench
