#pragma once
// FP8 codes of a pass: where they and their scales are in the workspace (E4M3, blocks of 128 along what a GEMM sums
// over), tensors in BF16 made into codes as steps "quantize ...", and the GEMMs that read them.

#include <cstdint>

#include "kernels/sm90/gemm/matmul.h"
#include "kernels/sm90/layer/steps/steps.h"
#include "kernels/sm90/moe/moe_builder.h"

namespace mxcheck_kernels::sm90 {

// Row-major with k last, as FP8 GEMMs read them.
struct MoeCodes {
  std::uint8_t* codes = nullptr;
  void* scales = nullptr;
  Part code_part, scale_part;  // of the arena, where that holds them
};

// Codes of weights, rows x cols with a scale for each 128 x 128.
MoeCodes take_squares(Arena& memory, std::int64_t rows, std::int64_t cols, std::int64_t scale_bytes);

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

  // rows x cols, with a scale for each row and 128 columns; of weights for 128 x 128 of each, in the caller's memory
  // where they are kept.
  [[nodiscard]] MoeCodes take_rows(std::int64_t rows, std::int64_t cols);
  [[nodiscard]] MoeCodes take_weights(std::int64_t rows, std::int64_t cols);
  // cols x stride().
  [[nodiscard]] MoeCodes take_columns(std::int64_t cols);
  void drop(const MoeCodes& x);

  // Codes and scales in memory.
  [[nodiscard]] std::uint64_t bytes_of_rows(std::int64_t rows, std::int64_t cols) const;
  [[nodiscard]] std::uint64_t bytes_of_squares(std::int64_t rows, std::int64_t cols) const;

  // The form in which the kernels of layer/steps take them.
  [[nodiscard]] RowCodes row_codes(const MoeCodes& x, std::int64_t cols) const;
  [[nodiscard]] ColumnCodes column_codes(const MoeCodes& x) const;

  MoeBuilder& b;

 private:
  DeviceCoding coding_;
  std::int64_t stride_;
  const std::int64_t* padded_ = nullptr;
};

// ---- Tensors in BF16 to FP8 codes ----

// x [rows, cols], or the routed rows of it.
struct CodeSource {
  const std::uint16_t* x = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  bool gathered = false;
  const float* amax = nullptr;  // of the whole tensor, which shares a scale then
};

// Blocks of 1 x 128.
void encode_rows(const MoeCoder& coder, const char* name, const CodeSource& from, const MoeCodes& to);
// Codes of tokens [tokens, cols] and their scales, copied to the rows of their experts. Memory of x is dropped.
MoeCodes gather_codes(MoeCoder& coder, const char* name, const MoeCodes& x, std::int64_t cols);
// Blocks of 128 rows of an expert and one column.
void encode_columns(const MoeCoder& coder, const char* name, const CodeSource& from, const MoeCodes& to);
// The same of X as it was kept: its codes' values, and the routed rows of them.
void encode_kept_x(const MoeCoder& coder, const char* name, const MoeCodes& to);
// Blocks of 128 x 128 or of the whole tensor, whose scale is written for each row and each column. Without columns
// (null) squares of rows begin anywhere, with them at each expert.
void encode_squares(const MoeCoder& coder, const char* name, const CodeSource& from, const MoeCodes* rows,
                    const MoeCodes* columns);

// w [experts * rows, cols] by 128 x 128 or, for a recipe of whole tensors, by its amax, which is a step of its own.
// Transposed::yes: experts x cols x rows. `names` are of the amax and of the codes.
struct WeightNames {
  const char* amax;
  const char* codes;
};
enum class Transposed : std::uint8_t { no, yes };
MoeCodes encode_weights(MoeCoder& coder, const WeightNames& names, const Checked& w, std::int64_t rows,
                        std::int64_t cols, Transposed transposed);

// One FP32 number of the arena.
Part add_amax(const MoeCoder& coder, const char* name, const std::uint16_t* x, std::int64_t rows, std::int64_t cols);

// ---- The six GEMMs of a layer whose operands are FP8 codes: sm90_fp8+promote128 ----

// D [routed, n] = A [routed, k] B^T, of each expert's B: n x k, whose scales are of 128 x 128.
struct CodedMGroupedGemm {
  const char* name = nullptr;
  MoeCodes a;
  MoeCodes b;
  void* d = nullptr;
  std::int64_t n = 0;
  std::int64_t k = 0;
  MatmulOutput output = MatmulOutput::bf16;
};
void add_m_grouped_gemm(const MoeCoder& coder, const CodedMGroupedGemm& gemm);

// D [experts * m, n] in FP32 = A B^T along each expert's rows, of codes along tokens: A m x stride, B n x stride.
struct CodedKGroupedGemm {
  const char* name = nullptr;
  MoeCodes a;
  MoeCodes b;
  float* d = nullptr;
  std::int64_t m = 0;
  std::int64_t n = 0;
};
void add_k_grouped_gemm(const MoeCoder& coder, const CodedKGroupedGemm& gemm);

}  // namespace mxcheck_kernels::sm90
