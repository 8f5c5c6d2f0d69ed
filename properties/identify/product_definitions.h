#pragma once
// The definitions that a product is compared with: every contract with every suffix of reference/matmul/matmul.h that
// fits (promotion at every multiple of the step up to K, orders of scales, decode, descending, from_c where C is
// given), and split-k, for which contracts have no text:
//
//   "sm90_fp8+promote128, split-k of 3 in parts of 128"                   parts added ascending
//   "sm90_fp8, split-k of 4 in parts of 64, added descending"             or "pairwise"
//
// Each part of k, the last one perhaps shorter, is summed by itself under the contract to FP32; the sums are added in
// FP32 and rounded to D's type once.
//
// Parts of a contract without promotion are promotion at their length, which has a contract's text: +promote128 is the
// answer then, and other_words() says that it is split-k too.
//
// Errors: Error{usage} where a definition does not fit the call, and for a text that is none.
//
// Does not promise: uneven parts, parts that are no run of k, partial sums of another type than FP32, split-k with C.

#include <cstdint>
#include <string>
#include <vector>

#include "properties/identify/product.h"

namespace mxcheck {

// The contracts that can be asked about this space, as text.
std::vector<std::string> product_contracts(const ProductSpace& space);
// The same in 2, 3 and 4 parts, whose lengths are multiples of 32, 64 or 128, of the step and of scale_k.
std::vector<std::string> split_products(const ProductSpace& space);

// The words of D under a contract, or under a contract in parts.
std::vector<std::uint32_t> answer_of_contract(const std::string& definition, const ProductCall& call);

// "split-k of 3 in parts of 128, no promotion within them" of "sm90_fp8+promote128" and K = 384; empty where there is
// no such reading.
std::string other_words(const std::string& definition, const ProductSpace& space);

ProductSpace space_of(const ProductCall& call);

}  // namespace mxcheck
