#pragma once
// GEMMs as problems of the gate: operands drawn from a case, the call, and the reference's answer.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "properties/core/call.h"
#include "properties/core/case.h"
#include "properties/core/operation.h"
#include "properties/operations/matmul/fields.h"
#include "reference/matmul/matmul.h"

namespace mxcheck {

inline constexpr std::uint64_t kSpecialInOneBlock = 2;  // the least seed of every_row with one special block a row
inline constexpr std::int64_t kSpecialScales = 20;      // of FP32, row by row under Data::every_row

class MatmulProblem final : public Problem {
 public:
  explicit MatmulProblem(const Case& c);     // drawn
  explicit MatmulProblem(const Call& call);  // that a call poses

  // Operands [rows, depth] row-major, scales [blocks of rows, blocks of depth], C as D, as the candidate reads them.
  // Codes are one an element in a and b, whatever the candidate reads: NVFP4's are packed beside them.
  std::vector<std::byte> a, b, scales_a, scales_b, c_values;
  std::vector<std::byte> packed_a, packed_b;
  std::vector<std::int32_t> index;  // gather: row i of A is row index[i]

  [[nodiscard]] Call call() const override;
  [[nodiscard]] std::vector<ProblemInput> inputs() const override;
  [[nodiscard]] std::vector<ExpectedTensor> answer() const override;
  [[nodiscard]] ExpectedTensor answer(const MatmulContract& contract) const;
  void explain(std::size_t output, Finding& finding) const override;
  [[nodiscard]] std::vector<SavedTensor> saved() const override { return {}; }
  [[nodiscard]] Table definitions(std::span<const Bytes> observed) const override;

  // The problem as the reference takes it; pointers into this.
  [[nodiscard]] Matmul matmul(const MatmulContract& contract) const;
  [[nodiscard]] MatmulContract contract() const;
  // Lines about the first differing output: its steps. Returns the reference's word there.
  std::uint32_t explain_steps(Finding& finding) const;
};

// Operands (properties/operations/matmul/problem.cc).
std::vector<std::byte> expand_operand(const Case& c, Format format, std::uint64_t salt, std::int64_t rows,
                                      std::int64_t depth);
std::vector<std::byte> expand_operand_scales(const Case& c, std::uint64_t salt, std::int64_t rows, std::int64_t blocks);
std::vector<std::byte> expand_c(const Case& c, std::int64_t count);

// The GEMMs that the GPU model (properties/gpu_model/gpu_model.h) can compute, so that it has the reference's bits:
//
//   sm90_fp8, sm90_bf16, sm90_fp16, sm90_tf32   with or without +promoteN; scales with +promoteN alone, blocks of 1 row
//                                               of a, 1 or 128 of b, that promotion divides
//   sm90_bf16+decode                            E4M3 with E8M0 scales of 1 x 32
//   +from_c                                     where there is no C
//
// It does not model masked groups.
//
// C in FP32 alone, D in FP32 or BF16; groups along depth that start where blocks and intervals do. Of anything else (an
// order of scales or intervals, another sum) nothing is known.

// The model's arguments for the case; nothing where it cannot compute it.
std::optional<DeviceModel> model_of(const Case& c);

// The statement about GEMMs that promise no order of sums, with the domain of the one about bits.
Statement any_order_statement(const Statement& equality);
// The one about errors that are no larger than a contract's (accuracy.cc).
Statement accuracy_statement(const Statement& equality);

// True if there are cases of the variant for which it can.
bool model_knows(const Variant& v);

}  // namespace mxcheck
