#include "properties/identify/library/library.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/format/format.h"
#include "numerics/format/packing.h"
#include "properties/core/check.h"
#include "properties/core/limits.h"
#include "properties/core/operation.h"
#include "properties/identify/blocks.h"
#include "properties/identify/reveal.h"
#include "properties/identify/router.h"
#include "properties/operations/matmul/fields.h"
#include "properties/operations/router/fields.h"
#include "properties/operations/scaled_blocks/fields.h"
#include "reference/common/checked_size.h"
#include "reference/matmul/matmul.h"

namespace mxcheck {
namespace {

constexpr std::string_view kCastRule = "nearest_even, saturate";  // kernels/candidate.h

std::vector<std::uint32_t> two_a_byte(const std::vector<std::uint32_t>& codes, std::int64_t cols) {
  const std::vector<std::uint8_t> narrow(codes.begin(), codes.end());
  const std::vector<std::uint8_t> packed = values_in<std::uint8_t>(packed_rows(narrow, cols));
  return {packed.begin(), packed.end()};
}

void identify_matmul(CandidateRunner& runner, const Variant& v, const LibraryQuestion& question, PolicyReport& report) {
  const MatmulVariant& own = matmul_of(v);
  ProductSpace space{own.format, own.format_b, v.dtype, question.k};
  if (own.scales != MXCHECK_NO_SCALES) {
    space.scale_k = own.block.cols, space.a_scale_rows = own.block.rows, space.b_scale_rows = own.block_b.rows;
    space.scale_format = scale_format(own);
  }
  const ProductBox box = [&](const ProductCall& call) {
    Posing p(runner, v, call.m, call.n, [&](Case& c) { matmul_case(c).depth = call.k; });
    if (is_packed(own)) {
      p.set(0, Format::e2m1x2, two_a_byte(call.a, call.k), call.m, (call.k + 1) / 2);
      p.set(1, Format::e2m1x2, two_a_byte(call.b, call.k), call.n, (call.k + 1) / 2);
    } else {
      p.set(0, call.a_format, call.a, call.m, call.k);
      p.set(1, call.b_format, call.b, call.n, call.k);
    }
    if (call.scale_k != 0) {
      const std::int64_t blocks = ceil_div(call.k, call.scale_k);
      const std::uint32_t one = encode(call.scale_format, 1, Rounding::nearest_even, Overflow::saturate);
      p.set(2, call.scale_format, call.a_scales, ceil_div(call.m, call.a_scale_rows), blocks, one);
      p.set(3, call.scale_format, call.b_scales, ceil_div(call.n, call.b_scale_rows), blocks, one);
    }
    p.run();
    return p.words(0, call.m, call.n);
  };
  MatmulContract without_c = parse_matmul_contract(contract_text(v.operation));
  without_c.from_c = false;  // no probe has a C
  const std::string declared = to_text(without_c);
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
  const std::optional<IdentifiedAs> as = operation_named(v.operation).identified_as(v);
  const bool turned = as && as->is_transposed;
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

QuantizeBox box_of(CandidateRunner& runner, const Variant& v) {
  return [&](const QuantizeCall& call) { return quantized(runner, v, call); };
}

void identify_blocks(CandidateRunner& runner, const Variant& v, const LibraryQuestion&, PolicyReport& report) {
  const ScaledBlocksVariant& own = blocks_of(v);
  const OperationInfo* limits = runner.operation(v.operation);
  const std::int64_t most_cols = limits == nullptr ? 0 : limits->max_cols;
  QuantizeMatch found =
      identify_quantize(own.format, own.block, box_of(runner, v), {own.recipe, v.dtype, {}, most_cols});
  report.match = std::move(found.match), report.scales = std::move(found.scales);
  report.elements = std::move(found.elements);
}

void identify_scales_alone(CandidateRunner& runner, const Variant& v, const LibraryQuestion&, PolicyReport& report) {
  const ScaledBlocksVariant& own = blocks_of(v);
  report.match = identify_scales(own.format, own.block, box_of(runner, v), {own.recipe, v.dtype});
}

void identify_casts(CandidateRunner& runner, const Variant& v, const LibraryQuestion&, PolicyReport& report) {
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

void identify_routes(CandidateRunner& runner, const Variant& v, const LibraryQuestion&, PolicyReport& report) {
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

}  // namespace

const std::vector<BoxKind>& box_kinds() {
  static const std::vector<BoxKind> kKinds{
      {"matmul", {"matmul"}, identify_matmul},
      {"quantize", {"quantize", "quantize_transposed"}, identify_blocks},
      {"cast", {"cast"}, identify_casts},
      {"scale", {"quantize", "quantize_transposed"}, identify_scales_alone, true},
      {"route", {"route"}, identify_routes},
  };
  return kKinds;
}

namespace {

std::size_t width_of(const CallTensor& t) {
  if (t.is_offsets) return 8;
  if (t.is_index) return 4;
  return spec(t.dtype).bits <= 8 ? 1 : spec(t.dtype).bits <= 16 ? 2 : 4;
}

std::int64_t raised(std::int64_t extent, std::int64_t multiple, std::int64_t limit, const char* what) {
  const std::int64_t raised = to_multiple(extent, multiple, limit);
  if (raised >= extent) return raised;
  throw CallFailed{false, "not probed: it takes at most " + std::to_string(limit) + " " + what +
                              ", and the inputs have " + std::to_string(extent)};
}

Case case_of(const CandidateRunner& runner, const Variant& variant, std::int64_t rows, std::int64_t cols,
             const std::function<void(Case&)>& edit) {
  Case c;
  c.variant = variant;
  c.rows = rows, c.cols = cols;
  if (const OperationInfo* limits = runner.operation(variant.operation)) {
    c.rows = raised(rows, limits->rows_multiple, limits->max_rows, "rows");
    c.cols = raised(cols, limits->cols_multiple, limits->max_cols, "columns");
  }
  if (edit) edit(c);
  return c;
}

}  // namespace

Posing::Posing(CandidateRunner& runner, const Variant& variant, std::int64_t rows, std::int64_t cols,
               const std::function<void(Case&)>& edit)
    : runner_(runner), problem_(make_problem(case_of(runner, variant, rows, cols, edit))), call_(problem_->call()) {}

void Posing::set(std::size_t input, Format type, const std::vector<std::uint32_t>& words, std::int64_t rows,
                 std::int64_t cols, std::uint32_t fill) {
  CallTensor& t = call_.inputs.at(input);
  const std::size_t width = width_of(t);
  const std::int64_t all_cols = t.shape.back();
  if (t.shape.size() != 2 || t.shape[0] < rows || all_cols < cols || t.bytes % width != 0 ||
      static_cast<std::int64_t>(words.size()) != rows * cols || (width > 1 && spec(type).bits > 8 && t.dtype != type)) {
    throw Error(ErrorKind::internal, "an input that does not fit its case");
  }
  std::vector<std::byte> bytes(t.bytes);
  for (std::int64_t i = 0; i < t.shape[0] * all_cols; ++i) {
    const std::int64_t row = i / all_cols;
    const std::int64_t col = i % all_cols;
    const bool inside = row < rows && col < cols;
    const std::uint32_t word = inside ? words[static_cast<std::size_t>(row * cols + col)] : fill;
    std::memcpy(bytes.data() + static_cast<std::size_t>(i) * width, &word, width);
  }
  t.data = call_.own(std::move(bytes));
}

void Posing::run() {
  CallVerdict ran = judged(runner_.run(call_), problem_->c);
  if (ran.finding) throw CallFailed{ran.finding->kind == FindingKind::fault, ran.finding->summary};
  if (!ran.outcome) throw CallFailed{false, "the candidate does not offer this call"};
  outputs_ = std::move(ran.outcome->outputs);
}

std::vector<std::uint32_t> Posing::words(std::size_t output, std::int64_t rows, std::int64_t cols) const {
  const CallTensor& t = call_.outputs.at(output);
  const std::size_t width = width_of(t);
  const std::int64_t all_cols = t.shape.back();
  const std::vector<std::byte>& bytes = outputs_.at(output);
  if (t.shape.size() != 2 || t.shape[0] < rows || all_cols < cols ||
      bytes.size() < static_cast<std::size_t>(t.shape[0] * all_cols) * width) {
    throw Error(ErrorKind::internal, "an output that does not fit its case");
  }
  std::vector<std::uint32_t> words;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < cols; ++col) {
      words.push_back(
          static_cast<std::uint32_t>(word_at(bytes, width, static_cast<std::size_t>(row * all_cols + col))));
    }
  }
  return words;
}

}  // namespace mxcheck
