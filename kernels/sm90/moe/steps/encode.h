#pragma once
// Tensors in BF16 to FP8 codes, as steps "quantize ...".

#include "kernels/sm90/moe/steps/codes.h"

namespace mxcheck_kernels::sm90 {

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
// Turned: experts x cols x rows. `names` are of the amax and of the codes.
struct WeightNames {
  const char* amax;
  const char* codes;
};
enum class Turned : std::uint8_t { no, yes };
MoeCodes encode_weights(MoeCoder& coder, const WeightNames& names, const Checked& w, std::int64_t rows,
                        std::int64_t cols, Turned turned);

// One FP32 number of the arena.
Part add_amax(const MoeCoder& coder, const char* name, const std::uint16_t* x, std::int64_t rows, std::int64_t cols);

}  // namespace mxcheck_kernels::sm90
