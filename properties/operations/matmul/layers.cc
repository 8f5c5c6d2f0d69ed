#include "properties/operations/matmul/layers.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "properties/core/domain/domain.h"
#include "properties/core/domain/usual_axes.h"
#include "properties/core/layers/layers.h"
#include "properties/operations/matmul/fields.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kElementWork = 8;  // as domain.cc counts
constexpr std::int64_t kFewExperts = 4;   // of a slice that has another extent whole
constexpr std::int64_t kMostRows = 512;
constexpr std::int64_t kBlock = 128;  // of k, and of groups' ends along it

const char* name_of(MatmulLayers::Whole whole) {
  switch (whole) {
    case MatmulLayers::Whole::m: return "m";
    case MatmulLayers::Whole::n: return "n";
    case MatmulLayers::Whole::k: return "k";
    case MatmulLayers::Whole::experts: return "experts";
  }
  return "";
}

std::int64_t value_of(const MatmulLayers::Use& use) {
  switch (use.whole) {
    case MatmulLayers::Whole::m: return use.m;
    case MatmulLayers::Whole::n: return use.n;
    case MatmulLayers::Whole::k: return use.k;
    case MatmulLayers::Whole::experts: return use.experts;
  }
  return 0;
}

std::int64_t down(std::int64_t extent, std::int64_t multiple) { return extent / multiple * multiple; }

// Whole blocks of k where there is room for one, else half or a quarter of one: the smallest that scales have.
std::int64_t slice_of_k(std::int64_t k, std::int64_t most) {
  const std::int64_t some = std::min(k, most);
  return some == k ? k : some >= kBlock ? down(some, kBlock) : down(some, 32);
}

// Offsets of `end` rows or units: one or two to an expert, drawn, and none to most.
std::vector<std::int64_t> sparse_offsets(std::int64_t experts, std::int64_t end, std::int64_t unit, Draw& draw) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(experts));
  for (std::int64_t left = end; left > 0;) {
    const std::int64_t some = std::min(left, unit * draw.between(1, 2));
    sizes[draw.below(sizes.size())] += some, left -= some;
  }
  std::vector<std::int64_t> offsets{0};
  for (const std::int64_t size : sizes) offsets.push_back(offsets.back() + size);
  return offsets;
}

}  // namespace

MatmulLayers::MatmulLayers(const OperationInfo& limits) : limits_(limits) {
  for (const ProductionLayer& layer : production_layers()) {
    Use use{layer.model};
    use.experts = layer.experts;
    use.n = 2 * layer.n, use.k = layer.d;
    add(use, "up", {Whole::k, Whole::n, Whole::experts});
    use.n = layer.d, use.k = layer.n;
    add(use, "down", {Whole::k, Whole::n});
    use.gradient = true, use.k = 0;
    use.m = layer.d, use.n = 2 * layer.n;
    add(use, "gradient of up", {Whole::m, Whole::n, Whole::experts});
    use.m = layer.n, use.n = layer.d;
    add(use, "gradient of down", {Whole::m, Whole::n});
  }
}

bool MatmulLayers::fits(const Use& use) const {
  if (use.whole == Whole::n)
    return use.n % limits_.cols_multiple == 0 && (limits_.max_cols == 0 || use.n <= limits_.max_cols);
  if (use.whole == Whole::m)
    return use.m % limits_.rows_multiple == 0 && (limits_.max_rows == 0 || use.m <= limits_.max_rows);
  return true;
}

void MatmulLayers::add(Use use, const char* product, const std::vector<Whole>& wholes) {
  for (const Whole whole : wholes) {
    use.whole = whole;
    use.text = fmt::format("{}, {} = {}", product, name_of(whole), value_of(use));
    if (fits(use)) uses_.push_back(use);
  }
}

bool MatmulLayers::is(const Use& use, const Case& c) const {
  const int groups = matmul_of(c.variant).groups;
  if ((groups == MXCHECK_DEPTH) != use.gradient || c.rows < 1 || c.cols < 1 || matmul_case(c).depth < 1) return false;
  switch (use.whole) {
    case Whole::m: return c.rows == use.m;
    case Whole::n: return c.cols == use.n;
    case Whole::k: return matmul_case(c).depth == use.k;
    case Whole::experts: return static_cast<std::int64_t>(c.experts.size()) - 1 == use.experts;
  }
  return false;
}

