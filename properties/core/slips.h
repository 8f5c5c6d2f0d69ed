#pragma once
// Slips that any operation may have, made of a problem's own inputs and answer: where an operation's table has no row
// that explains a case, these are asked (properties/core/causes.h).
//
// Three kinds: the right outputs at other places or with other values ("the row before", "not written"); the right
// answer to other inputs ("subnormal elements of x taken for zero", "the scales of the first group for every group");
// and the right answer of another variant ("recipe=floor in place of recipe=rceil").

#include <cstdint>
#include <span>

#include "properties/core/operation.h"

namespace mxcheck {

// outputs: of one run, whose memory held this poison before. Rows point into the problem and the outputs. The problem's
// answer is computed again by each row about inputs and variants that is asked for: none of these where that takes
// long, as it does sooner where all will be asked for than where a few will.
Table general_slips(const Problem& problem, std::span<const AnswerTensor> outputs, std::uint8_t poison,
                    bool few_are_asked);

}  // namespace mxcheck
