#pragma once
// Operands of a layer's GEMMs that multiply BF16: tensors as they are, or through a block format and back, as steps
// "quantize ...", and copied to the rows of their experts, as steps "gather ...". Those of weights are multiplied as
// they lie.
//
// Parts of the arena that an operand takes stay until it is dropped.

#include <cstdint>
#include <optional>

#include "kernels/sm90/moe/moe_builder.h"

namespace mxcheck_kernels::sm90 {

using MaybeRule = std::optional<OperandRule>;
inline const MaybeRule& rule(MoeBuilder& b, RoundedOperand operand) { return b.call().recipe->rule(operand); }

// An operand of a GEMM, in BF16.
struct MoeOperand {
  const std::uint16_t* values = nullptr;
  Part part;                            // of the arena, where that holds it
  const std::uint32_t* amax = nullptr;  // of a tensor in NVFP4
  Part amax_part = {};
  float unit = 0;  // by which the amax is divided; 0 for others
};

inline void drop(MoeBuilder& b, const MoeOperand& x) {
  b.memory.drop(x.part);
  b.memory.drop(x.amax_part);
}

enum class Along : std::uint8_t { rows, columns };  // of the tensor as it lies: where neighbours share a scale

// X or dO [tokens, d] copied to the rows of experts.
MoeOperand gather_tokens(MoeBuilder& b, const char* name, const std::uint16_t* x);

// X or dO [tokens, d] as rows of experts: rounded once a token, and copied to its rows.
// `names` are of the rounding and of the copy.
struct TokenNames {
  const char* values;
  const char* copy;
};
MoeOperand rows_of_tokens(MoeBuilder& b, const TokenNames& names, const Checked& x, RoundedOperand operand);

// The same tensors as rows of experts, rounded along tokens; the operand has a rule.
MoeOperand round_gathered(MoeBuilder& b, const char* name, const Checked& x, RoundedOperand operand);

// w [experts * rows, cols].
MoeOperand round_weights(MoeBuilder& b, const char* name, const Checked& w, std::int64_t rows, std::int64_t cols,
                         Along along, RoundedOperand operand);

// x [routed, cols] of the arena, which it takes: that is dropped, or becomes the operand.
MoeOperand round_routed(MoeBuilder& b, const char* name, const Part& x, std::int64_t cols, Along along,
                        RoundedOperand operand);

// x [routed, cols] in both directions, of formats with one level of scales from one read. `rows` are read, and their
// part dropped, before `columns`. The memory of x is dropped with the last of them that it is.
struct RoundedPair {
  MoeOperand rows;
  MoeOperand columns;
};
struct PairNames {
  const char* rows;
  const char* columns;  // where that is a step of its own
};
RoundedPair round_both(MoeBuilder& b, const PairNames& names, const Part& x, std::int64_t cols, RoundedOperand rows,
                       RoundedOperand columns);

}  // namespace mxcheck_kernels::sm90
