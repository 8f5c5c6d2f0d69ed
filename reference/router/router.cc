// Token choice as docs/router.md defines it: keys, the first of them in the order, their weights.

#include "reference/router/router.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "numerics/error.h"
#include "reference/common/checked_size.h"
#include "reference/common/parallel.h"
#include "reference/router/parts.h"

namespace mxcheck {
namespace {

using namespace router_parts;

// Chooses for one row after the other; holds what is needed meanwhile.
class Chooser {
 public:
  Chooser(const Router& router, std::int64_t experts)
      : router_(router),
        bits_(router.variant->packed ? packed_bits(experts) : 0),
        values_(static_cast<std::size_t>(experts)),
        scores_(values_.size()),
        order_(values_.size()),
        first_(static_cast<std::size_t>(router.top_k)),
        kept_(first_.size()),
        group_order_(static_cast<std::size_t>(router.groups)),
        groups_(static_cast<std::size_t>(router.groups_kept)) {}

  std::span<float> logits() { return values_; }  // to be filled before

  void choose(std::int64_t row, std::span<std::int32_t> experts, std::span<float> weights) {
    set_keys(row);
    for (std::size_t e = 0; e < order_.size(); ++e) order_[e] = order_key(keys()[e], static_cast<std::int64_t>(e));
    if (router_.groups != 0) keep_groups();
    first_in_order(order_, first_, scratch_);
    const std::span<const float> weighed = router_.variant->score == RouterScore::logits ? values_ : scores_;
    for (std::size_t k = 0; k < first_.size(); ++k) {
      const std::int64_t e = index_of(first_[k]);
      experts[k] = static_cast<std::int32_t>(e);
      kept_[k] = cleared(weighed[static_cast<std::size_t>(e)], bits_);
    }
    kept_weights(router_, kept_, weights);
    for (float& w : weights) w *= router_.scale;
  }

 private:
  [[nodiscard]] std::span<const float> keys() const { return keys_.empty() ? values_ : keys_; }

  // keys_ stays empty where the logits are the keys. A NaN's score is +0, its key NaN.
  void set_keys(std::int64_t row) {
    const RouterVariant& variant = *router_.variant;
    const bool scored = variant.score != RouterScore::logits;
    if (scored) scores_of(variant.score, values_, scores_);
    if (!scored && router_.bias.empty() && !variant.packed) return;
    keys_ = scored ? scores_ : values_;
    for (std::size_t e = 0; e < keys_.size(); ++e) {
      if (std::isnan(values_[e])) keys_[e] = values_[e];
      if (!router_.bias.empty()) keys_[e] += router_.bias[e];
      if (!variant.packed) continue;
      if (!std::isfinite(keys_[e])) {
        throw Error(ErrorKind::input, "row " + std::to_string(row) + ", column " + std::to_string(e) +
                                          ": with its bias no finite number, and packed order takes those alone");
      }
      keys_[e] = packed(keys_[e], static_cast<std::int64_t>(e), bits_);
    }
  }

  // Keys of groups that are not kept become 0, which is below all others.
  void keep_groups() {
    const std::size_t length = order_.size() / group_order_.size();
    largest_.resize(static_cast<std::size_t>(std::max<std::int64_t>(1, router_.top_k / router_.groups_kept)));
    for (std::size_t g = 0; g < group_order_.size(); ++g) {
      first_in_order(std::span(order_).subspan(g * length, length), largest_, scratch_);
      float sum = summand(largest_.front());
      for (std::size_t i = 1; i < largest_.size(); ++i) sum += summand(largest_[i]);
      group_order_[g] = order_key(sum, static_cast<std::int64_t>(g));
    }
    first_in_order(group_order_, groups_, scratch_);
    std::vector<bool> kept(group_order_.size());
    for (const std::uint64_t group : groups_) kept[static_cast<std::size_t>(index_of(group))] = true;
    for (std::size_t e = 0; e < order_.size(); ++e) {
      if (!kept[e / length]) order_[e] = 0;
    }
  }

  [[nodiscard]] float summand(std::uint64_t order) const {
    const float key = keys()[static_cast<std::size_t>(index_of(order))];
    return std::isnan(key) ? -std::numeric_limits<float>::infinity() : key;
  }

  const Router& router_;
  int bits_;
  std::vector<float> values_, scores_, keys_;
  std::vector<std::uint64_t> order_, first_;
  std::vector<float> kept_;
  std::vector<std::uint64_t> group_order_, groups_, largest_, scratch_;
};

}  // namespace

Routes route(const Router& router, const MatrixView& logits, int threads) {
  check_router(router, logits);
  Routes routes{logits.rows, router.top_k, {}, {}};
  const std::int64_t size = checked_product(logits.rows, router.top_k, "routes");
  resize_or_throw(routes.experts, size, "routes");
  resize_or_throw(routes.weights, size, "routes");
  const std::int64_t work = checked_product(logits.rows, logits.cols, "logits");
  parallel_ranges(logits.rows, work, threads, [&](std::int64_t begin, std::int64_t end) {
    Chooser chooser(router, logits.cols);
    const auto width = static_cast<std::size_t>(router.top_k);
    for (std::int64_t t = begin; t < end; ++t) {
      read_logits(router, logits, t, chooser.logits());
      const std::size_t at = static_cast<std::size_t>(t) * width;
      chooser.choose(t, std::span(routes.experts).subspan(at, width), std::span(routes.weights).subspan(at, width));
    }
  });
  return routes;
}

}  // namespace mxcheck
