// Blocks: reference/quantize behind C, and the SIMD library where it offers the same.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "bindings/at_speed.h"
#include "bindings/guard.h"
#include "bindings/mxcheck_c.h"
#include "numerics/bytes.h"
#include "reference/matmul/matmul.h"
#include "reference/quantize/scale_layout.h"
#include "reference/router/token_rounding.h"

namespace mxcheck::c {
namespace {

struct Request {
  Format format = Format::e4m3;
  BlockShape block;
  ScaleLayout layout = ScaleLayout::compact;
  bool fp32_scales = false;
  std::span<const std::int64_t> offsets;
};

void check(const Request& r, std::int64_t rows, std::int64_t cols) {
  if (rows < 0 || cols < 0) refuse("rows and cols must be 0 or more");
  if (cols != 0 && rows > std::numeric_limits<std::int64_t>::max() / 16 / cols) {
    refuse(std::to_string(rows) + " x " + std::to_string(cols) + " elements are more than 63 bits can count");
  }
  check_offsets(r.offsets, rows);
  if (r.layout == ScaleLayout::compact) return;
  if (r.fp32_scales) refuse("FP32 scales have layout compact alone");
  if (!has_layout(r.layout, r.block)) {
    refuse("layout " + std::string(to_text(r.layout)) + " is of blocks of one row or one column, not of " +
           to_text(r.block));
  }
}

Request request_of(const char* format, const char* block, const char* layout, bool fp32_scales,
                   std::span<const std::int64_t> offsets) {
  return {element_of(text_of(format, "format")), block_shape_named(text_of(block, "block")),
          entry_named(kScaleLayouts, "layout", text_of(layout, "layout")).value, fp32_scales, offsets};
}

// Shapes of scales without codes.
QuantizedTensor shape_of(const Request& r, std::int64_t rows, std::int64_t cols) {
  const std::int64_t width = r.block.width(cols);
  const std::int64_t scale_cols = cols / width + (cols % width != 0 ? 1 : 0);
  const ScaleRule rule = r.fp32_scales ? ScaleRule::fp32 : ScaleRule::rceil;
  return {{"", r.format, {rows, cols}, {}},
          {{r.block,
            rule,
            {"", format_of_scales(rule), {count_scale_rows(rows, r.block.rows, r.offsets), scale_cols}, {}}}}};
}

std::int64_t scale_bytes(const Request& r, const QuantizedTensor& q) {
  if (r.fp32_scales) return q.scale_rows() * q.scale_cols() * 4;
  return layout_bytes(r.layout, scale_shape(q, r.offsets));
}

template <class T>
void copy(const std::vector<T>& from, void* to) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size() * sizeof(T));
}

template <class T>
void read(std::vector<T>& to, const void* from, std::int64_t count, const char* name) {
  check_pointer(from, count, name);
  to.resize(static_cast<std::size_t>(count));
  if (count != 0) std::memcpy(to.data(), from, to.size() * sizeof(T));
}

void quantize_to(const MatrixView& x, const Recipe& recipe, const Request& r, std::uint8_t pad, std::int32_t threads,
                 void* codes, void* scales) {
  check_pointer(codes, x.rows * x.cols, "codes");
  check(r, x.rows, x.cols);
  const QuantizedTensor q = quantize(x, r.format, r.block, recipe, r.offsets, threads);
  check_pointer(scales, scale_bytes(r, q), "scales");
  copy(q.codes.data, codes);
  if (r.fp32_scales) return copy(q.scales().data, scales);
  copy(to_layout(r.layout, scale_shape(q, r.offsets), q.scales().as<std::uint8_t>(), pad), scales);
}

QuantizedTensor quantized_of(const Request& r, const void* codes, const void* scales, std::int64_t rows,
                             std::int64_t cols) {
  check(r, rows, cols);
  QuantizedTensor q = shape_of(r, rows, cols);
  read(q.codes.data, codes, rows * cols * static_cast<std::int64_t>(size_of(r.format)), "codes");
  std::vector<std::byte>& bytes = q.scales().data;
  read(bytes, scales, scale_bytes(r, q), "scales");
  if (r.fp32_scales || r.layout == ScaleLayout::compact) return q;
  bytes = to_bytes(from_layout(r.layout, scale_shape(q, r.offsets), values_in<std::uint8_t>(bytes)));
  return q;
}

