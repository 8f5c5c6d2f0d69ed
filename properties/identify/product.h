#pragma once
// Finds the contract that a black box that multiplies follows: docs/identify.md.
//
//   const ProductBox box = [](const ProductCall& call) { return words_of_d; };      // the kernel in question
//   const ProductReport r = identify_product({Format::e4m3, Format::e4m3, Format::fp32, 256}, box);
//   r.match.explaining == std::vector<std::string>{"sm90_fp8+promote128"}
//   to_text(r)
//
// Definitions that are tried: properties/operations/matmul/definitions.h, contracts first, then split-k, then slips.
// Where none explains every bit, the tree of summation (properties/identify/reveal.h) is looked for.
//
// Errors: Error{usage} for formats that no contract takes, K below 1, and an answer of another size than m x n. What
// the box throws passes through.
//
// Does not promise: that a box does the same on shapes that were not asked for; where it does otherwise on those of one
// row or of 8 x 8, the closest definitions say which probes they explain. Groups, and alpha, are not tried.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "numerics/format/format.h"
#include "properties/core/definitions.h"
#include "properties/identify/tree/tree.h"

namespace mxcheck {

// D = A B^T + C of m x n words: a is m x k, b n x k, one code a word, row-major. Scales (where scale_k is not 0) are
// ceil(m / a_scale_rows) x ceil(k / scale_k) and ceil(n / b_scale_rows) x ceil(k / scale_k) words of scale_format; c is
// empty or m x n words of the output's type.
struct ProductCall {
  Format a_format = Format::e4m3;
  Format b_format = Format::e4m3;
  Format output = Format::fp32;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::vector<std::uint32_t> a;
  std::vector<std::uint32_t> b;
  std::int64_t scale_k = 0;
  Format scale_format = Format::e8m0;
  std::vector<std::uint32_t> a_scales;
  std::vector<std::uint32_t> b_scales;
  std::vector<std::uint32_t> c;
  std::int64_t a_scale_rows = 1;  // rows that share a scale
  std::int64_t b_scale_rows = 1;
};
using ProductBox = std::function<std::vector<std::uint32_t>(const ProductCall& call)>;

// The products that the box is asked for: formats, scales and shape.
struct ProductSpace {
  Format a = Format::e4m3;
  Format b = Format::e4m3;
  Format output = Format::fp32;
  std::int64_t k = 128;
  std::int64_t scale_k = 0;  // elements of k that share a scale; 0: no scales
  Format scale_format = Format::e8m0;
  bool with_c = false;
  std::int64_t a_scale_rows = 1;
  std::int64_t b_scale_rows = 1;
  std::int64_t m = 16;  // of D, in all calls but those that ask about other shapes: libraries choose their order by it
  std::int64_t n = 16;
  bool one_shape = false;  // no calls of other shapes: the box takes m x n alone
};

ProductSpace space_of(const ProductCall& call);

// The words of D under a contract, or under a contract in parts. Error{usage} where it does not fit the call.
std::vector<std::uint32_t> answer_of_contract(const std::string& definition, const ProductCall& call);

// All definitions against calls and answers that are there already, as a dump is.
Match match_products(std::span<const std::string> names, std::span<const ProductCall> calls,
                     std::span<const std::vector<std::uint32_t>> answers, const std::string& declared = "");

// These contracts alone, in place of all. Error{usage} for one that does not fit the first call.
Match match_named_products(std::span<const std::string> definitions, std::span<const std::string> names,
                           std::span<const ProductCall> calls, std::span<const std::vector<std::uint32_t>> answers);

// The calls that identify_product makes, with their names (product_probes.cc).
std::vector<std::pair<std::string, ProductCall>> product_probes(const ProductSpace& space);

struct TreeReport {
  std::optional<SumTree> tree;
  std::string why_not;                  // without a tree
  std::optional<std::string> shape;     // its name
  std::vector<std::string> arithmetic;  // of its nodes, that explain every sum below
  std::string closest;                  // where none does
  std::int64_t closest_equal = 0;
  std::int64_t compared = 0;  // sums of random data
  bool keeps_more = false;    // than binary additions in this tree can: compensated, or wider
  std::int64_t masks = 0;     // mask outputs that were read
};

struct ProductReport {
  Match match;
  std::optional<TreeReport> order;  // where no contract explains the box
};

enum class TreeWanted { where_unexplained, always, never };
struct ProductQuestion {
  std::string declared;  // the contract that the box claims to follow
  TreeWanted tree = TreeWanted::where_unexplained;
};
ProductReport identify_product(const ProductSpace& space, const ProductBox& box, const ProductQuestion& question = {});

std::string to_text(const ProductReport& report);
std::string to_text(const TreeReport& report);

}  // namespace mxcheck
