#pragma once
// A case is a descriptor: everything that decides the tensors of one check, in one line of text. Tensors are expanded
// from it (properties/operations/quantize/expand.h), never stored in it, so that a counterexample shrinks and travels
// as a sentence:
//
//   op=quantize format=e4m3 recipe=rceil block=1x32 layout=tcgen05 pad=255 x=bf16 rows=3 cols=33 data=normal seed=7
//   optional: stride=40 experts=0,1,3 gather=50 plant=0,31:7f80 threads=2
//
// Matrix products have other fields; m is rows, n cols, k depth, and experts are offsets along rows or depth:
//
//   op=matmul:sm90_fp8+promote128 format=e4m3 format_b=e5m2 block=1x128 block_b=128x128 scales=e8m0 groups=rows d=bf16
//   rows=3 cols=33 depth=256 experts=0,1,3 data=normal seed=7;  optional: gather=50 adds=1 alpha=0.5
//
// Routers have others again; rows are tokens, cols experts, k the experts of a token (0 in route_metadata:
// token_offsets):
//
//   op=route_round variant=softmax-topk x=bf16 nan=last bias=1 limited=1 rule=nr-f weights=renorm rows=300 cols=16 k=4
//   groups=8 kept=2 tile=32 data=slots seed=7;  optional: stride=20 capacity=9 scale=2.5 step=3 layer=1 drops=10
//   plant=...
//
// parse_case is the inverse of to_text; Error{usage} names the field and what it can be.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "numerics/format/format.h"
#include "reference/common/matrix.h"

namespace mxcheck {

// One way in which an operation can be asked: what `supports` is queried with.
struct Variant {
  std::string operation;  // "quantize", ...
  Format format = Format::e4m3;
  std::string recipe = "rceil";
  BlockShape block;
  int layout = 0;              // mxcheck_layout
  Format wide = Format::bf16;  // type of x, of y for dequantize, of d for matmul
  // Of matmul alone, whose operation is "matmul:" and its contract; format and block are those of a.
  Format format_b = Format::e4m3;
  BlockShape block_b{0, 0};
  int scales = 0;  // mxcheck_scale_type
  int groups = 0;  // mxcheck_grouping
  // Of routers alone: recipe is the variant's name, block none, wide the type of the logits.
  bool nan_last = false;
  bool bias = false;
  bool limited = false;     // group-limited choice
  std::string rule;         // of route_round
  bool renormalize = true;  // of route_round
  friend bool operator==(const Variant&, const Variant&) = default;
};

// How the elements are drawn. expand.h says what each is for.
enum class Data : std::uint8_t {
  zeros,       // +0 everywhere: the ground that plants stand on
  boundaries,  // on, and one ulp to either side of, the values where a code or a scale byte changes
  codes,       // exactly representable: uniform codes times the block's power of two
  normal,      // normal with outliers, row-wise scales of training tensors
  bits,        // uniform bit patterns of the whole type, NaN and Inf included
  specials,    // a mix dense in zeros, subnormals, Inf, NaN and extremes; whole special blocks
  wide,        // every magnitude: log-uniform over the type's exponents, element by element
  sparse,      // one nonzero element a block, anywhere in it
  slots,       // every block has another scale and every element of it another code
  every_bf16,  // the (i mod 65536)-th BF16 pattern, scaled blocks apart: see expand.h
  every_amax,  // element (i, 0) is the FP32 or BF16 pattern seed + i
  every_word,  // element number i, row by row, is the pattern seed + i; of products: a walking one
  every_row,   // routers: row i has the digits of seed + i, in an alphabet of few values; elsewhere zeros
  real,        // a window of the committed tensors of a trained model
};

inline constexpr std::string_view kDataNames[] = {"zeros",      "boundaries", "codes",     "normal", "bits",
                                                  "specials",   "wide",       "sparse",    "slots",  "every_bf16",
                                                  "every_amax", "every_word", "every_row", "real"};

struct Plant {
  std::int64_t row = 0;
  std::int64_t col = 0;
  std::uint32_t bits = 0;  // of the wide type
  friend bool operator==(const Plant&, const Plant&) = default;
};

struct Case {
  Variant variant;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;            // of x in elements; 0: cols
  std::vector<std::int64_t> experts;  // offsets; empty: none
  std::int64_t gather = 0;            // rows of x come by index from this many rows; 0: no index
  Data data = Data::zeros;
  std::uint64_t seed = 0;
  std::vector<Plant> plants;  // at most 8, over the drawn elements
  std::uint8_t pad = 0;
  int threads = 0;
  // Of matmul alone.
  std::int64_t depth = 0;
  bool adds = false;  // C
  float alpha = 1;
  // Of routers alone (kernels/candidate_route.h).
  std::int64_t top_k = 0;
  std::int64_t groups = 0;  // group-limited choice
  std::int64_t groups_kept = 0;
  std::int64_t tile = 1;
  std::int64_t capacity = 0;
  float scale = 1;
  std::uint64_t step = 0;  // with the case's seed
  std::uint32_t layer = 0;
  int drops = 0;  // route_metadata, route_backward: percent of the routes that are -1
  friend bool operator==(const Case&, const Case&) = default;

  [[nodiscard]] std::int64_t elements() const { return rows * cols; }
};

// quantize, quantize_dual, cast: the operations that read x.
bool reads_x(const Variant& variant);

// "matmul:" and a contract.
bool is_matmul(std::string_view operation);
std::string_view contract_text(std::string_view operation);  // of a matmul
// "route", "route_round", "route_metadata", "route_backward"; all but metadata read logits.
bool is_route(std::string_view operation);
bool reads_logits(const Variant& variant);
// What the last offset of experts is: rows, or depth for products that are grouped along it.
std::int64_t experts_end(const Case& c);

std::string to_text(const Variant& variant);
std::string to_text(const Case& c);
Case parse_case(std::string_view text);
Variant parse_variant(std::string_view text);  // the fields of a variant, and no others

// The classes that a case counts for: "x bf16", "block 1x32", "data boundaries", "tail", "experts", ...
std::vector<std::string> classes_of(const Case& c);

}  // namespace mxcheck
