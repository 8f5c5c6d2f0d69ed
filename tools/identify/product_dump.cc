// A D and its operands.

#include <algorithm>
#include <bit>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "goldens/data/embedded.h"
#include "goldens/io/tensor_file.h"
#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/identify/blocks.h"
#include "properties/identify/product.h"
#include "properties/identify/reveal.h"
#include "properties/identify/router.h"
#include "reference/common/checked_size.h"
#include "tools/identify/identify.h"
#include "tools/matmul/operands.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostOfTree = 256;  // terms of a contract's tree that are drawn

struct Side {
  Format format;
  Stack shape;
  std::vector<std::uint32_t> words;
};

Side read_side(const std::string& location, const std::string& format) {
  const Tensor t = tensor_at(location);
  Side side{code_format(format, t, location), stack_of(t, location), {}};
  if (side.shape.batched) throw Error(ErrorKind::input, location + ": is a batch; one matrix is identified at a time");
  check_codes(side.format, t.data, location);
  side.words = words_of(t);
  return side;
}

struct Scales {
  Format format;
  std::int64_t rows_each = 1;
  std::int64_t cols_each = 0;
  std::vector<std::uint32_t> words;
};

// The elements of k that share a scale: the power of two from 16 to 128 that gives so many blocks, or all of k; else 0.
std::int64_t shared_k(std::int64_t k, std::int64_t blocks) {
  for (std::int64_t each : {128, 64, 32, 16}) {
    if (ceil_div(k, each) == blocks) return each;
  }
  return blocks == 1 ? k : 0;
}

Scales read_scales(const std::string& location, const Side& side, std::int64_t scale_k) {
  const Tensor t = tensor_at(location);
  const Stack s = stack_of(t, location);
  Scales scales{Format::e8m0, 1, scale_k == 0 ? shared_k(side.shape.cols, s.cols) : scale_k, words_of(t)};
  const bool fits = scales.cols_each != 0 && s.cols == ceil_div(side.shape.cols, scales.cols_each);
  if (s.rows != side.shape.rows) scales.rows_each = 128;
  if (s.batched || !fits || s.rows != ceil_div(side.shape.rows, scales.rows_each)) {
    const std::int64_t k = scales.cols_each == 0 ? 128 : scales.cols_each;
    throw Error(
        ErrorKind::input,
        fmt::format("{}: is {} x {}; scales of {} x {} codes, one for {} of k, are {} x {}, or {} x {} of blocks "
                    "of 128 rows",
                    location, s.rows, s.cols, side.shape.rows, side.shape.cols, k, side.shape.rows,
                    ceil_div(side.shape.cols, k), ceil_div(side.shape.rows, 128), ceil_div(side.shape.cols, k)));
  }
  if (t.format != Format::uint8 && t.format != Format::e8m0 && t.format != Format::fp32)
    throw Error(ErrorKind::input, location + ": scales are U8, F8_E8M0 or F32");
  scales.format = t.format == Format::fp32 ? Format::fp32 : Format::e8m0;
  return scales;
}

void add_scales(const IdentifyOptions& o, const Side& a, const Side& b, ProductCall& call) {
  if (o.scale_a.empty() && o.scale_k == 0) return;
  Scales of_a = read_scales(o.scale_a, a, o.scale_k);
  Scales of_b = read_scales(o.scale_b, b, o.scale_k);
  if (of_a.format != of_b.format) throw Error(ErrorKind::input, o.scale_b + ": its type is not that of --scale-a");
  if (of_a.cols_each != of_b.cols_each) {
    throw Error(ErrorKind::input, fmt::format("{}: one scale for {} of k, and one for {} in {}", o.scale_b,
                                              of_b.cols_each, of_a.cols_each, o.scale_a));
  }
  call.scale_k = of_a.cols_each, call.scale_format = of_a.format;
  call.a_scale_rows = of_a.rows_each, call.b_scale_rows = of_b.rows_each;
  call.a_scales = std::move(of_a.words), call.b_scales = std::move(of_b.words);
}

