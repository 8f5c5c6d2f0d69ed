#pragma once
// The kernels between those of the router and of the layer: docs/training.md, "Forward" 6 to 8 and "Backward".

#include <cstdint>

#include <cuda_runtime.h>

namespace mxcheck_kernels::sm90 {

// The record, for a pass, of routers' logits that are not finite.
struct RouterOverflow {
  std::int32_t found = 0;  // not 0: routers' kernels write nothing
  std::int32_t layer = 0;  // the first whose logits hold a NaN or an infinity
};

// As a pass begins: nothing found, and a layer above all.
cudaError_t launch_no_overflow(RouterOverflow* overflow, cudaStream_t stream);

cudaError_t launch_check_finite(const float* logits, std::int64_t count, int layer, RouterOverflow* overflow,
                                cudaStream_t stream);

// weights[row_slot[r]] of every row.
cudaError_t launch_row_weights(const std::int32_t* row_slot, const float* weights, std::int64_t rows, float* row_weight,
                               cudaStream_t stream);

// The gradient of every slot's weight: that of its row. Slots have a row each.
cudaError_t launch_slot_gradient(const std::int32_t* slot_row, const float* ds, std::int64_t slots, float* gradient,
                                 cudaStream_t stream);

// The slots of tokens that keep different numbers of experts: `width` each, those without a row -1 and +0.
struct PaddedSlotsJob {
  const std::int64_t* token_offsets = nullptr;  // of slots
  const std::int32_t* token_rows = nullptr;
  const std::int64_t* offsets = nullptr;  // of the rows of each expert
  const float* ds = nullptr;              // of rows
  std::int64_t tokens = 0;
  int experts = 0;
  int width = 0;
  std::int32_t* slot_experts = nullptr;
  float* gradient = nullptr;
};
cudaError_t launch_padded_slots(const PaddedSlotsJob& job, cudaStream_t stream);

// BF16(RN(a + b)).
cudaError_t launch_rounded_sum(const float* a, const float* b, std::int64_t count, std::uint16_t* out,
                               cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
