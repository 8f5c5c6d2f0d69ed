// Routers and token rounding: reference/router behind C.

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "bindings/formats.h"
#include "bindings/guard.h"
#include "bindings/mxcheck_c.h"
#include "reference/router/token_rounding.h"

namespace mxcheck::c {
namespace {

struct Request {
  Router router;
  MatrixView logits;
  int threads = 0;
};

NanLogits nan_of(std::string_view name) {
  if (name == "refuse") return NanLogits::refuse;
  if (name == "last") return NanLogits::last;
  refuse("nan is '" + std::string(name) + "': refuse and last are offered");
}

Request request_of(const mxcheck_c_router* given) {
  const auto& r = struct_of(given, "router");
  Request request;
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
void copy(const std::vector<T>& from, void* to, const char* name) {
  check_pointer(to, static_cast<std::int64_t>(from.size()), name);
  if (!from.empty()) std::memcpy(to, from.data(), from.size() * sizeof(T));
}

}  // namespace
}  // namespace mxcheck::c

using namespace mxcheck;
using namespace mxcheck::c;

int32_t mxcheck_c_route(const mxcheck_c_router* router, void* chosen, void* weights) {
  return guarded([&] {
    const Request r = request_of(router);
    const Routes routes = route(r.router, r.logits, r.threads);
    check_pointer(weights, static_cast<std::int64_t>(routes.weights.size()), "weights");
    copy(routes.experts, chosen, "chosen");
    copy(routes.weights, weights, "weights");
  });
}

int32_t mxcheck_c_round_capacity(const mxcheck_c_router* router, const mxcheck_c_rounding* rounding, int64_t* rows) {
  return guarded([&] {
    check_pointer(rows, 1, "rows");
    const Request r = request_of(router);
    *rows = token_rounding_capacity(r.router, rounding_of(rounding), r.logits.rows, r.logits.cols);
  });
}

int32_t mxcheck_c_round(const mxcheck_c_router* router, const mxcheck_c_rounding* rounding, void* chosen, void* offsets,
                        void* row_token, void* row_weight, void* token_offsets, void* token_rows) {
  return guarded([&] {
    const Request r = request_of(router);
    const RoundedTokens rows = round_tokens(r.router, rounding_of(rounding), r.logits, r.threads);
    // All before the first is written.
    const auto capacity = static_cast<std::int64_t>(rows.row_token.size());
    for (const void* out : {row_token, row_weight, token_rows}) check_pointer(out, capacity, "an output");
    for (const void* out : {chosen, offsets, token_offsets}) check_pointer(out, 1, "an output");
    copy(rows.chosen, chosen, "chosen");
    copy(rows.offsets, offsets, "offsets");
    copy(rows.row_token, row_token, "row_token");
    copy(rows.row_weight, row_weight, "row_weight");
    copy(rows.token_offsets, token_offsets, "token_offsets");
    copy(rows.token_rows, token_rows, "token_rows");
  });
}