struct DumpTensor {
  const char* flag;
  const std::string& location;
};

// Error{usage} where one of these is not given.
void need(std::initializer_list<DumpTensor> all, const char* of) {
  std::vector<const char*> given, wanted;
  for (const DumpTensor& one : all) {
    wanted.push_back(one.flag);
    if (!one.location.empty()) given.push_back(one.flag);
  }
  for (const DumpTensor& one : all) {
    if (one.location.empty())
      throw Error(ErrorKind::usage,
                  fmt::format("{} is needed: {} takes {}; given: {}", one.flag, of, join(wanted, ", "),
                              given.empty() ? "none of them" : join(given, ", ")));
  }
}

void check_options(const IdentifyOptions& o) {
  need({{"--a", o.a}, {"--b", o.b}, {"--d", o.d}}, "a product");
  if (!o.scale_a.empty() || !o.scale_b.empty() || o.scale_k != 0) {
    need({{"--a", o.a}, {"--b", o.b}, {"--d", o.d}, {"--scale-a", o.scale_a}, {"--scale-b", o.scale_b}},
         "a product with scales");
  }
}

// The option that nobody gave, the tensors beside the codes, and the one among them that it may be.
std::string without_scales(const std::string& codes, const std::string& as_what, const std::string& option) {
  std::string text = fmt::format("without {} the codes are {}", option, as_what);
  const std::size_t colon = codes.rfind(':');
  const std::string path = codes.substr(0, colon);
  if (!path.ends_with(".safetensors")) return text + fmt::format("; scales are given as {} FILE", option);
  const std::vector<std::string> names = tensor_names(path);
  const auto scales =
      std::ranges::find_if(names, [](const std::string& name) { return name.find("scale") != std::string::npos; });
  text += fmt::format("; {} has {}", path, join(names));
  if (scales == names.end()) return text + fmt::format(", and none is named as scales are: {} FILE", option);
  return text + fmt::format(": {} {}:{}", option, path, *scales);
}

// The tree in which a definition sums: its own answers to masks.
TreeReport tree_of(const std::string& definition, const ProductCall& call) {
  ProductSpace space = space_of(call);
  space.k = std::min(space.k, kMostOfTree);
  return reveal_order(space, [&](const ProductCall& mask) { return answer_of_contract(definition, mask); });
}

}  // namespace

int identify_product_dump(const IdentifyOptions& o) {
  check_options(o);
  Side a = read_side(o.a, o.format_a);
  Side b = read_side(o.b, o.format_b);
  if (a.shape.cols != b.shape.cols) {
    throw Error(ErrorKind::input, fmt::format("K is {} in {} and {} in {}", a.shape.cols, o.a, b.shape.cols, o.b));
  }
  Side d = read_side(o.d, "");
  if (!spec(d.format).is_value || d.shape.rows != a.shape.rows || d.shape.cols != b.shape.rows) {
    throw Error(ErrorKind::input,
                fmt::format("{}: is {} of {} x {}; D is F32, BF16 or F16 of {} x {}", o.d, spec(d.format).name,
                            d.shape.rows, d.shape.cols, a.shape.rows, b.shape.rows));
  }
  ProductCall call{a.format, b.format, d.format, a.shape.rows, b.shape.rows, a.shape.cols};
  add_scales(o, a, b, call);
  call.a = std::move(a.words), call.b = std::move(b.words);
  Match match = match_products({&o.d, 1}, {&call, 1}, {&d.words, 1});
  if (!match.explained() && o.scale_a.empty())
    match.remarks.push_back(without_scales(o.a, "multiplied as they are", "--scale-a"));
  std::optional<TreeReport> order;
  if (match.explained() && (o.order || !o.svg.empty())) order = tree_of(match.explaining.front(), call);
  const int code = answer(o, match, order);
  if (o.svg.empty()) return code;
  if (!order || !order->tree) {
    throw Error(ErrorKind::usage,
                "there is no picture for " + o.svg + ": " + (order ? order->why_not : "no definition explains " + o.d));
  }
  write_picture(o, *order->tree,
                fmt::format("{}, {} of {} terms", match.explaining.front(), order->tree->terms(), call.k));
  return code;
}

