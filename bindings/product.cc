// Products, routers and token rounding: reference/matmul and reference/router behind C.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/at_speed.h"
#include "bindings/guard.h"
#include "bindings/mxcheck_c.h"
#include "reference/common/matrix.h"
#include "reference/matmul/matmul.h"
#include "reference/router/token_rounding.h"

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
