#pragma once
// The table of products: what the bits of D may be, over the reference's Matmul. The gate's findings and identify ask
// it (properties/core/definitions.h).
//
//   contracts  every one that takes the operands, with every suffix of reference/matmul/matmul.h: promotion at every
//              multiple of the step up to K, orders of scales, decode, descending, from_c where there is a C
//   split-k    of 2, 3 and 4: contracts have no text for it
//                "sm90_fp8+promote64, split-k of 3 in parts of 128"                      parts added ascending
//                "sm90_fp8+promote64, split-k of 4 in parts of 128, added descending"    or "pairwise"
//   slips      that GEMM kernels are known for, under one contract: "C not added", "A's scales taken as 1"
//
// A part of k, the last one perhaps shorter, is summed by itself under the contract to FP32; the sums are added in
// FP32, multiplied by alpha and rounded to D's type once. Lengths are multiples of 32, 64 or 128, of the step and of
// the blocks of scales. Parts of a contract without promotion are promotion at their length, which has a contract's
// text: +promote128 is the row then, and other_words() says that it is split-k too.
//
// The operands must outlive the table. Errors: those of matmul(); Error{usage} for a text that is no contract and no
// split-k, or that does not fit the operands.
//
// Does not promise: uneven parts, parts that are no run of k, partial sums of another type than FP32, split-k with C or
// with groups along k.

#include <cstdint>
#include <string>

#include "properties/core/definitions.h"
#include "reference/matmul/matmul.h"

namespace mxcheck {

// The contract that m states counts for nothing but the slips. longest: a promoted sum, where that is more than k.
Table product_contracts(const Matmul& m, std::int64_t longest = 0);
Table product_splits(const Matmul& m);
Table product_slips(const Matmul& m);

// The row of this name, a contract's or a split's.
Definition product_definition(const std::string& name, const Matmul& m);
Bytes answer_of_product(const std::string& name, const Matmul& m);

// One output of it, by the plain model: for tables of which hardly a row is worth more.
std::uint32_t word_of_product(const std::string& name, const Matmul& m, std::int64_t expert, std::int64_t i,
                              std::int64_t j);

// "split-k of 3 in parts of 128, no promotion within them" of "sm90_fp8+promote128" and K = 384; empty where there is
// no such reading.
std::string other_words(const std::string& name, const Matmul& m);

}  // namespace mxcheck
