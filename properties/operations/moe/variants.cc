// The variants of whole layers, and the cases that no call can pose.

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "numerics/error.h"
#include "properties/operations/moe/operation.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 20;
constexpr std::int64_t kMostWidth = std::int64_t{1} << 20;
constexpr std::int64_t kMostRows = std::int64_t{1} << 30;  // routed, and slots, which are int32

void require(bool holds, const char* what) {
  if (!holds) throw Error(ErrorKind::usage, std::string("a case of a layer: ") + what);
}

std::int64_t ceil_of(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::vector<Variant> askable_layers(const std::string& operation) {
  std::vector<Variant> all;
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    for (const int gate_up : {MXCHECK_HALVES, MXCHECK_INTERLEAVED}) {
      Variant v{operation};
      moe_of(v).recipe = recipe.name, moe_of(v).gate_up = gate_up;
      all.push_back(std::move(v));
    }
  }
  return all;
}

void check_moe(const Case& c) {
  const MoeCase& own = moe_case(c);
  require(c.variant.dtype == Format::bf16, "x is bf16");
  require(c.stride == 0 && c.gather == 0 && c.plants.empty(), "there are neither strides nor gathered rows nor plants");
  require(c.rows >= 0 && c.rows <= kMostTokens, "rows, the tokens, are 0 to 2^20");
  require(c.cols >= 1 && c.cols <= kMostWidth && own.inner >= 1 && own.inner <= kMostWidth,
          "cols and inner are 1 to 2^20");
  require(c.experts.size() >= 2, "experts are the offsets of the rows of one expert or more");
  require(moe_experts(c) <= kMostWidth && moe_experts(c) * c.cols <= kMostRows / own.inner,
          "an operand has at most 2^30 elements");
  require(c.experts.front() == 0 && moe_routed(c) <= kMostRows, "experts are offsets from 0 to at most 2^30 rows");
  for (std::size_t e = 0; e + 1 < c.experts.size(); ++e) {
    const std::int64_t size = c.experts[e + 1] - c.experts[e];
    require(size >= 0 && size <= c.rows, "an expert has at most a row of each token");
  }
  require(own.k >= 0 && (c.rows == 0 || own.k <= kMostRows / c.rows), "k is 0 or more, and slots at most 2^30");
  require(own.k == 0 || moe_routed(c) <= own.k * c.rows, "k slots of each token are as many as there are rows");
  require(own.drops >= 0 && own.drops <= 100, "drops is a percentage");
  require(own.k == 0 || own.drops == 0, "with k the slots that no row fills are the dropped ones");
}

void fit_moe(Case& c) {
  if (c.experts.size() < 2) return;
  std::int64_t end = 0;
  std::vector<std::int64_t> fitted{0};
  for (std::size_t e = 0; e + 1 < c.experts.size(); ++e) {
    end += std::clamp<std::int64_t>(c.experts[e + 1] - c.experts[e], 0, c.rows);
    fitted.push_back(end);
  }
  c.experts = std::move(fitted);
  const std::int64_t k = std::as_const(c).own.get<MoeCase>().k;
  if (k > 0 && c.rows > 0 && moe_routed(c) > k * c.rows) moe_case(c).k = ceil_of(moe_routed(c), c.rows);
}

Case moe_corner(const Variant& v, std::int64_t tokens, std::int64_t cols, std::int64_t inner,
                const std::vector<std::int64_t>& sizes, std::int64_t k, Data data, std::uint64_t seed) {
  Case c;
  c.variant = v;
  c.rows = tokens, c.cols = cols, c.data = data, c.seed = seed;
  c.experts.assign(sizes.size() + 1, 0);
  std::partial_sum(sizes.begin(), sizes.end(), c.experts.begin() + 1);
  moe_case(c).inner = inner, moe_case(c).k = k;
  if (k == 0) moe_case(c).drops = 20;
  return c;
}

// Products of three GEMMs, or of nine with those of the forward pass that makes what was kept.
std::int64_t moe_work(const Case& c) {
  const std::int64_t matrix = c.cols * moe_case(c).inner;
  const std::int64_t passes = is_moe_backward(c.variant) ? 3 : 1;
  return passes * (3 * moe_routed(c) * matrix + kMoeWorkOfWeight * moe_experts(c) * matrix + 4 * c.rows * c.cols);
}

}  // namespace mxcheck
