#pragma once
// mxcheck identify, in parts: what is asked, and each way to answer. Each prints its answer, as text or JSON, writes
// the picture where one is asked for, and returns the exit code.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "goldens/io/tensor_file.h"
#include "numerics/format/format.h"
#include "properties/identify/blocks.h"
#include "properties/identify/product.h"
#include "tools/common/hadamard_options.h"
#include "tools/common/output.h"
#include "tools/common/process_limits.h"

namespace mxcheck {

// A box at the other end of standard input and output (box.cc).
struct BoxOptions {
  std::string op;                        // matmul, tree, cast, quantize, route
  std::int64_t m = 16, n = 16, k = 256;  // of every product
  std::string output, dtype;             // of D; of what a quantization or a router reads
  std::string scale_type;                // e8m0, fp32; empty: a product without scales
  std::string block_a = "1x32", block_b = "1x32";
  std::vector<std::string> names;  // definitions to try in place of all
  std::string tree = "where-unexplained";
  std::int64_t checked = 2000;
  std::int64_t experts = 64, top_k = 8;
};

struct IdentifyOptions {
  std::string a, b, d, scale_a, scale_b, format_a, format_b;  // a product's dump
  std::int64_t scale_k = 0;
  std::string x, codes, scales, words, format, block;  // a cast's, a quantization's
  std::string tensor_scale;                            // of two levels of scales: a number, or where it is
  HadamardOptions hadamard;                            // of x, before it was quantized
  std::optional<std::uint64_t> seed, first_call;       // of stochastic codes under two levels of scales
  std::string logits, experts, weights;                // a router's
  std::string candidate, op, only;                     // a library
  ProcessLimits limits;
  BoxOptions box;
  std::string draw;  // a tree as text
  bool order = false;
  bool json = false;
  std::string svg;
};

int identify_product_dump(const IdentifyOptions& options);
int identify_blocks_dump(const IdentifyOptions& options);
int identify_routes_dump(const IdentifyOptions& options);
int identify_candidate(const IdentifyOptions& options);
int identify_box(const IdentifyOptions& options);
int draw_tree(const IdentifyOptions& options);

// With E4M3 scales, two levels: what names the recipe.
Match match_nvfp4_dump(const IdentifyOptions& options);

// 0 where a definition explains every bit, else 1.
int answer(const IdentifyOptions& options, const Match& match, const std::optional<TreeReport>& order = {});
int answer(const IdentifyOptions& options, const QuantizeMatch& found);
// Error{usage}, before anything is computed, for a path that cannot be written.
void check_picture(const IdentifyOptions& options);
void write_picture(const IdentifyOptions& options, const SumTree& tree, const std::string& title);

// A file's tensor as words, one an element; as numbers.

std::vector<std::uint32_t> words_of(const Tensor& tensor);

// x as it was quantized: transformed where --hadamard says so. Errors: those of hadamard, of x.
Tensor quantized_input(const IdentifyOptions& options);

// The values of a tensor of F32, BF16 or F16, and its type. Error{input} for others.
std::vector<float> values_of(const Tensor& tensor, const std::string& location, Format& type);

}  // namespace mxcheck
