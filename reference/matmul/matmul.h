#pragma once
// Matmuls (GEMMs) of codes, to the bit: D = alpha * A B^T + C under a named contract.
//
// Shapes. A is m x k, B is n x k, D and C are m x n, row-major. Groups along rows: B is experts x n x k, rows
// [offsets[e], offsets[e + 1]) of A are multiplied by expert e's B. Groups along depth: D is experts x m x n, and D_e
// sums over k in [offsets[e], offsets[e + 1]) alone; an empty one is alpha * 0 + C. Masked groups: B is experts x n x
// k, A, C and D are experts x capacity rows, of which the first counts[e] of expert e are multiplied; those of D past
// them are not computed: zeros here, any bytes from a kernel.
//
// A contract as text is the name of a sum (numerics/accumulate/contract.h), then, in any order, what is done on top:
//   +promoteN   every N elements of k the sum is added to an FP32 sum and starts again from +0:
//                 acc = fma(sum, s, acc), with s = RN(scale_a * scale_b), and s = 1 without scales
//   +a_first    acc = fma(RN(sum * scale_a), scale_b, acc) in place of the product of the scales
//   +b_first    the same with the scales exchanged
//   +decode     operands are decoded with their scales to BF16 first: RN(code * scale), ties to even, Inf beyond
//   +from_c     the sum starts from C (FP32) in place of adding C to it
//   +descending the intervals (the steps, where there is no promotion) are taken in descending order of k
//
// In place of a sum's name, `any_order` promises none: any order and grouping of the products in an accumulator of
// FP32;
//   +fN         adders that keep N bits below their largest operand (13: FP8 on Hopper). Also with +decode.
// matmul() then gives the exact sum, rounded once; reference/matmul/any_order.h the interval of what is right.
//
// `as_accurate_as:CONTRACT` promises no bits, but errors that are no larger than CONTRACT's (not of any_order, FP16
// accumulators, TF32 or UE4M3 scales). matmul() then gives the bits of CONTRACT.
//
// Without +promote and +decode scales are part of the sum: hardware's own (sm100_mx*), exact (one rounding of the exact
// sum of code * scale products), or, for ieee_fp32, those of operands dequantized to FP32.
//
// At the end: D = round(RN(alpha * acc) + C), every operation in FP32, the last to BF16 or FP16 where that is D's type
// (ties to even). In D every NaN is 0x7FFFFFFF, 0x7FFF; a candidate may have any other, except where a tensor core's
// own result reaches D.
//
//   Matmul m;                                                    // dense, FP32 D, no C
//   m.contract = parse_matmul_contract("sm90_fp8+promote128");
//   m.a = {Format::e4m3, a_codes, rows, k, k};                   // and block, scale_format, scales, scale_row_stride
//   m.b = {Format::e4m3, b_codes, cols, k, k};
//   matmul(m, d);                                                // rows x cols floats
//
// Sources: docs/contracts.md. Errors: Error{usage} for shapes, formats, scales and contracts that do not fit one
// another, naming what would. Threads (0: the machine's) change nothing but the time.

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "numerics/accumulate/contract.h"
#include "reference/common/matrix.h"

namespace mxcheck {

struct MatmulContract {
  const Contract* sum = nullptr;
  std::int64_t promotion = 0;
  enum class Order : std::uint8_t { product, a_first, b_first } order = Order::product;
  bool decodes = false;
  bool from_c = false;
  bool descending = false;
  // No order of sums is promised: `sum` is exact, and each output is held to an interval (any_order.h).
  bool any_order = false;
  // No bits are promised either, but the errors of the contract that the other members are.
  bool as_accurate = false;
  int kept_bits = kFp32KeptBits;  // of these two: below the largest operand of an adder
  static constexpr int kFp32KeptBits = 23;

  [[nodiscard]] bool promises_bits() const { return !any_order && !as_accurate; }
};

MatmulContract parse_matmul_contract(std::string_view text);  // Error{usage} says what is wrong with the text
std::string to_text(const MatmulContract& contract);

// One operand in memory: code (r, k) is element r * row_stride + k * depth_stride, of 1, 2 or 4 bytes as the format
// needs. Scale (r / block.rows, k / block.cols) is element (...) * scale_row_stride + (...) * scale_depth_stride.
struct MatmulOperand {
  Format format = Format::e4m3;
  const void* codes = nullptr;
  std::int64_t rows = 0;
  std::int64_t depth = 0;
  std::int64_t row_stride = 0;
  std::int64_t depth_stride = 1;
  BlockShape block{0, 0};              // of rows x depth; {0, 0}: no scales
  Format scale_format = Format::e8m0;  // or fp32; e4m3 for UE4M3
  const void* scales = nullptr;
  std::int64_t scale_row_stride = 0;
  std::int64_t scale_depth_stride = 1;

  [[nodiscard]] bool scaled() const { return block.rows != 0; }
};

enum class Grouping : std::uint8_t { none, rows, depth, masked };

struct Matmul {
  MatmulContract contract;
  MatmulOperand a;
  MatmulOperand b;               // groups along rows and masked ones: of expert 0; the others follow it
  Format output = Format::fp32;  // fp32, bf16, fp16
  float alpha = 1;
  const void* c = nullptr;  // of D's type and shape, or none
  Grouping grouping = Grouping::none;
  std::span<const std::int64_t> offsets;    // experts + 1; blocks of depth restart at each
  std::span<const std::int64_t> counts;     // of masked groups, in place of offsets; blocks of A have one row
  std::span<const std::int32_t> row_index;  // row i of D is of row row_index[i] of a; empty: all in order
  bool gathers = false;                     // rows are gathered by row_index, which may be empty
  int threads = 0;
  std::atomic<std::int64_t>* rows_done = nullptr;  // where given: rows of D are added to it as they are complete

  // Rows of D in all groups: what rows_done reaches, but where D has no columns.
  [[nodiscard]] std::int64_t rows_of_d() const { return grouping == Grouping::depth ? experts() * m() : m(); }
  [[nodiscard]] std::int64_t m() const { return gathers ? static_cast<std::int64_t>(row_index.size()) : a.rows; }
  [[nodiscard]] std::int64_t experts() const {
    if (grouping == Grouping::masked) return static_cast<std::int64_t>(counts.size());
    return grouping == Grouping::none ? 1 : static_cast<std::int64_t>(offsets.size()) - 1;
  }
  // Rows of a masked group, those past its count included.
  [[nodiscard]] std::int64_t capacity() const { return counts.empty() ? 0 : m() / experts(); }
  // False for rows that are not computed.
  [[nodiscard]] bool writes_row(std::int64_t row) const {
    return grouping != Grouping::masked || row % capacity() < counts[static_cast<std::size_t>(row / capacity())];
  }
};

// The whole of D: (experts x) m x n elements of the output type.
void matmul(const Matmul& m, void* d);

// The same for one output, with a line of text for every step (mxcheck matmul --explain): by the plain model, one line
// a step.
struct ExplainedOutput {
  std::uint32_t word = 0;
  std::vector<std::string> lines;
};
ExplainedOutput explain_output(const Matmul& m, std::int64_t expert, std::int64_t i, std::int64_t j);

}  // namespace mxcheck
