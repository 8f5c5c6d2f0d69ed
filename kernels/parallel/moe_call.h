#pragma once
// Calls of "moe_forward" and "moe_backward" (kernels/candidate_moe.h) for a layer's parameters: its policy, and the
// tensors that it keeps between the two.

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/candidate_moe.h"
#include "kernels/parallel/library_call.h"

namespace mxcheck_kernels::parallel {

inline constexpr std::int64_t kBf16Bytes = 2;
inline constexpr std::int64_t kFp32Bytes = 4;
inline constexpr std::int64_t kScaleBlock = 128;
constexpr std::int64_t scale_blocks(std::int64_t cols) { return (cols + kScaleBlock - 1) / kScaleBlock; }
constexpr std::uint64_t size_of(std::int64_t rows, std::int64_t row_bytes) {
  return static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(row_bytes);
}

struct LayerSpec {
  std::int64_t width = 0;  // d
  std::int64_t inner = 0;  // n
  std::string recipe;
  bool interleaved = false;     // gate and up
  bool dispatches_fp8 = false;  // X; dO, Y and dX~ travel in BF16
  // As the recipe keeps X and H: codes and scales, or BF16.
  bool keeps_x_codes = false;
  bool x_scales_fp32 = false;  // else a byte each
  bool keeps_h_e5m6 = false;
  int chunks = 1;
  int threads = 0;  // of host libraries
};

// The texts are the spec's.
mxcheck_moe_policy moe_policy(const LayerSpec& spec, std::int64_t tokens, std::int64_t rows, std::int64_t experts);
// Of "quantize" and "dequantize", as X is dispatched in FP8.
mxcheck_policy dispatch_policy(const LayerSpec& spec, std::int64_t rows);

// X and H as they are kept.
class Kept {
 public:
  Kept() = default;
  // x_rows: of codes alone; a recipe that keeps X in BF16 needs none of its own.
  Kept(Device& device, const LayerSpec& spec, std::int64_t h_rows, std::int64_t x_rows);
  // Rows first to first + rows: as the forward call's last outputs, and as the backward call's inputs after the
  // weights. x: X in BF16, where it is kept so, at its first row.
  void add_outputs(LibraryCall& call, std::int64_t first, std::int64_t h_rows, std::int64_t x_rows) const;
  void add_inputs(LibraryCall& call, std::int64_t first, std::int64_t h_rows, std::int64_t x_rows, const void* x) const;

 private:
  struct Tensor {
    void* data;
    DLDataType type;
    std::int64_t rows, cols;
  };
  [[nodiscard]] std::vector<Tensor> tensors(bool of_x, std::int64_t first, std::int64_t rows) const;
  LayerSpec spec_;
  Memory h_, h_scales_, x_, x_scales_;
};

}  // namespace mxcheck_kernels::parallel
