#pragma once
// A GEMM of random codes and scales, computed by the kernel under a schedule and by the reference.

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/sm100/gemm/emulated.h"

namespace mxcheck::sm100::gemm {

struct Case {
  Operands operands = Operands::scaled;
  std::int64_t m = 0, n = 0, k = 0;
  Grouping grouping = Grouping::dense;
  std::vector<std::int64_t> offsets;  // of groups
  std::int64_t rows_a = 0;  // of A, of which m are gathered at random, some several times; 0: A has the m rows
  bool e5m2_a = false, e5m2_b = false;
  bool bf16 = false;
  bool adds = false;           // C
  std::int64_t block_b = 128;  // rows of a scale of B, of Operands::promoted
  float alpha = 1;
  bool specials = false;  // NaN and infinite codes, NaN scales
  std::uint64_t seed = 1;
};

struct Outcome {
  Emulated emulated;
  std::int64_t outputs = 0, differing = 0;
  std::string first;  // the first that differs
  [[nodiscard]] bool clean() const {
    return emulated.error.empty() && emulated.result.completed && emulated.result.findings.empty() && differing == 0;
  }
};

Outcome compare(const Case& c, const Variant& variant, const emulation::sm100::LaunchOptions& options);

std::string text_of(const Outcome& outcome);

}  // namespace mxcheck::sm100::gemm
