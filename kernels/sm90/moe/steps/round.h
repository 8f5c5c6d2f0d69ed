#pragma once
// Operands of GEMMs in BF16: through a block format and back as steps "quantize ...", or, without a rule, as they are.

#include <optional>

#include "kernels/sm90/moe/steps/matmul_values.h"

namespace mxcheck_kernels::sm90 {

enum class Along : std::uint8_t { rows, columns };  // of the tensor as it lies: where 32 neighbours share a scale

using MaybeRule = std::optional<RoundRule>;

// X or dO [tokens, d] as rows of experts: rounded once a token, and copied to its rows.
// `names` are of the rounding and of the copy.
struct TokenNames {
  const char* values;
  const char* copy;
};
MoeOperand rows_of_tokens(MoeBuilder& b, const TokenNames& names, const Checked& x, const MaybeRule& rule);
// The copy alone.
MoeOperand gather_tokens(MoeBuilder& b, const char* name, const std::uint16_t* x);
// The same tensors as rows of experts, rounded along tokens.
MoeOperand round_gathered(MoeBuilder& b, const char* name, const Checked& x, RoundRule rule);
// w [experts * rows, cols].
MoeOperand round_weights(MoeBuilder& b, const char* name, const Checked& w, std::int64_t rows, std::int64_t cols,
                         Along along, const MaybeRule& rule);
// x [routed, cols] of the arena, which it takes: that is dropped, or becomes the operand.
MoeOperand round_routed(MoeBuilder& b, const char* name, const Part& x, std::int64_t cols, Along along,
                        const MaybeRule& rule);

// x [routed, cols] in both directions from one read. `rows` are read, and their part dropped, before `columns`. The
// memory of x is dropped with the last of them that it is.
struct RoundedPair {
  MoeOperand rows;
  MoeOperand columns;
};
RoundedPair round_both(MoeBuilder& b, const char* name, const Part& x, std::int64_t cols, const MaybeRule& along_rows,
                       const MaybeRule& along_columns);

}  // namespace mxcheck_kernels::sm90
