#pragma once
// A matmul as the matmuls of its groups. For matmul.cc and explain.cc; a checked matmul (checks.h), so no errors.

#include <cstdint>
#include <vector>

#include "reference/matmul/matmul.h"
#include "reference/matmul/operand.h"

namespace mxcheck {

struct MatmulPart {
  std::int64_t expert = 0;
  OperandWindow a;
  OperandWindow b;
  std::int64_t d_first = 0;  // element of D (and C) that (0, 0) of this part is
};

// One part without groups, else one for each expert, empty ones included.
std::vector<MatmulPart> parts_of(const Matmul& m);

// The word of D where the sum is `acc` and, if adds_c, C is `c`.
std::uint32_t finished_word(const Matmul& m, std::uint32_t acc, std::uint32_t c, bool adds_c);

// Refuses operands, scales, groups and contracts that do not fit one another. Errors: Error{usage} naming what does
// not, and what would.

void check_matmul(const Matmul& m);

}  // namespace mxcheck