// n and k; elements: of all matrices B together.
bool MatmulLayers::slice_product(const Use& use, std::int64_t elements, std::int64_t experts, Case& c) const {
  const std::int64_t each = elements / std::max<std::int64_t>(1, experts);  // a matrix B
  std::int64_t& k = matmul_case(c).depth;
  if (use.whole == Whole::k) {
    k = use.k, c.cols = down(std::min(use.n, each / k), limits_.cols_multiple);
  } else if (use.whole == Whole::n) {
    c.cols = use.n, k = slice_of_k(use.k, each / c.cols);
  } else {
    for (k = kBlock; k > 32 && each / k < std::max<std::int64_t>(8, limits_.cols_multiple);) k /= 2;
    c.cols = down(std::min(use.n, each / k), limits_.cols_multiple);
  }
  return k >= 1 && c.cols >= 1;
}

// m and n of outputs that every expert has; elements: of all outputs together.
bool MatmulLayers::slice_gradient(const Use& use, std::int64_t elements, std::int64_t experts, Case& c) const {
  const std::int64_t each = std::min(elements / std::max<std::int64_t>(1, experts),  // an output D
                                     elements * kElementWork / matmul_case(c).depth);
  if (use.whole == Whole::m) {
    c.rows = use.m, c.cols = down(std::min(use.n, each / use.m), limits_.cols_multiple);
  } else if (use.whole == Whole::n) {
    c.cols = use.n, c.rows = down(std::min(use.m, each / use.n), limits_.rows_multiple);
  } else {
    const std::int64_t least = std::max<std::int64_t>(16, limits_.rows_multiple);
    c.rows = down(std::min({use.m, least, each}), limits_.rows_multiple);
    c.cols = c.rows < 1 ? 0 : down(std::min(use.n, each / c.rows), limits_.cols_multiple);
  }
  return c.rows >= 1 && c.cols >= 1;
}

std::optional<Case> MatmulLayers::at(const Use& use, Case drawn, std::int64_t most, Draw& draw) const {
  const int groups = matmul_of(std::as_const(drawn).variant).groups;
  const bool grouped = groups != MXCHECK_DENSE;
  if ((groups == MXCHECK_DEPTH) != use.gradient || (use.whole == Whole::experts && !grouped)) return std::nullopt;
  const std::int64_t elements = most / kElementWork / 2;
  const int index = static_cast<int>(UsualAxes::index_kind(drawn));
  drawn.gather = 0;
  if (use.gradient) matmul_case(drawn).depth = kBlock * draw.between(1, 2);
  bool sliced = false;
  for (std::int64_t experts : {use.experts, std::min(use.experts, kFewExperts), std::int64_t{1}}) {
    // Of a slice with another extent whole few experts leave more of that extent's partner.
    if (sliced || (use.whole != Whole::experts && experts > kFewExperts)) continue;
    sliced =
        use.gradient ? slice_gradient(use, elements, experts, drawn) : slice_product(use, elements, experts, drawn);
    if (sliced && grouped) drawn.experts.assign(static_cast<std::size_t>(experts) + 1, 0);
    if (use.whole == Whole::experts) break;
  }
  if (!sliced) return std::nullopt;
  const auto experts = static_cast<std::int64_t>(drawn.experts.size()) - 1;
  const std::int64_t depth = matmul_case(drawn).depth;
  if (use.gradient) {
    drawn.experts = sparse_offsets(experts, depth, kBlock, draw);
    return drawn;
  }
  const std::int64_t high = std::min({kMostRows, elements / 4 / depth, elements / 4 / drawn.cols,
                                      most / depth / drawn.cols, limits_.max_rows > 0 ? limits_.max_rows : kMostRows});
  const auto rows = draw_extent(1, high, limits_.rows_multiple, 64, draw);
  if (!rows) return std::nullopt;
  drawn.rows = *rows;
  if (grouped) drawn.experts = sparse_offsets(experts, drawn.rows, 1, draw);
  drawn.gather = UsualAxes::source_rows(index, drawn.rows, draw);
  return drawn;
}

}  // namespace mxcheck
