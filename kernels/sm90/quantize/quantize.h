#pragma once
// Quantization, dequantization, changes of the scales' layout, the element cast and the check of a call on the device,
// each as one launch.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/candidate.h"
#include "kernels/common/quantize/policy.h"

namespace mxcheck_kernels::sm90 {

// --- tiles and places of scales --------------------------------------------------------------------------------------
//
// A thread block takes a tile of 128 x 128 elements: up to 128
// rows of one expert, starting at a multiple of 128 rows from the expert's first. Scale tiles of the tcgen05 layout
// (128 x 4 bytes) start there too, so that a block owns its scales' bytes, padding included.

// Added to the bits of an amax, carries into the exponent exactly where a significand is above 1.75.
constexpr std::uint32_t round_up_addend(ScaleRule rule) { return rule == ScaleRule::rceil ? 0x001FFFFF : 0; }

inline constexpr int kTile = 128;
inline constexpr int kWarpRows = 16;
inline constexpr int kWarps = kTile / kWarpRows;
inline constexpr int kThreads = kWarps * 32;
inline constexpr int kScaleTile = 512;

__host__ __device__ constexpr std::int64_t divide_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

// A tile's rows. Numbers of things before it count those of all earlier experts and of its own.
struct RowTile {
  std::int64_t first_row = 0;  // of the matrix
  std::int64_t bands = 0;      // bands of 32 rows before this tile
  std::int64_t quads = 0;      // groups of 4 tiles (each expert's rounded up) before this tile's expert
  std::int32_t rows = 0;       // 1 to 128; 0: no tile
  std::int32_t in_expert = 0;  // tiles of its expert before it
  std::int32_t of_expert = 0;  // tiles of its expert
};

// The header that the plan kernel leaves at the front of the workspace.
struct PlanHeader {
  std::int32_t status = 0;  // mxcheck_status; all other kernels do nothing unless it is MXCHECK_OK
};

// The rows of a call. Without experts tiles are computed; with experts they come from the plan kernel's table.
struct Rows {
  std::int64_t rows = 0;
  std::int64_t tiles = 0;  // without experts: exact; with them: at most
  const PlanHeader* header = nullptr;
  // Null: one expert of all rows. A tile of no rows is none, and all are where the status is not MXCHECK_OK: a block
  // has to wait for one load alone.
  const RowTile* table = nullptr;
};

struct ScalePlace {
  std::uint8_t* bytes = nullptr;
  bool tiled = false;
  bool words = false;  // four consecutive scales of a row of scales, or of a tile, may be written as one word
  std::uint8_t pad = 0;
};

// --- quantization ----------------------------------------------------------------------------------------------------

struct Matrix {
  const void* data = nullptr;
  std::int64_t stride = 0;              // elements from row to row
  const std::int32_t* index = nullptr;  // row i is row index[i] of data; null: row i
  std::int64_t bytes = 0;               // from data to the end of its last row: nothing else may be read
};

struct Direction {
  std::uint8_t* codes = nullptr;  // rows x cols
  ScalePlace scales;
};

struct QuantizeJob {
  Matrix x;
  std::int64_t cols = 0;
  std::int64_t columns = 0;  // tiles of 128 columns
  Rows rows;
  std::uint32_t addend = 0;  // round_up_addend
  Direction row;             // blocks of one row, and square blocks
  Direction column;
};

// block: 32 or 128. The grid is rows.tiles * columns, which must be 1 to 2^31 - 1.
// Blocks of one row, by long runs. shifted: rows may start anywhere; otherwise 8 columns are an aligned load of 16 or
// 32 bytes and an aligned store of 8, and cols is a multiple of 8.
cudaError_t quantize_lines(const QuantizeJob& job, int block, Dtype dtype, Element element, bool shifted,
                           cudaStream_t stream);
// vector: four columns are one aligned load and one aligned store, in every row, and cols is a multiple of 4; otherwise
// rows may start anywhere.
cudaError_t quantize_column(const QuantizeJob& job, int block, Dtype dtype, Element element, bool vector,
                            cudaStream_t stream);
cudaError_t quantize_square(const QuantizeJob& job, int block, Dtype dtype, Element element, bool vector,
                            cudaStream_t stream);
// The same for BF16 where has_windows(): rows start anywhere, and their codes at the same element of 8.
bool has_windows(const QuantizeJob& job, bool dual, bool square);
enum class WindowBlocks : std::uint8_t { column, square, both };  // both: of one row and of one column
cudaError_t quantize_windows(const QuantizeJob& job, WindowBlocks blocks, int block, Element element,
                             cudaStream_t stream);
// Both directions from one read, aligned as `vector` says.
cudaError_t quantize_dual(const QuantizeJob& job, int block, Dtype dtype, Element element, cudaStream_t stream);
// The same for BF16 by long runs, aligned as quantize_lines has it unless shifted, and the second output's codes too.
cudaError_t quantize_wide_dual(const QuantizeJob& job, int block, Element element, cudaStream_t stream);

// --- dequantization, the scales' layout, the cast alone --------------------------------------------------------------

enum class BlockKind : std::uint8_t { row, column, square };

struct DequantizeJob {
  const std::uint8_t* codes = nullptr;  // rows x cols
  void* y = nullptr;                    // rows x cols
  std::int64_t cols = 0;
  std::int64_t columns = 0;  // tiles of 128 columns
  Rows rows;
  const std::uint8_t* scales = nullptr;
  bool tiled = false;
  bool words = false;  // as in ScalePlace
};

struct LayoutJob {
  const std::uint8_t* from = nullptr;
  std::uint8_t* to = nullptr;
  bool to_tiled = false;  // else from tiled
  std::uint8_t pad = 0;
  std::int64_t cols = 0;
  std::int64_t columns = 0;
  Rows rows;
};

struct CastJob {
  Matrix x;
  std::uint8_t* codes = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};

// block: 32 or 128. vector: four columns are one aligned load and one aligned store in every row.
cudaError_t dequantize(const DequantizeJob& job, BlockKind kind, int block, Dtype dtype, Element element, bool vector,
                       cudaStream_t stream);
cudaError_t change_layout(const LayoutJob& job, BlockKind kind, int block, cudaStream_t stream);
cudaError_t cast(const CastJob& job, Dtype dtype, Element element, cudaStream_t stream);

// --- the plan --------------------------------------------------------------------------------------------------------
//
// Checks expert offsets and a row index, which only the device can read, in the stream, before any output is written.
// The plan kernel also lays out the row tiles of ragged experts, so that the host need not wait for the offsets.

// Scales that an output or input tensor says it holds: how many there are follows from the offsets.
struct ClaimedScales {
  std::int64_t count = -1;  // bytes (tiled), or rows of scales (compact); -1: not claimed, or known without offsets
  std::int32_t block_rows = 32;  // of column and square blocks, 32 or 128; 1 for blocks of one row
  std::int64_t columns = 0;      // tiled: scale tiles for each tile of 128 rows or group of bands; 0: compact
};

struct PlanJob {
  std::int64_t rows = 0;
  const std::int64_t* offsets = nullptr;  // experts + 1; null: none
  std::int64_t experts = 0;
  const std::int32_t* index = nullptr;  // rows values; null: none
  std::int64_t source_rows = 0;         // index is 0 .. source_rows - 1
  ClaimedScales claims[2];
  mxcheck_device_report* report = nullptr;  // or null
};

// The workspace of a call: a header, and with offsets the table of tiles.
std::uint64_t plan_bytes(const PlanJob& job);

// At most this many tiles.
std::int64_t most_tiles(const PlanJob& job);

// Enqueues the checks and the table. workspace: plan_bytes, aligned to 256.
cudaError_t make_plan(const PlanJob& job, void* workspace, Rows& rows, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
