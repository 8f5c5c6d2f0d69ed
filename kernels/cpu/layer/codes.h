#pragma once
// One block of values to codes and a scale, by kernels/common/layer/policy.h's rules.

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/candidate_layer.h"
#include "kernels/common/layer/policy.h"
#include "kernels/common/layer/sigmoid.h"
#include "kernels/common/layer/tensors.h"

namespace mxcheck_kernels::cpu {

// Where a block's elements are: the first value and code, and how far apart the next ones are.
struct Line {
  const float* x = nullptr;
  std::int64_t x_step = 1;
  std::uint8_t* codes = nullptr;
  std::int64_t code_step = 1;
  std::int64_t count = 0;
};

// `scale`: one byte, or a float for CodeScale::fp32.
void encode_block(const Coding& coding, const Line& line, void* scale);

// Rows x cols values, one row after the other, in blocks of 1 x coding.block: codes rows x cols, scales.
struct Values {
  const float* x = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};
void encode_rows(const Coding& coding, const Values& values, std::uint8_t* codes, void* scales);

// One block of rows, in blocks of rows x 1: codes of column j from codes + j * code_stride on, its scale
// j * scale_stride after the first.
void encode_columns(const Coding& coding, const Values& values, std::uint8_t* codes, std::int64_t code_stride,
                    void* scales, std::int64_t scale_stride);

// BF16 as words, and the sigmoid of a gate.

inline float fp32_of(std::uint16_t bf16) { return std::bit_cast<float>(std::uint32_t{bf16} << 16); }

// Nearest, ties to even; Inf beyond the range; a NaN stays one.
inline std::uint16_t bf16_of(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return 0x7FFF;
  return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

inline float sigmoid(float g) { return kSigmoids.q[sigmoid_place(std::bit_cast<std::uint32_t>(g))]; }

// Rows of experts in bands, the blocks along tokens: no band crosses an expert's end.

struct Band {
  std::int64_t first = 0;  // row
  std::int64_t rows = 0;   // 1 to `height`
};

// Throws Refusal{INVALID} for offsets that descend or do not go from 0 to `rows`; without them (no columns) there is
// one expert.
std::vector<Band> bands_of(const Checked& offsets, std::int64_t rows, std::int64_t height);

// The scales of transposed codes have a column for each band.
void require_bands(const char* name, const CodeTensors& tensors, const std::vector<Band>& bands);

// The operations of kernels/candidate_layer.h on the host: plain loops, one element after the other, threads over rows.
// A second implementation to compare the reference with, and the control of the faults; not for speed.

void run_swiglu(const mxcheck_call& call);
void run_swiglu_backward(const mxcheck_call& call);
void run_aggregate(const mxcheck_call& call);
void run_quantize_transposed(const mxcheck_call& call);

// Operations of kernels/candidate_dispatch.h; check_: the policies that are offered.
void check_dispatch(const mxcheck_policy* policy, DLDataType type);
void check_combine(const mxcheck_policy* policy, DLDataType type);
void run_dispatch(const mxcheck_call& call);
void run_combine(const mxcheck_call& call);

// The sums of aggregate and combine: tensors were checked, and so were the slots' values.
void add_rows_of_tokens(const AggregateTensors& x, bool weighted, std::int32_t threads);

}  // namespace mxcheck_kernels::cpu
