#pragma once
// Dequantization and changes of the scales' layout, as one launch each; and the element cast alone.

#include <cstdint>

#include "kernels/sm90/quantize/quantize.h"

namespace mxcheck_kernels::sm90 {

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

}  // namespace mxcheck_kernels::sm90
