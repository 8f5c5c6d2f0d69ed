#pragma once
// Tiles of sums of E2M1 products in exact groups of 16 (sm100_mxf4, sm100_nvf4): the plain model's bits
// (numerics/accumulate/fused_sum.h), with a group as a dot product of small integers. Twice an E2M1 value is an integer
// of at most 12, so that a group is at most 2304 quarters, and with two UE4M3 significands below 2^20.
//
// No errors: accumulate_tile() has checked what is asked for.

#include <cstdint>

#include "numerics/accumulate/contract.h"
#include "numerics/accumulate/fused_sum.h"
#include "reference/accumulate/operand.h"

namespace mxcheck {

bool runs_on_groups(const Contract& contract, Format a, Format b);

// accumulate_tile() of operands for which it does.
void group_tile(const PackedOperand& a, Extent rows, const PackedOperand& b, Extent cols, Extent k, std::uint32_t* acc,
                std::int64_t ld);

}  // namespace mxcheck
