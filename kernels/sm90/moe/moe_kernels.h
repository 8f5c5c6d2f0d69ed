#pragma once
// The launch interface of kernels that only whole layers have: moe_routes.cu, gather_rows.cu, gemm_mn_major.cu,
// keep_e5m6.cu. Operands' own are in round_trip.h and square_codes.h.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/gemm/matmul.h"
#include "kernels/sm90/layer/steps/plan.h"
#include "kernels/sm90/layer/steps/steps.h"

namespace mxcheck_kernels::sm90 {

// ---- Routes ----
//
// The check of a layer's routes, which only the device can read, as one check with one result: offsets and row_token,
// which also become tiles of rows, and the slots of the tokens.

struct RoutesJob {
  PlanJob rows;
  SlotsJob slots;
  PlanHeader* header = nullptr;  // MXCHECK_OK where all is right
  RowTile* table = nullptr;
};

// The report is of the first of offsets, row_token, token_offsets and token_rows that is wrong, and there of the first
// place.
cudaError_t check_routes(const RoutesJob& job, cudaStream_t stream);

// Where experts begin in codes along tokens that are padded (layer/steps/steps.h): what the k-grouped FP8 GEMM takes
// as offsets.
//
// padded[0] = 0, padded[e + 1] = padded[e] + 128 * ceil((offsets[e + 1] - offsets[e]) / 128), for experts + 1 offsets
// that do not descend. Nothing else is written; nothing at all where header is there and its status not MXCHECK_OK.
cudaError_t launch_padded_offsets(const std::int64_t* offsets, std::int64_t experts, std::int64_t* padded,
                                  const PlanHeader* header, cudaStream_t stream);

// ---- Copies of rows ----
//
// Rows of tokens in the order of their experts, as a GEMM that takes no row index reads them: a copy. Each token's row
// is read once and written to each of its routed rows.

// Rows one after the other: those of tokens, and where their copies go.
struct GatherRows {
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t row_bytes = 0;
};

struct GatherJob {
  GatherRows values;  // a row is a multiple of 16 bytes, and so are the addresses
  GatherRows scales;  // of codes: any width, 0 for none; addresses are multiples of 4
  std::int64_t tokens = 0;
  const std::int64_t* token_offsets = nullptr;  // of the slots of each token
  const std::int32_t* token_rows = nullptr;     // the row of each slot, or -1
  const PlanHeader* header = nullptr;
};

cudaError_t launch_gather(const GatherJob& job, cudaStream_t stream);

// ---- GEMMs ----
//
// GEMMs of BF16 with MN-major operands, which lie with k from row to row, as weights and a layer's activations do: the
// bits of gemm/matmul.h, one chain of wgmma k16 steps over ascending k from zero, without a transposed copy.
//
// Kinds
//   rows   m-grouped. A: m x k as in tile/matmul.h, cut into experts along m, without row_index; B: experts x k x n;
//          D: m x n.
//   depth  k-grouped. A: k x m, B: k x n, cut into experts along k wherever offsets say; D: experts x m x n.
//
// a, b and their rows are aligned to 16 bytes: m and n are multiples of 8, and for rows k.

cudaError_t matmul_mn_major_launch(const MatmulCall& matmul, cudaStream_t stream);

// ---- H in E5M6 ----
//
// H as dsv3_pow2 keeps it: E5M6 in blocks of 1 x 128 of its row as it lies, scales E8M0 rceil, eight codes in three
// words (kernels/candidate_moe.h). Made in SwiGLU's read of H, beside the codes of A, and read back by
// kernels/sm90/layer/steps/rows.cuh.

struct KeepJob {
  // The same as launch_forward_rows, with 16-byte loads of H in BF16; n is a multiple of 128, and codes of A alone are
  // written: E4M3 in blocks of 128, scales E8M0.
  RowsJob rows;
  std::uint8_t* packed = nullptr;  // rows x 3 n bytes, at a multiple of 16
  std::uint8_t* scales = nullptr;  // rows x n / 64
};
// cudaErrorInvalidValue for another job than that.
cudaError_t launch_keep(const KeepJob& job, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
