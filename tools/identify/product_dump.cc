// A D and its operands.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "goldens/make/embedded.h"
#include "numerics/error.h"
#include "properties/identify/product_definitions.h"
#include "properties/identify/reveal.h"
#include "reference/common/checked_size.h"
#include "tools/identify/identify.h"
#include "tools/identify/words.h"
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

// Of k that so many scales share: the power of two from 16 to 128 that gives so many, or all of k.
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
  if (t.dtype != Dtype::u8 && t.dtype != Dtype::f32) throw Error(ErrorKind::input, location + ": scales are U8 or F32");
  scales.format = t.dtype == Dtype::u8 ? Format::e8m0 : Format::fp32;
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

void check_options(const IdentifyOptions& o) {
  for (const auto& [flag, value] : {std::pair{"--a", o.a}, {"--b", o.b}, {"--d", o.d}}) {
    if (value.empty())
      throw Error(ErrorKind::usage, std::string(flag) + " is needed; mxcheck identify --help says what for");
  }
  if (o.scale_a.empty() != o.scale_b.empty() || (o.scale_a.empty() && o.scale_k != 0)) {
    throw Error(ErrorKind::usage, "--scale-a and --scale-b go together, and --scale-k with them");
  }
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
  const Match match = match_products({&o.d, 1}, {&call, 1}, {&d.words, 1});
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

}  // namespace mxcheck