void* at(void* to, std::int64_t bytes, const char* name) {
  check_pointer(to, bytes, name);
  return to;
}

SimdBlocks blocks_of(const Request& r, std::uint8_t pad, std::int32_t threads) {
  return {r.format, r.block, r.layout, r.offsets, pad, threads};
}

// Where the SIMD library is to, and offers it.
bool quantize_at_speed(const MatrixView& x, const Recipe& recipe, const Request& r, std::uint8_t pad,
                       std::int32_t threads, Engine engine, void* codes, void* scales) {
  if (engine == Engine::reference) return false;
  if (!offers_simd(x.dtype, r.format, r.block, recipe)) {
    if (engine == Engine::simd) refuse_simd();
    return false;
  }
  check(r, x.rows, x.cols);
  const std::int64_t bytes = scale_bytes(r, shape_of(r, x.rows, x.cols));
  quantize_checked(x, blocks_of(r, pad, threads), recipe,
                   static_cast<std::uint8_t*>(at(codes, x.rows * x.cols, "codes")),
                   {static_cast<std::uint8_t*>(at(scales, bytes, "scales")), static_cast<std::size_t>(bytes)});
  return true;
}

bool dequantize_at_speed(const Request& r, std::int64_t rows, std::int64_t cols, std::int32_t threads, Engine engine,
                         const void* codes, const void* scales, Format type, void* values) {
  if (engine == Engine::reference) return false;
  if (r.fp32_scales || !offers_simd_values(type, r.format, r.block)) {
    if (engine == Engine::simd) refuse_simd();
    return false;
  }
  check(r, rows, cols);
  const std::int64_t bytes = scale_bytes(r, shape_of(r, rows, cols));
  check_pointer(codes, rows * cols, "codes");
  check_pointer(scales, bytes, "scales");
  dequantize_checked(static_cast<const std::uint8_t*>(codes),
                     {static_cast<const std::uint8_t*>(scales), static_cast<std::size_t>(bytes)}, rows, cols,
                     blocks_of(r, 0, threads), type, at(values, rows * cols, "values"));
  return true;
}

bool is_fp32(std::string_view scale_type) {
  if (scale_type == "fp32") return true;
  if (scale_type != "e8m0") refuse("there is no scale_type '" + std::string(scale_type) + "': e8m0 and fp32 are");
  return false;
}

}  // namespace
}  // namespace mxcheck::c

using namespace mxcheck;
using namespace mxcheck::c;

int32_t mxcheck_c_quantize_sizes(const char* format, const char* recipe, const char* block, const char* layout,
                                 int64_t rows, int64_t cols, const int64_t* offsets, int64_t offset_count,
                                 int64_t* sizes) {
  return guarded([&] {
    check_pointer(sizes, 4, "sizes");
    const bool fp32 = !recipe_named(text_of(recipe, "recipe")).has_e8m0_scales();
    const Request r = request_of(format, block, layout, fp32, offsets_of(offsets, offset_count));
    check(r, rows, cols);
    const QuantizedTensor q = shape_of(r, rows, cols);
    sizes[0] = rows * cols * (spec(r.format).bits > 8 ? 2 : 1);
    sizes[1] = scale_bytes(r, q);
    sizes[2] = q.scale_rows();
    sizes[3] = q.scale_cols();
  });
}

int32_t mxcheck_c_scale_layout(const char* block, const char* from, const char* to, int64_t rows, int64_t cols,
                               const int64_t* offsets, int64_t offset_count, uint8_t pad, const void* scales,
                               void* converted, int64_t* sizes) {
  return guarded([&] {
    check_pointer(sizes, 4, "sizes");
    Request r;
    r.block = block_of(text_of(block, "block"));
    r.offsets = offsets_of(offsets, offset_count);
    const ScaleLayout layouts[] = {entry_named(kScaleLayouts, "layout", text_of(from, "from")).value,
                                   entry_named(kScaleLayouts, "layout", text_of(to, "to")).value};
    std::int64_t bytes[2];
    for (int i = 0; i < 2; ++i) {
      r.layout = layouts[i];
      check(r, rows, cols);
      bytes[i] = scale_bytes(r, shape_of(r, rows, cols));
    }
    const QuantizedTensor q = shape_of(r, rows, cols);
    if (scales != nullptr || converted != nullptr) {
      check_pointer(converted, bytes[1], "converted");
      std::vector<std::uint8_t> given;
      read(given, scales, bytes[0], "scales");
      const ScaleShape shape = scale_shape(q, r.offsets);
      copy(to_layout(layouts[1], shape, from_layout(layouts[0], shape, given), pad), converted);
    }
    sizes[0] = bytes[0], sizes[1] = bytes[1], sizes[2] = q.scale_rows(), sizes[3] = q.scale_cols();
  });
}

