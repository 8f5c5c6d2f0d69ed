#pragma once
// Operands of GEMMs in BF16: through the recipe's block format and back as steps "quantize ...", or as they are for a
// recipe that rounds none.

#include "kernels/sm90/moe/steps/matmul_values.h"

namespace mxcheck_kernels::sm90 {

enum class Along : std::uint8_t { rows, columns };  // of the tensor as it lies: where 32 neighbours share a scale

bool rounds(const MoeCall& call);  // whether the recipe rounds any operand

// X or dO [tokens, d] as rows of experts: rounded once a token, by a recipe that rounds, and copied to its rows.
// `names` are of the rounding and of the copy.
struct TokenNames {
  const char* values;
  const char* copy;
};
MoeOperand rows_of_tokens(MoeBuilder& b, const TokenNames& names, const Checked& x, RoundRule rule);
// The copy alone.
MoeOperand gather_tokens(MoeBuilder& b, const char* name, const std::uint16_t* x);
// The same tensors as rows of experts, rounded along tokens; of a recipe that rounds.
MoeOperand round_gathered(MoeBuilder& b, const char* name, const Checked& x, RoundRule rule);
// w [experts * rows, cols].
MoeOperand round_weights(MoeBuilder& b, const char* name, const Checked& w, std::int64_t rows, std::int64_t cols,
                         Along along);
// x [routed, cols] of the arena, which it takes: that is dropped, or becomes the operand.
MoeOperand round_routed(MoeBuilder& b, const char* name, const Part& x, std::int64_t cols, Along along, RoundRule rule);

// x [routed, cols] in both directions from one read. The memory of x is dropped, or is that of `columns`, which is
// therefore the last to be read.
struct RoundedPair {
  MoeOperand rows;
  MoeOperand columns;
};
RoundedPair round_both(MoeBuilder& b, const char* name, const Part& x, std::int64_t cols, RoundRule rule);

}  // namespace mxcheck_kernels::sm90
