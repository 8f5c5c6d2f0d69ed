#pragma once
// Steps of a layer whose order of operations is not promised: for each output an interval that holds what every right
// kernel gives, and the exact value.
//
// aggregate. O of a token is a product of one row, its weights, with the rows of Y: the interval is that of
// reference/matmul/any_order.h, whose derivation holds for it, rounded to BF16 at both ends (rounding is monotone).
// Products of a weight (24 bits) and a BF16 number have up to 32 bits: they may be rounded before they are added.
// Operands below 2^-126 may be flushed as well: a kernel that is compiled with -ftz=true reads them as zeros. Each such
// term may be missing.
//
// Errors: those of aggregate(). Threads (0: the machine's) change nothing but the time.

#include <cstdint>
#include <span>
#include <vector>

#include "reference/layer/aggregate.h"
#include "reference/matmul/any_order.h"

namespace mxcheck {

// tokens x cols ranges of BF16. wanted: as for any_order_ranges().
std::vector<OutputRange> aggregate_ranges(const AggregatedRows& from, const TokenSlots& slots,
                                          std::span<const std::uint8_t> wanted = {}, int threads = 0);
ExactOutput exact_aggregate(const AggregatedRows& from, const TokenSlots& slots, std::int64_t token, std::int64_t col);

}  // namespace mxcheck