int32_t mxcheck_c_quantize(const char* from, const void* values, int64_t rows, int64_t cols, int64_t row_stride,
                           const char* format, const char* recipe, const char* block, const char* layout,
                           const int64_t* offsets, int64_t offset_count, uint8_t pad, int32_t threads,
                           const char* engine, void* codes, void* scales) {
  return guarded([&] {
    const Engine by = engine_of(text_of(engine, "engine"));
    const Recipe of = recipe_named(text_of(recipe, "recipe"));
    const Request r = request_of(format, block, layout, !of.has_e8m0_scales(), offsets_of(offsets, offset_count));
    const MatrixView x{value_format_of(text_of(from, "from")), static_cast<const std::byte*>(values), rows, cols,
                       row_stride};
    check_matrix(x);
    threads_of(threads);
    if (quantize_at_speed(x, of, r, pad, threads, by, codes, scales)) return;
    quantize_to(x, of, r, pad, threads, codes, scales);
  });
}

int32_t mxcheck_c_dequantize(const char* format, const char* block, const char* layout, const char* scale_type,
                             const void* codes, const void* scales, int64_t rows, int64_t cols, const int64_t* offsets,
                             int64_t offset_count, int32_t threads, const char* engine, const char* to, void* values) {
  return guarded([&] {
    const Engine by = engine_of(text_of(engine, "engine"));
    const Request r = request_of(format, block, layout, is_fp32(text_of(scale_type, "scale_type")),
                                 offsets_of(offsets, offset_count));
    const Format type = value_format_of(text_of(to, "to"));
    if (type == Format::fp16) refuse("values are given as fp32 or bf16, not as fp16");
    threads_of(threads);
    if (dequantize_at_speed(r, rows, cols, threads, by, codes, scales, type, values)) return;
    const QuantizedTensor q = quantized_of(r, codes, scales, rows, cols);
    check_pointer(values, rows * cols, "values");
    if (type == Format::fp32) {
      copy(dequantize(q, r.offsets, threads), values);
    } else {
      copy(dequantize_bf16(q, r.offsets, threads), values);
    }
  });
}

// Products: reference/matmul behind C.

