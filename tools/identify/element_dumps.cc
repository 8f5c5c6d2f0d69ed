// Dumps of casts, quantizations and routers.

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <optional>

#include "goldens/make/embedded.h"
#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/identify/blocks.h"
#include "properties/identify/router.h"
#include "reference/common/checked_size.h"
#include "tools/identify/identify.h"
#include "tools/identify/words.h"
#include "tools/matmul/operands.h"

namespace mxcheck {
namespace {

Stack matrix_of(const Tensor& t, const std::string& location) {
  const Stack s = stack_of(t, location);
  if (s.batched) throw Error(ErrorKind::input, location + ": is a batch; one matrix is identified at a time");
  return s;
}

void need(const std::string& value, const char* flag, const char* with) {
  if (value.empty()) throw Error(ErrorKind::usage, fmt::format("{} is needed with {}", flag, with));
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

}  // namespace

int identify_blocks_dump(const IdentifyOptions& o) {
  need(o.x, "--x", "--codes");
  need(o.codes, "--codes", "--x");
  const Tensor x = tensor_at(o.x);
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
  if (o.scales.empty()) return answer(o, match_cast(o.codes, call.format, call.x, words_of(codes), shape.cols));
  const Tensor scales = tensor_at(o.scales);
  if (scales.dtype != Dtype::u8 && scales.dtype != Dtype::f32)
    throw Error(ErrorKind::input, o.scales + ": scales are U8 or F32");
  call.block = block_of(o, shape, matrix_of(scales, o.scales));
  const QuantizeAnswer given{words_of(codes), words_of(scales), scales.dtype == Dtype::f32};
  const Match match = match_quantize(o.codes, call, given);
  if (match.explained() || given.fp32_scales) return answer(o, match);
  return answer(o, match, {}, match_elements(o.codes, call, given));
}

int identify_routes_dump(const IdentifyOptions& o) {
  need(o.logits, "--logits", "--experts");
  need(o.experts, "--experts", "--logits");
  need(o.weights, "--weights", "--logits");
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
  const std::size_t width = size_of(experts.dtype);
  if (experts.dtype != Dtype::i32 && experts.dtype != Dtype::i64)
    throw Error(ErrorKind::input, o.experts + ": experts are I32 or I64");
  for (std::size_t at = 0; at < experts.data.size(); at += width) {
    std::int64_t expert = 0;
    std::memcpy(&expert, experts.data.data() + at, width);
    answered.experts.push_back(static_cast<std::int32_t>(expert));
  }
  if (weights.dtype != Dtype::f32) throw Error(ErrorKind::input, o.weights + ": weights are F32");
  for (std::uint32_t word : words_of(weights)) answered.weights.push_back(std::bit_cast<float>(word));
  return answer(o, match_routes(o.experts, call, answered));
}

}  // namespace mxcheck