// Dumps of casts, quantizations and routers.

namespace {

Stack matrix_of(const Tensor& t, const std::string& location) {
  const Stack s = stack_of(t, location);
  if (s.batched) throw Error(ErrorKind::input, location + ": is a batch; one matrix is identified at a time");
  return s;
}

bool fits(const BlockShape& block, const Stack& x, const Stack& scales) {
  return scales.rows == ceil_div(x.rows, block.height(x.rows)) && scales.cols == ceil_div(x.cols, block.width(x.cols));
}

BlockShape block_of(const IdentifyOptions& o, const Stack& x, const Stack& scales) {
  if (!o.block.empty()) {
    const BlockShape block = block_shape_named(o.block);
    if (fits(block, x, scales)) return block;
    throw Error(ErrorKind::input,
                fmt::format("{}: is {} x {}; scales of {} x {} in blocks {} are {} x {}", o.scales, scales.rows,
                            scales.cols, x.rows, x.cols, o.block, ceil_div(x.rows, block.height(x.rows)),
                            ceil_div(x.cols, block.width(x.cols))));
  }
  std::vector<std::string> names;
  std::optional<BlockShape> found;
  for (const auto& [name, block] : kBlockShapes) {
    if (!fits(block, x, scales)) continue;
    if (!found) found = block;
    names.emplace_back(name);
  }
  if (!found) {
    throw Error(ErrorKind::input, fmt::format("{}: is {} x {}, which no block makes of {} x {}; is it compact?",
                                              o.scales, scales.rows, scales.cols, x.rows, x.cols));
  }
  if (names.size() == 1 || x.rows == 1) return *found;  // of one row the rest of a block is not there
  throw Error(ErrorKind::usage, "--block is needed: the scales may be those of " + join(std::span(names)));
}

std::vector<std::uint32_t> random_words(const IdentifyOptions& o, const Stack& x) {
  if (o.words.empty()) return {};
  const Tensor words = tensor_at(o.words);
  const Stack shape = matrix_of(words, o.words);
  if (words.format != Format::int32 && words.format != Format::uint32)
    throw Error(ErrorKind::input, o.words + ": random words are I32 or U32");
  if (shape.rows == x.rows && shape.cols == x.cols) return words_of(words);
  throw Error(ErrorKind::input,
              fmt::format("{}: is {} x {}, and x {} x {}", o.words, shape.rows, shape.cols, x.rows, x.cols));
}

// A cast and two levels of scales have a match, other quantizations one with parts.
struct BlocksMatch {
  QuantizeMatch found;
  bool has_parts = false;
};

BlocksMatch match_blocks_dump(const IdentifyOptions& o) {
  need({{"--x", o.x}, {"--codes", o.codes}}, "a cast, or with --scales a quantization,");
  if (!o.tensor_scale.empty() || (!o.scales.empty() && tensor_at(o.scales).format == Format::e4m3)) {
    return {{match_nvfp4_dump(o)}};
  }
  if (o.seed) throw Error(ErrorKind::usage, "--seed is of codes under E4M3 scales: --x, --codes and --scales");
  const Tensor x = quantized_input(o);
  const Tensor codes = tensor_at(o.codes);
  const Stack shape = matrix_of(x, o.x);
  const Stack of_codes = matrix_of(codes, o.codes);
  if (of_codes.rows != shape.rows || of_codes.cols != shape.cols) {
    throw Error(ErrorKind::input, fmt::format("{}: is {} x {}, and x {} x {}", o.codes, of_codes.rows, of_codes.cols,
                                              shape.rows, shape.cols));
  }
  QuantizeCall call{code_format(o.format, codes, o.codes), {}, shape.rows, shape.cols, {}, Format::fp32};
  check_codes(call.format, codes.data, o.codes);
  call.x = values_of(x, o.x, call.dtype);
  if (o.scales.empty()) {
    const std::vector<std::uint32_t> words = random_words(o, shape);
    Match match = match_cast(o.codes, call.format, call.x, words_of(codes), shape.cols, words);
    if (!match.explained() && words.empty())
      match.remarks.push_back(without_scales(o.codes, "those of a cast", "--scales"));
    return {{match}};
  }
  if (!o.words.empty()) throw Error(ErrorKind::usage, "--words are of a cast, without --scales");
  const Tensor scales = tensor_at(o.scales);
  if (scales.format != Format::uint8 && scales.format != Format::e8m0 && scales.format != Format::fp32)
    throw Error(ErrorKind::input, o.scales + ": scales are U8, F8_E8M0 or F32");
  call.block = block_of(o, shape, matrix_of(scales, o.scales));
  const QuantizeAnswer given{words_of(codes), words_of(scales), scales.format == Format::fp32};
  return {match_quantize(o.codes, call, given), true};
}

// How many words the best definition has.
std::int64_t closeness(const Match& match) {
  return match.explained() ? match.compared : match.closest.empty() ? 0 : match.closest.front().equal;
}

// A transform whose order of the sum is not said: that which explains most, and all that explain as much.
BlocksMatch match_every_sum(IdentifyOptions o) {
  BlocksMatch best;
  std::vector<std::string> sums;
  for (const std::string& sum : hadamard_sums()) {
    o.hadamard.sum = sum;
    BlocksMatch match = match_blocks_dump(o);
    const std::int64_t more = closeness(match.found.match) - closeness(best.found.match);
    if (sums.empty() || more > 0) {
      best = std::move(match);
      sums = {sum};
    } else if (more == 0) {
      sums.push_back(sum);
    }
  }
  best.found.match.remarks.push_back("--hadamard-sum " + join(sums));
  return best;
}

}  // namespace

