#pragma once
// The steps of a layer as launches: SwiGLU and its gradient along rows and by tiles, codes along rows and along tokens,
// the sums of pairs, the rows of each token. Each does nothing unless the plan (plan.h) found its arguments right.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/common/layer/policy.h"
#include "kernels/sm90/layer/steps/plan.h"

namespace mxcheck_kernels::sm90 {

inline constexpr int kEach = 8;  // neighbouring elements of a lane

// Coding (kernels/common/layer/policy.h) as kernels are told it.
struct DeviceCoding {
  Element element = Element::e4m3;
  bool fp32 = false;         // scales are RN(amax / largest)
  std::uint32_t addend = 0;  // of E8M0 scales: rounds the exponent of amax up, or not
  int block = 32;
};
inline DeviceCoding device_coding(const Coding& c) {
  return {c.element, c.scale == CodeScale::fp32, c.scale == CodeScale::rceil ? 0x001FFFFFU : 0U, c.block};
}

// --- along rows ------------------------------------------------------------------------------------------------------
//
// SwiGLU and its gradient along rows: what a row becomes in BF16, its codes in blocks of one row, and dS, in one read
// of H (and P).

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

// True if launch_rows can write codes of rows of 2 n columns: no block holds gates and up values.
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

// --- along tokens ----------------------------------------------------------------------------------------------------
//
// Codes along tokens, transposed: what a GEMM with groups along depth reads.

struct ColumnCodes {
  std::uint8_t* codes = nullptr;  // [columns, rows]; null: not written
  void* scales = nullptr;         // [columns, bands]
  std::int64_t bands = 0;
  DeviceCoding coding;
  std::int64_t stride = 0;  // elements from a column's codes to the next; 0: rows
  // An expert's codes begin at 128 times the number of bands before it, +0 up to the next multiple of 128: what the
  // FP8 GEMM reads. Of blocks of 128 rows alone; codes and stride are multiples of 4.
  bool padded = false;
};

// With the stride that 0 stands for.
inline ColumnCodes with_stride(ColumnCodes out, std::int64_t rows) {
  if (out.stride == 0) out.stride = rows;
  return out;
}

// True if codes can be padded as they are to be.
inline bool is_padding_possible(const ColumnCodes& out) {
  const auto address = reinterpret_cast<std::uintptr_t>(out.codes);
  return !out.padded || (out.coding.block == 128 && (address | static_cast<std::uintptr_t>(out.stride)) % 4 == 0);
}

// Values, or codes with scales of blocks of 1 x 128: the value is then code * scale, rounded to FP32.
struct TransposeJob {
  const void* x = nullptr;
  Dtype dtype = Dtype::bf16;            // of values
  std::int64_t stride = 0;              // elements from row to row
  const std::int32_t* index = nullptr;  // row i is row index[i] of x; null: row i
  std::int64_t cols = 0;
  TiledRows rows;
  ColumnCodes out;
  const void* scales = nullptr;   // of codes, FP32 or E8M0, a row of them for each row of x; null: x is values
  std::int64_t scale_blocks = 0;  // of a row
  bool e8m0 = false;
  Element element = Element::e4m3;  // of x's codes
};

// vector: 8 neighbours of x, in BF16 or codes, are one aligned load, and cols is a multiple of 8.
// cudaErrorInvalidValue for a padding that there is not, and for codes of 2^31 columns.
cudaError_t launch_transpose(const TransposeJob& job, bool vector, cudaStream_t stream);
// Parts of launch_transpose, with out.stride set: codes; and tiles of 128 rows and 128 columns of BF16 or codes, where
// eight neighbours are in one aligned load.
cudaError_t launch_transpose_codes(const TransposeJob& job, bool vector, cudaStream_t stream);
bool takes_wide(const TransposeJob& job, bool vector);
cudaError_t launch_wide(const TransposeJob& job, cudaStream_t stream);

// --- sums of pairs ---------------------------------------------------------------------------------------------------
//
// The last levels of pairwise sums over rows: sums of parts of a row, whose number of columns is a power of two, to one
// for each row.

struct SumsJob {
  const float* sums = nullptr;  // [parts][rows]
  std::int64_t parts = 0;       // 2 or more
  std::int64_t rows = 0;
  float* out = nullptr;
  const PlanHeader* header = nullptr;
};
cudaError_t add_sums(const SumsJob& job, cudaStream_t stream);

// Bytes of the sums of parts of `columns` columns; none where one part is the row.
constexpr std::uint64_t sums_bytes(std::int64_t rows, std::int64_t n, std::int64_t columns) {
  const std::int64_t parts = (n + columns - 1) / columns;
  return parts < 2 ? 0 : static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(parts) * sizeof(float);
}

// --- the gradient by tiles -------------------------------------------------------------------------------------------
//
// SwiGLU's gradient by tiles, where codes along tokens are asked for: one read of H and P for all outputs.

inline constexpr int kTilePart = 64;  // columns of a tile

struct BackwardTilesJob {
  RowsJob rows;  // values (a, dh) are not written; sums: sums_bytes(rows, n, kTilePart)
  TiledRows tiles;
  ColumnCodes a;   // of A'
  ColumnCodes dh;  // of dH
};

// True if launch_backward_tiles can: no block of a row holds gates and up values, nor columns of two tiles, and a
// tile's 64 columns are a subtree of the row's.
bool takes_tiles(const HInput& h, std::int64_t n, int block);
// vector, and packed H: as of launch_backward_rows.
cudaError_t launch_backward_tiles(const BackwardTilesJob& job, bool vector, cudaStream_t stream);

// --- rows of each token ----------------------------------------------------------------------------------------------
//
// The rows of each token, added up in the order of its slots: acc = fma(s, y, acc), or acc + y, from +0, to BF16.

struct AggregateJob {
  const std::uint16_t* y = nullptr;
  const float* weights = nullptr;  // null: not weighted
  const std::int64_t* token_offsets = nullptr;
  const std::int32_t* token_rows = nullptr;
  std::uint16_t* o = nullptr;
  std::int64_t tokens = 0;
  std::int64_t cols = 0;
  const PlanHeader* header = nullptr;
};

// vector: 8 neighbours of y and of o are aligned, and cols is a multiple of 8.
cudaError_t launch_aggregate(const AggregateJob& job, bool vector, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
