#pragma once
// The three launches of a forward pass of few tokens (plan.h), as jobs:
//
//   prepare  checks the routes, lists the experts that have rows, copies rows of X to them (as codes where the recipe
//            has codes, which it also keeps), and sets the counters below to 0
//   up       H = X W1 and, by the last block of threads at a group of columns of A, A = SwiGLU(H)
//   down     Y = A W2 and, by the last at a tile of columns of O, O of Y
//
// Both GEMMs are one kernel, of transposes: D^T = W^T X^T, so that the weights' columns are the 64 rows of a wgmma and
// the few rows of X its columns. Its bits are those of X W: products commute, and steps are in the same order.

#include <cstdint>

#include <cuda.h>
#include <cuda_runtime.h>

#include "kernels/sm90/layer/steps/steps.h"
#include "kernels/sm90/moe/kept/kept_weights.h"
#include "kernels/sm90/moe/moe_kernels.h"

namespace mxcheck_kernels::sm90 {

// Rows of one expert, as many as a block of threads multiplies at a time.
struct FewItem {
  std::int32_t expert;
  std::int32_t row;  // the first
  std::int32_t rows;
  std::int32_t unused;
};

inline constexpr int kFewStage = 128;  // of k, in a stage of the ring
inline constexpr int kFewSlack = 128;  // rows past the last, which are read and count for nothing
inline constexpr int kFewGroup = 128;  // columns of A that one block of threads makes

// The way in which a GEMM reads weights.
enum class FewWeights : std::uint8_t {
  bf16,    // and multiplies them as they are
  blocks,  // BF16, to codes in squares of 128 x 128 on their way
  codes,   // as codes that were made before
};

// The largest item: 8, 32 or 128 rows.
struct FewTable {
  PlanHeader* header = nullptr;  // its tiles: of items
  FewItem* items = nullptr;
  int item_rows = 8;
};

// Rows of an operand along k, as codes: a scale in FP32 for 128 of k, of E8M0 its value.
struct FewCodes {
  std::uint8_t* codes = nullptr;
  float* scales = nullptr;
  // Codes of every 32 of k in the order in which a thread has those of weights that it makes: number 8 m + 2 q + b, of
  // m and q below 4, is at 8 q + 2 m + b. A step sums 32 of k without an order (matmul.h).
  bool permuted = false;
};

struct FewPrepareJob {
  RoutesJob routes;
  FewTable table;
  std::uint32_t* counters = nullptr;
  std::int64_t count = 0;  // of counters
  const std::uint16_t* x = nullptr;
  std::int64_t d = 0;
  std::uint16_t* rows = nullptr;  // in BF16, or
  FewCodes codes;
  RowCodes kept;    // of tokens
  KeptJob weights;  // whose header is checked with the routes; null: none are kept
};
cudaError_t launch_few_prepare(const FewPrepareJob& job, cudaStream_t stream);

// SwiGLU after a tile of D, which the block of threads does beside writing it.
struct FewSwiglu {
  std::int64_t n = 0;
  bool interleaved = false;
  std::uint16_t* a = nullptr;  // in BF16, or
  FewCodes codes;
  DeviceCoding coding;
  std::uint8_t* packed = nullptr;  // H in E5M6; null: not kept so
  std::uint8_t* packed_scales = nullptr;
};

struct FewGemmJob {
  FewWeights weights = FewWeights::bf16;
  FewTable table;
  std::uint32_t* counters = nullptr;  // up: of an item's group; down: of a tile of columns
  const void* w = nullptr;            // BF16: experts x k x columns; codes: experts x columns x k
  const void* w_scales = nullptr;     // of codes
  DeviceCoding coding;                // of weights
  const void* x = nullptr;            // rows x k, BF16 or codes
  const float* x_scales = nullptr;
  std::int64_t rows = 0;  // without the slack
  std::int64_t most_items = 0;
  std::int64_t experts = 0;
  std::int64_t columns = 0;
  std::int64_t k = 0;
  std::uint16_t* d = nullptr;  // rows x columns
  bool up = false;
  FewSwiglu swiglu;        // up
  AggregateJob aggregate;  // down
};
cudaError_t launch_few_gemm(const FewGemmJob& job, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
