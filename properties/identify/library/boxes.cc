#include "properties/identify/library/boxes.h"

#include <algorithm>
#include <bit>
#include <map>

#include "numerics/format/codec.h"
#include "numerics/scale/recipe.h"
#include "properties/identify/blocks.h"
#include "properties/identify/library/posing.h"
#include "properties/identify/reveal.h"
#include "properties/identify/router.h"
#include "properties/identify/values.h"
#include "properties/operations/matmul/fields.h"
#include "properties/operations/router/fields.h"
#include "properties/operations/scaled_blocks/fields.h"
#include "reference/common/checked_size.h"

namespace mxcheck {
namespace {

constexpr std::string_view kCastRule = "nearest_even, saturate";  // kernels/candidate.h

bool is(const Variant& v, std::string_view operation) { return v.operation == operation; }

void identify_matmul(CandidateRunner& runner, const Variant& v, const LibraryQuestion& question, PolicyReport& report) {
  const MatmulVariant& own = matmul_of(v);
  ProductSpace space{own.format, own.format_b, v.dtype, question.k};
  if (own.scales != MXCHECK_NO_SCALES) {
    space.scale_k = own.block.cols, space.a_scale_rows = own.block.rows, space.b_scale_rows = own.block_b.rows;
    space.scale_format = own.scales == MXCHECK_E8M0 ? Format::e8m0 : Format::fp32;
  }
  const ProductBox box = [&](const ProductCall& call) {
    Posing p(runner, v, call.m, call.n, [&](Case& c) { matmul_case(c).depth = call.k; });
    p.set(0, call.a_format, call.a, call.m, call.k);
    p.set(1, call.b_format, call.b, call.n, call.k);
    if (call.scale_k != 0) {
      const std::int64_t blocks = ceil_div(call.k, call.scale_k);
      const std::uint32_t one = encode(call.scale_format, 1, Rounding::nearest_even, Overflow::saturate);
      p.set(2, call.scale_format, call.a_scales, ceil_div(call.m, call.a_scale_rows), blocks, one);
      p.set(3, call.scale_format, call.b_scales, ceil_div(call.n, call.b_scale_rows), blocks, one);
    }
    p.run();
    return p.words(0, call.m, call.n);
  };
  const std::string declared(contract_text(v.operation));
  report.match = identify_product(space, box, {declared, TreeWanted::never}).match;
  if (report.match->explained() && !question.always_tree) return;
  space.k = question.tree_k;
  report.order = reveal_order(space, box);
}

// Rows at a time: as many whole blocks as the candidate takes.
std::int64_t rows_at_once(const CandidateRunner& runner, const Variant& v, std::int64_t height, std::int64_t rows) {
  const OperationInfo* limits = runner.operation(v.operation);
  if (limits == nullptr || limits->max_rows == 0 || limits->max_rows >= rows) return rows;
  return std::max<std::int64_t>(1, limits->max_rows / limits->rows_multiple * limits->rows_multiple / height) * height;
}

void append(std::vector<std::uint32_t>& to, const std::vector<std::uint32_t>& words) {
  to.insert(to.end(), words.begin(), words.end());
}

std::vector<std::uint32_t> transposed(const std::vector<std::uint32_t>& words, std::int64_t rows, std::int64_t cols) {
  std::vector<std::uint32_t> turned(words.size());
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    turned[static_cast<std::size_t>(i % cols * rows + i / cols)] = words[static_cast<std::size_t>(i)];
  }
  return turned;
}

QuantizeAnswer quantized(CandidateRunner& runner, const Variant& v, const QuantizeCall& call) {
  const bool turned = is(v, "quantize_transposed");
  const std::int64_t height = call.block.height(call.rows);
  const std::int64_t width = call.block.width(call.cols);
  const std::int64_t each = rows_at_once(runner, v, height, call.rows);
  const std::int64_t blocks = ceil_div(call.cols, width);
  QuantizeAnswer answer;
  for (std::int64_t first = 0; first < call.rows; first += each) {
    const std::int64_t rows = std::min(each, call.rows - first);
    const std::vector<float> x(call.x.begin() + first * call.cols, call.x.begin() + (first + rows) * call.cols);
    Posing p(runner, v, rows, call.cols);
    p.set(0, v.dtype, value_words(v.dtype, x), rows, call.cols);
    p.run();
    const std::int64_t scale_rows = ceil_div(rows, height);
    append(answer.codes,
           turned ? transposed(p.words(0, call.cols, rows), call.cols, rows) : p.words(0, rows, call.cols));
    append(answer.scales,
           turned ? transposed(p.words(1, blocks, scale_rows), blocks, scale_rows) : p.words(1, scale_rows, blocks));
    answer.fp32_scales = p.type(1) == Format::fp32;
  }
  return answer;
}

// The byte of a block that holds amax and zeros.
std::uint32_t scale_of(CandidateRunner& runner, const Variant& v, float amax) {
  const BlockShape block = blocks_of(v).block;
  QuantizeCall call{blocks_of(v).format, block, block.height(1), block.width(32), {}, v.dtype};
  call.x.assign(static_cast<std::size_t>(call.rows * call.cols), 0);
  call.x.front() = amax;
  return quantized(runner, v, call).scales.at(0);
}

Match scale_bytes(CandidateRunner& runner, const Variant& v) {
  const ScaleBox box = [&](float amax) { return scale_of(runner, v, amax); };
  return identify_scale(blocks_of(v).format, box, {blocks_of(v).recipe, v.dtype, false});
}

void identify_blocks(CandidateRunner& runner, const Variant& v, const LibraryQuestion& question, PolicyReport& report) {
  const ScaledBlocksVariant& own = blocks_of(v);
  if (question.op == "scale") {
    report.match = scale_bytes(runner, v);
    return;
  }
  const QuantizeBox box = [&](const QuantizeCall& call) { return quantized(runner, v, call); };
  report.match = identify_quantize(own.format, own.block, box, {own.recipe, v.dtype});
  if (report.match->explained() || !recipe_named(own.recipe).has_e8m0_scales()) return;
  report.scales = scale_bytes(runner, v);
  report.elements = identify_elements(own.format, own.block, box, {"", v.dtype});
}

void identify_casts(CandidateRunner& runner, const Variant& v, PolicyReport& report) {
  constexpr std::int64_t kCols = 64;
  const CastBox box = [&](std::span<const float> values) {
    std::vector<float> x(values.begin(), values.end());
    const std::int64_t rows = ceil_div(static_cast<std::int64_t>(x.size()), kCols);
    x.resize(static_cast<std::size_t>(rows * kCols));
    const std::int64_t each = rows_at_once(runner, v, 1, rows);
    std::vector<std::uint32_t> codes;
    for (std::int64_t first = 0; first < rows; first += each) {
      const std::int64_t count = std::min(each, rows - first);
      Posing p(runner, v, count, kCols);
      const std::vector<float> part(x.begin() + first * kCols, x.begin() + (first + count) * kCols);
      p.set(0, v.dtype, value_words(v.dtype, part), count, kCols);
      p.run();
      append(codes, p.words(0, count, kCols));
    }
    codes.resize(values.size());
    return codes;
  };
  report.match = identify_cast(blocks_of(v).format, box, {std::string(kCastRule), v.dtype});
}

void identify_routes(CandidateRunner& runner, const Variant& v, PolicyReport& report) {
  RouteSpace space{32, 4, v.dtype};
  if (const OperationInfo* limits = runner.operation(v.operation)) {
    space.experts = ceil_div(space.experts, limits->cols_multiple) * limits->cols_multiple;
  }
  const RouteBox box = [&](const RouteCall& call) {
    Posing p(runner, v, call.tokens, call.experts, [&](Case& c) { route_case(c).top_k = call.top_k; });
    p.set(0, v.dtype, value_words(v.dtype, call.logits), call.tokens, call.experts);
    p.run();
    RouteAnswer answer;
    for (std::uint32_t e : p.words(0, call.tokens, call.top_k)) answer.experts.push_back(static_cast<std::int32_t>(e));
    for (std::uint32_t w : p.words(1, call.tokens, call.top_k)) answer.weights.push_back(std::bit_cast<float>(w));
    return answer;
  };
  report.match = identify_router(space, box, route_of(v).router);
}

// Less is asked first: what is kept of several that differ in this alone.
std::int64_t preference(const Variant& v) {
  const std::int64_t type = v.dtype == Format::fp32 ? 0 : v.dtype == Format::bf16 ? 1 : 2;
  if (reads_logits(v)) return type * 2 + (route_of(v).nan_last ? 0 : 1);
  const BlockShape block = blocks_of(v).block;
  return (block.height(1) * block.width(64)) * 4 + type;
}

std::string group_of(const Variant& v) {
  if (reads_logits(v)) return v.operation + " " + route_of(v).router;
  return v.operation + " " + std::string(spec(blocks_of(v).format).name) + " " + blocks_of(v).recipe;
}

bool has_options(const Variant& v) {
  if (is_matmul(v.operation)) return matmul_of(v).groups != MXCHECK_DENSE;
  if (reads_logits(v)) return route_of(v).bias || route_of(v).limited;
  return blocks_of(v).layout != MXCHECK_COMPACT || spec(blocks_of(v).format).bits > 8;
}

}  // namespace