int identify_blocks_dump(const IdentifyOptions& o) {
  const bool is_any_sum = !o.hadamard.size.empty() && o.hadamard.sum.empty();
  const BlocksMatch match = is_any_sum ? match_every_sum(o) : match_blocks_dump(o);
  return match.has_parts ? answer(o, match.found) : answer(o, match.found.match);
}

int identify_routes_dump(const IdentifyOptions& o) {
  need({{"--logits", o.logits}, {"--experts", o.experts}, {"--weights", o.weights}}, "a router");
  const Tensor logits = tensor_at(o.logits);
  const Tensor experts = tensor_at(o.experts);
  const Tensor weights = tensor_at(o.weights);
  const Stack shape = matrix_of(logits, o.logits);
  const Stack chosen = matrix_of(experts, o.experts);
  const Stack of_weights = matrix_of(weights, o.weights);
  if (chosen.rows != shape.rows || of_weights.rows != shape.rows || of_weights.cols != chosen.cols ||
      chosen.cols > shape.cols) {
    throw Error(
        ErrorKind::input,
        fmt::format("logits are {} x {}, experts {} x {}, weights {} x {}; tokens x experts, and twice tokens x k "
                    "of at most as many, are needed",
                    shape.rows, shape.cols, chosen.rows, chosen.cols, of_weights.rows, of_weights.cols));
  }
  RouteCall call{shape.rows, shape.cols, chosen.cols, {}};
  call.logits = values_of(logits, o.logits, call.dtype);
  RouteAnswer answered;
  const std::size_t width = size_of(experts.format);
  if (experts.format != Format::int32 && experts.format != Format::int64)
    throw Error(ErrorKind::input, o.experts + ": experts are I32 or I64");
  for (std::size_t at = 0; at < experts.data.size(); at += width) {
    std::int64_t expert = 0;
    std::memcpy(&expert, experts.data.data() + at, width);
    answered.experts.push_back(static_cast<std::int32_t>(expert));
  }
  if (weights.format != Format::fp32) throw Error(ErrorKind::input, o.weights + ": weights are F32");
  for (std::uint32_t word : words_of(weights)) answered.weights.push_back(std::bit_cast<float>(word));
  return answer(o, match_routes(o.experts, call, answered));
}

}  // namespace mxcheck