namespace mxcheck::c {
namespace {

constexpr std::int64_t kMostElements = std::numeric_limits<std::int64_t>::max() / 16;

void check_extents(const mxcheck_c_operand& x, const std::string& name) {
  if (x.rows < 0 || x.cols < 0) refuse(name + ": rows and cols must be 0 or more");
  if (x.cols != 0 && x.rows > kMostElements / x.cols) {
    refuse(name + ": " + std::to_string(x.rows) + " x " + std::to_string(x.cols) +
           " elements are more than 63 bits can count");
  }
}

// A code wider than its format would be read as another: of those that leave bits of a byte free.
void check_codes(const mxcheck_c_operand& x, int bits, const std::string& name) {
  if (bits >= 8) return;
  const auto* codes = static_cast<const std::uint8_t*>(x.codes);
  for (std::int64_t i = 0; i < x.rows * x.cols; ++i) {
    if (codes[i] >> bits == 0) continue;
    throw Error(ErrorKind::input, name + ": code " + std::to_string(codes[i]) + " at place " + std::to_string(i) +
                                      ": " + x.format + " codes are 0 to " + std::to_string((1 << bits) - 1) +
                                      ", one a byte");
  }
}

Format scale_format_of(std::string_view type) {
  if (type == "fp32") return Format::fp32;
  if (type == "e8m0") return Format::e8m0;
  if (type == "e4m3") return Format::e4m3;  // UE4M3
  refuse("there is no scale_type '" + std::string(type) + "': e8m0, e4m3 (UE4M3) and fp32 are");
}

MatmulOperand operand_of(const mxcheck_c_operand* given, const char* name) {
  const auto& x = struct_of(given, name);
  check_extents(x, name);
  check_pointer(x.codes, x.rows * x.cols, name);
  const bool transposed = x.transposed != 0;
  MatmulOperand m;
  m.format = format_of(text_of(x.format, "format"));
  m.codes = x.codes;
  m.rows = transposed ? x.cols : x.rows;
  m.depth = transposed ? x.rows : x.cols;
  m.row_stride = transposed ? 1 : x.cols;
  m.depth_stride = transposed ? x.cols : 1;
  check_codes(x, spec(m.format).bits, name);
  if (text_of(x.block, "block") == "none") return m;
  const BlockShape shape = block_of(x.block);
  const BlockShape block{shape.height(x.rows), shape.width(x.cols)};
  const Format type = scale_format_of(text_of(x.scale_type, "scale_type"));
  check_pointer(x.scales, x.rows * x.cols, "scales");
  m.block = transposed ? block.transposed() : block;
  m.scale_format = type;
  m.scales = x.scales;
  m.scale_row_stride = transposed ? 1 : x.scale_cols;
  m.scale_depth_stride = transposed ? x.scale_cols : 1;
  return m;
}

Grouping grouping_of(std::string_view name) {
  if (name == "none") return Grouping::none;
  if (name == "rows") return Grouping::rows;
  if (name == "depth") return Grouping::depth;
  refuse("there are no groups '" + std::string(name) + "': none, rows and depth are");
}

void set_groups(Matmul& m, const mxcheck_c_product& p) {
  m.grouping = grouping_of(text_of(p.groups, "groups"));
  if (m.grouping == Grouping::none) return;
  m.offsets = offsets_of(p.offsets, p.offset_count);
  if (m.offsets.size() < 2) refuse("groups need offsets: where each expert begins, and the end");
  if (m.grouping == Grouping::depth) {
    if (p.a->transposed == 0 || p.b->transposed == 0) {
      refuse("groups along depth sum over tokens, the rows of both operands: both are transposed");
    }
    return;
  }
  if (p.a->transposed != 0 || p.b->transposed != 0 || m.b.rows % m.experts() != 0) {
    refuse("groups along rows: b holds the weights of " + std::to_string(m.experts()) +
           " experts, one below another, and neither operand is transposed");
  }
  m.b.rows /= m.experts();
}

Matmul matmul_of(const mxcheck_c_product* given) {
  const auto& p = struct_of(given, "product");
  Matmul m;
  m.contract = parse_matmul_contract(text_of(p.contract, "contract"));
  m.a = operand_of(p.a, "a");
  m.b = operand_of(p.b, "b");
  m.output = value_format_of(text_of(p.output, "output"));
  m.alpha = fp32_of(p.alpha, "alpha");
  m.c = p.c;
  m.threads = threads_of(p.threads);
  set_groups(m, p);
  return m;
}

}  // namespace
}  // namespace mxcheck::c

using namespace mxcheck;
using namespace mxcheck::c;

int32_t mxcheck_c_matmul(const mxcheck_c_product* product, void* d) {
  return guarded([&] {
    const Matmul m = matmul_of(product);
    const std::int64_t rows = m.rows_of_d();
    if (m.b.rows != 0 && rows > kMostElements / m.b.rows) refuse("d has more elements than 63 bits can count");
    check_pointer(d, rows * m.b.rows, "d");
    // Written only when all is computed.
    std::vector<std::byte> out(static_cast<std::size_t>(rows * m.b.rows * spec(m.output).bits / 8));
    matmul(m, out.data());
    if (!out.empty()) std::memcpy(d, out.data(), out.size());
  });
}

int32_t mxcheck_c_explain(const mxcheck_c_product* product, int64_t expert, int64_t i, int64_t j, char* text,
                          int64_t capacity, int64_t* size) {
  return guarded([&] {
    std::string lines;
    for (const std::string& line : explain_output(matmul_of(product), expert, i, j).lines) lines += line + '\n';
    give_text(lines, text, capacity, size);
  });
}

// Routers and token rounding: reference/router behind C.

