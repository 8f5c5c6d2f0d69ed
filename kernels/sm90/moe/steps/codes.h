#pragma once
// FP8 codes of a pass with their scales, and where they are in the workspace: E4M3, blocks of 128 along what a GEMM
// sums over.

#include "kernels/sm90/gemm/matmul.h"
#include "kernels/sm90/layer/steps/steps.h"
#include "kernels/sm90/moe/steps/builder.h"

namespace mxcheck_kernels::sm90 {

// Row-major with k last, as FP8 GEMMs read them.
struct MoeCodes {
  std::uint8_t* codes = nullptr;
  void* scales = nullptr;
  Part code_part, scale_part;  // of the arena, where that holds them
};

// Takes memory for a pass's FP8 codes, and has the place of every expert's codes along tokens: padded to multiples of
// 128 rows, so that each column of codes has stride() of them at most, of which an expert's end at the padded offsets.
class MoeCoder {
 public:
  explicit MoeCoder(MoeBuilder& b);
  // Once, in front of the first step that writes codes along tokens: the step "pad offsets".
  void pad_offsets();

  [[nodiscard]] const DeviceCoding& coding() const { return coding_; }
  [[nodiscard]] bool e8m0() const { return !coding_.fp32; }
  [[nodiscard]] std::int64_t scale_bytes() const { return coding_.fp32 ? 4 : 1; }
  [[nodiscard]] const std::int64_t* padded() const { return padded_; }
  // The room of a column of codes along tokens; a multiple of 128, which is all that is known of it without the device.
  [[nodiscard]] std::int64_t stride() const { return stride_; }
  [[nodiscard]] std::int64_t bands() const { return stride_ / 128; }

  // rows x cols, with a scale for each row and 128 columns, or for 128 x 128 of each.
  [[nodiscard]] MoeCodes take_rows(std::int64_t rows, std::int64_t cols);
  [[nodiscard]] MoeCodes take_squares(std::int64_t rows, std::int64_t cols);
  // cols x stride().
  [[nodiscard]] MoeCodes take_columns(std::int64_t cols);
  void drop(const MoeCodes& x);

  // Codes and scales in memory.
  [[nodiscard]] std::uint64_t bytes_of_rows(std::int64_t rows, std::int64_t cols) const;
  [[nodiscard]] std::uint64_t bytes_of_squares(std::int64_t rows, std::int64_t cols) const;

  // As the kernels of layer/steps take them.
  [[nodiscard]] RowCodes row_codes(const MoeCodes& x, std::int64_t cols) const;
  [[nodiscard]] ColumnCodes column_codes(const MoeCodes& x) const;

  MoeBuilder& b;

 private:
  [[nodiscard]] MoeCodes take(std::int64_t rows, std::int64_t cols, std::int64_t scale_rows);

  DeviceCoding coding_;
  std::int64_t stride_;
  const std::int64_t* padded_ = nullptr;
};

}  // namespace mxcheck_kernels::sm90