std::vector<std::string> operations_of(const std::string& op) {
  const std::vector<std::string> blocks{"quantize", "quantize_transposed"};
  if (op.empty()) return {"matmul", "quantize", "quantize_transposed", "cast", "route"};
  if (op == "quantize" || op == "scale") return blocks;
  if (op == "matmul" || op == "cast" || op == "route") return {op};
  return {};
}

std::vector<Variant> asked_of(const LibraryQuestion& question, const std::vector<Variant>& offered) {
  std::vector<Variant> asked;
  std::map<std::string, std::size_t> chosen;
  const std::vector<std::string> wanted = operations_of(question.op);
  for (const Variant& v : offered) {
    const std::string name(operation_named(v.operation).name());
    if (std::ranges::find(wanted, name) == wanted.end() || has_options(v)) continue;
    if (to_text(v).find(question.only) == std::string::npos) continue;
    if (is_matmul(v.operation)) {
      asked.push_back(v);
      continue;
    }
    const auto [at, is_new] = chosen.try_emplace(group_of(v), asked.size());
    if (is_new) {
      asked.push_back(v);
    } else if (preference(v) < preference(asked[at->second])) {
      asked[at->second] = v;
    }
  }
  return asked;
}

PolicyReport identify_policy(CandidateRunner& runner, const Variant& v, const LibraryQuestion& question) {
  PolicyReport report{std::string(operation_named(v.operation).name()), to_text(v)};
  try {
    if (is_matmul(v.operation)) {
      identify_matmul(runner, v, question, report);
    } else if (is(v, "cast")) {
      identify_casts(runner, v, report);
    } else if (is(v, "route")) {
      identify_routes(runner, v, report);
    } else {
      identify_blocks(runner, v, question, report);
    }
  } catch (const CallFailed& failed) {
    report.ended = failed.ended;
    report.trouble = failed.what;
  }
  return report;
}

}  // namespace mxcheck
