#pragma once
// Which GEMMs are measured, and how one is asked for behind the candidate interface.

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/candidate_matmul.h"

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
  std::int64_t k = 0;  // of all groups

  [[nodiscard]] std::string text() const;
  // Groups along depth accumulate FP32 in place, the others write BF16.
  [[nodiscard]] bool accumulates() const { return grouping == MXCHECK_DEPTH; }
  [[nodiscard]] bool decodes() const { return contract == "sm90_bf16+decode"; }
  [[nodiscard]] double operations() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

std::vector<GemmRequest> all_gemm_requests(bool quick);

// The ends of the groups after a first 0; the 0 alone where there are none.
std::vector<std::int64_t> ends_of(const GemmRequest& request);

// Without the extents. Its texts are the request's, which outlives it.
mxcheck_matmul_policy policy_of(const GemmRequest& request);

}  // namespace mxcheck::bench