namespace mxcheck::c {
namespace {

struct RouterRequest {
  Router router;
  MatrixView logits;
  int threads = 0;
};

NanLogits nan_of(std::string_view name) {
  if (name == "refuse") return NanLogits::refuse;
  if (name == "last") return NanLogits::last;
  refuse("nan is '" + std::string(name) + "': refuse and last are offered");
}

RouterRequest router_request_of(const mxcheck_c_router* given) {
  const auto& r = struct_of(given, "router");
  RouterRequest request;
  Router& router = request.router;
  router.variant = &router_variant_named(text_of(r.variant, "variant"));
  router.top_k = r.top_k;
  router.groups = r.groups, router.groups_kept = r.groups_kept;
  router.nan = nan_of(text_of(r.nan, "nan"));
  router.scale = fp32_of(r.scale, "scale");
  if (r.bias != nullptr) router.bias = {r.bias, static_cast<std::size_t>(check_count(r.experts, "experts"))};
  request.logits = {value_format_of(text_of(r.from, "from")), static_cast<const std::byte*>(r.logits), r.tokens,
                    r.experts, r.row_stride};
  check_matrix(request.logits);
  request.threads = threads_of(r.threads);
  return request;
}

TokenRounding rounding_of(const mxcheck_c_rounding* given) {
  const auto& r = struct_of(given, "rounding");
  if (r.layer < 0 || r.layer > std::numeric_limits<std::uint32_t>::max()) {
    refuse("layer is " + std::to_string(r.layer) + ": it must fit 32 bits without a sign");
  }
  TokenRounding rounding;
  rounding.rule = token_rounding_rule_named(text_of(r.rule, "rule"));
  rounding.tile = r.tile, rounding.capacity = r.capacity;
  rounding.renormalize = r.renormalize != 0;
  rounding.seed = r.seed, rounding.step = r.step;
  rounding.layer = static_cast<std::uint32_t>(r.layer);
  return rounding;
}

template <class T>
void router_copy(const std::vector<T>& from, void* to, const char* name) {
  check_pointer(to, static_cast<std::int64_t>(from.size()), name);
  if (!from.empty()) std::memcpy(to, from.data(), from.size() * sizeof(T));
}

}  // namespace
}  // namespace mxcheck::c

using namespace mxcheck;
using namespace mxcheck::c;

int32_t mxcheck_c_route(const mxcheck_c_router* router, void* chosen, void* weights) {
  return guarded([&] {
    const RouterRequest r = router_request_of(router);
    const Routes routes = route(r.router, r.logits, r.threads);
    check_pointer(weights, static_cast<std::int64_t>(routes.weights.size()), "weights");
    router_copy(routes.experts, chosen, "chosen");
    router_copy(routes.weights, weights, "weights");
  });
}

int32_t mxcheck_c_round_capacity(const mxcheck_c_router* router, const mxcheck_c_rounding* rounding, int64_t* rows) {
  return guarded([&] {
    check_pointer(rows, 1, "rows");
    const RouterRequest r = router_request_of(router);
    *rows = token_rounding_capacity(r.router, rounding_of(rounding), r.logits.rows, r.logits.cols);
  });
}

int32_t mxcheck_c_round(const mxcheck_c_router* router, const mxcheck_c_rounding* rounding, void* chosen, void* offsets,
                        void* row_token, void* row_weight, void* token_offsets, void* token_rows) {
  return guarded([&] {
    const RouterRequest r = router_request_of(router);
    const RoundedTokens rows = round_tokens(r.router, rounding_of(rounding), r.logits, r.threads);
    // All before the first is written.
    const auto capacity = static_cast<std::int64_t>(rows.row_token.size());
    for (const void* out : {row_token, row_weight, token_rows}) check_pointer(out, capacity, "an output");
    for (const void* out : {chosen, offsets, token_offsets}) check_pointer(out, 1, "an output");
    router_copy(rows.chosen, chosen, "chosen");
    router_copy(rows.offsets, offsets, "offsets");
    router_copy(rows.row_token, row_token, "row_token");
    router_copy(rows.row_weight, row_weight, "row_weight");
    router_copy(rows.token_offsets, token_offsets, "token_offsets");
    router_copy(rows.token_rows, token_rows, "token_rows");
  });
}
