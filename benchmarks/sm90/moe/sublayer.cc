#include "benchmarks/sm90/moe/sublayer.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "numerics/bytes.h"
#include "properties/operations/moe/problem.h"

namespace mxcheck::bench {
namespace {

using Ids = std::vector<std::int64_t>;

Ids range(std::int64_t begin, std::int64_t end) {
  Ids ids(static_cast<std::size_t>(end - begin));
  std::iota(ids.begin(), ids.end(), begin);
  return ids;
}

void sort_once(Ids& ids) {
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

std::int64_t place_of(const Ids& ids, std::int64_t id) { return std::ranges::lower_bound(ids, id) - ids.begin(); }
bool holds(const Ids& ids, std::int64_t id) { return std::ranges::binary_search(ids, id); }

Ids rows_of(const HostLayer& layer, Part part, const Ids& ids) {
  const LayerRoutes& r = layer.routes;
  if (part == Part::whole) return range(0, r.offsets.back());
  Ids rows;
  for (const std::int64_t id : ids) {
    const auto at = static_cast<std::size_t>(id);
    if (part == Part::experts) {
      for (std::int64_t row = r.offsets[at]; row < r.offsets[at + 1]; ++row) rows.push_back(row);
    } else {
      rows.insert(rows.end(), r.token_rows.begin() + r.token_offsets[at],
                  r.token_rows.begin() + r.token_offsets[at + 1]);
    }
  }
  sort_once(rows);
  std::erase(rows, -1);  // routes that were dropped
  return rows;
}

// Finds which of the layer's rows, tokens and experts there are, and the routes among them.
void find_routes(const HostLayer& layer, Sublayer& s) {
  const LayerRoutes& r = layer.routes;
  for (const std::int64_t row : s.rows) s.tokens.push_back(r.row_token[static_cast<std::size_t>(row)]);
  sort_once(s.tokens);
  s.routes.offsets.push_back(0);
  for (std::int64_t e = 0; e < layer.shape.experts; ++e) {
    const std::int64_t begin = place_of(s.rows, r.offsets[static_cast<std::size_t>(e)]);
    const std::int64_t end = place_of(s.rows, r.offsets[static_cast<std::size_t>(e) + 1]);
    if (begin == end && s.part != Part::whole) continue;
    s.experts.push_back(e);
    s.routes.offsets.push_back(end);
  }
  for (const std::int64_t row : s.rows) {
    const auto at = static_cast<std::size_t>(row);
    s.routes.row_token.push_back(static_cast<std::int32_t>(place_of(s.tokens, r.row_token[at])));
    s.routes.row_weight.push_back(r.row_weight[at]);
  }
  s.routes.token_offsets.push_back(0);
  for (const std::int64_t token : s.tokens) {
    const auto at = static_cast<std::size_t>(token);
    for (std::int64_t slot = r.token_offsets[at]; slot < r.token_offsets[at + 1]; ++slot) {
      const std::int64_t row = r.token_rows[static_cast<std::size_t>(slot)];
      if (holds(s.rows, row)) s.routes.token_rows.push_back(static_cast<std::int32_t>(place_of(s.rows, row)));
    }
    s.routes.token_offsets.push_back(std::ssize(s.routes.token_rows));
  }
}

std::vector<std::uint16_t> taken(const std::vector<std::uint16_t>& from, const Ids& ids, std::int64_t each) {
  std::vector<std::uint16_t> out;
  out.reserve(ids.size() * static_cast<std::size_t>(each));
  for (const std::int64_t id : ids) out.insert(out.end(), from.begin() + id * each, from.begin() + (id + 1) * each);
  return out;
}

}  // namespace

Sublayer sublayer_of(const HostLayer& layer, Part part, const Ids& ids) {
  const MoeShape& shape = layer.shape;
  Sublayer s;
  s.part = part;
  s.rows = rows_of(layer, part, ids);
  find_routes(layer, s);
  s.shape = {std::ssize(s.tokens), shape.width, shape.inner, std::ssize(s.experts)};
  s.x = taken(layer.x, s.tokens, shape.width);
  s.d_o = taken(layer.d_o, s.tokens, shape.width);
  s.w1 = taken(layer.w1, s.experts, 2 * shape.width * shape.inner);
  s.w2 = taken(layer.w2, s.experts, shape.width * shape.inner);
  return s;
}

std::vector<std::int64_t> experts_to_check(const LayerRoutes& routes, std::int64_t count) {
  std::vector<std::int64_t> ids;
  const auto rows = [&](std::int64_t e) {
    const auto at = static_cast<std::size_t>(e);
    return routes.offsets[at + 1] - routes.offsets[at];
  };
  for (std::int64_t e = 0; e + 1 < std::ssize(routes.offsets); ++e) {
    if (rows(e) > 0) ids.push_back(e);
  }
  if (std::ssize(ids) <= count) return ids;
  std::ranges::stable_sort(ids, [&](std::int64_t a, std::int64_t b) { return rows(a) > rows(b); });
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 0; i < count; ++i) {
    // The most, the least, then what lies between them.
    const std::int64_t all = std::ssize(ids);
    const std::int64_t at = i == 0 ? 0 : i == 1 ? all - 1 : (i - 1) * all / count;
    chosen.push_back(ids[static_cast<std::size_t>(at)]);
  }
  std::ranges::sort(chosen);
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

// --- the reference
//
// expected_rows: the reference of a part of a layer, cut into what the part says of the whole.

namespace {

// An operand that has one scale of all its numbers, or random words by the number of a row, which a part does not know.
bool needs_whole_tensors(const LayerRecipe& recipe) {
  return is_stochastic(recipe) || std::ranges::any_of(recipe.gemms, [](const GemmRule& g) {
           return has_scale_of_tensor(g.a) || has_scale_of_tensor(g.b);
         });
}

// Blocks along d or n that several tokens of an expert share.
bool shares_rows(const OperandRule& rule) { return rule.quantized() && rule.block.rows != 1; }

// The form in which a tensor is kept is added: BF16, or codes and scales. Packed codes have the tensor's own name.
void add_kept(std::vector<KeptTensor> kept, const std::string& name, const std::vector<std::int64_t>& rows,
              std::vector<ExpectedRows>& to) {
  for (KeptTensor& t : kept) {
    to.push_back({t.info.name.ends_with(" packed codes") ? name : t.info.name, rows, std::move(t.bytes)});
  }
}

// Rows of weights: `each` of them an expert.
std::vector<std::int64_t> weight_rows(const std::vector<std::int64_t>& experts, std::int64_t each) {
  std::vector<std::int64_t> rows;
  for (const std::int64_t e : experts) {
    for (std::int64_t i = 0; i < each; ++i) rows.push_back(e * each + i);
  }
  return rows;
}

}  // namespace

std::vector<ExpectedRows> expected_rows(const Sublayer& s, GateUp gate_up, const LayerRecipe& recipe) {
  std::vector<ExpectedRows> out;
  if (s.rows.empty() || (s.part != Part::whole && needs_whole_tensors(recipe))) return out;
  const bool all_of_token = s.part != Part::experts;
  const bool all_of_expert = s.part != Part::tokens;
  const bool rows_alone =
      !shares_rows(recipe.gemm(LayerGemm::d_down).a) && !shares_rows(recipe.gemm(LayerGemm::d_up).a);
  const Layer layer{s.shape, &recipe, gate_up, s.w1, s.w2};

  LayerForward f = layer_forward(layer, s.x, s.routes);
  const LayerKept kept = std::move(f.kept);
  add_kept(kept_tensors("h", recipe.kept_h, kept.h), "h", s.rows, out);
  if (recipe.keeps_quantized_x) add_kept(kept_tensors("x", kept_x_rule(recipe), kept.x), "x", s.tokens, out);
  if (all_of_token) out.push_back({"o", s.tokens, to_bytes(f.o)});
  f = {};  // the backward pass of a whole layer needs the memory
  if (!all_of_expert && !rows_alone) return out;

  const LayerBackward b = layer_backward(layer, kept, s.d_o, s.routes);
  out.push_back({"ds", s.rows, to_bytes(b.ds)});
  if (all_of_token) out.push_back({"dx", s.tokens, to_bytes(b.dx)});
  if (all_of_expert) {
    out.push_back({"dw1", weight_rows(s.experts, s.shape.width), to_bytes(b.dw1)});
    out.push_back({"dw2", weight_rows(s.experts, s.shape.inner), to_bytes(b.dw2)});
  }
  return out;
}

}  // namespace mxcheck::bench
