#pragma once
// SwiGLU and its gradient along rows: what a row becomes in BF16, its codes in blocks of one row, and dS, in one read
// of H (and P).

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/layer/steps/coding.h"
#include "kernels/sm90/layer/steps/plan.h"

namespace mxcheck_kernels::sm90 {

struct HInput {
  const void* data = nullptr;            // BF16, or codes
  std::int64_t stride = 0;               // elements from row to row
  const std::uint8_t* scales = nullptr;  // of codes, E8M0, a row's blocks of 32; packed: of 128
  bool coded = false;
  Element element = Element::e4m3;
  bool interleaved = false;
  bool packed = false;  // E5M6, eight codes in three words; stride is 2 n, n a multiple of 128, data at one of 16 bytes
};

inline constexpr int kRowPart = 256;  // columns of a row that a warp has

struct RowCodes {
  std::uint8_t* codes = nullptr;  // null: not written
  void* scales = nullptr;
  std::int64_t blocks = 0;  // of a row
  DeviceCoding coding;
};

struct RowsJob {
  HInput h;
  std::int64_t rows = 0;
  std::int64_t n = 0;
  const float* p = nullptr;        // backward
  const float* weights = nullptr;  // backward
  std::uint16_t* a = nullptr;      // A, or A' of the backward pass; null: not written
  std::uint16_t* dh = nullptr;     // backward; null: not written
  float* ds = nullptr;             // backward
  float* sums = nullptr;           // backward: sums_bytes(rows, n, kRowPart), of parts of rows
  RowCodes row;                    // of A, or of dH
  const PlanHeader* header = nullptr;
};

// Whether launch_rows can write codes of rows of 2 n columns: no block holds gates and up values.
bool has_row_blocks(const HInput& h, std::int64_t n, int block);

// vector: 8 neighbours of H, P and every output are aligned loads and stores, and n is a multiple of 8: then a kernel
// is compiled for each order of gates and up values.
cudaError_t launch_forward_rows(const RowsJob& job, bool vector, cudaStream_t stream);
// Packed H: codes of dH are written, E4M3 in blocks of 128 with E8M0 scales, and vector; else cudaErrorInvalidValue.
cudaError_t launch_backward_rows(const RowsJob& job, bool vector, cudaStream_t stream);

// BF16, rows x cols, contiguous, to codes in blocks of one row.
struct EncodeRowsJob {
  const std::uint16_t* x = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  RowCodes out;
  const PlanHeader* header = nullptr;
};
cudaError_t launch_encode_rows(const EncodeRowsJob& job, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
