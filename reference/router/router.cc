// Token choice as docs/router.md defines it: keys, the first of them in the order, their weights.

#include "reference/router/router.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "numerics/elementary/elementary.h"
#include "numerics/error.h"
#include "numerics/names.h"
#include "reference/common/checked_size.h"
#include "reference/common/parallel.h"
#include "reference/router/metadata.h"
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

// Scores of single logits and of rows, and the weights of those that are kept.

namespace router_parts {
namespace {

constexpr float kTiny = 1e-20F;

// The largest that is no NaN; NaN where there is none.
float largest_of(std::span<const float> values) {
  float largest = std::numeric_limits<float>::quiet_NaN();
  for (const float x : values) {
    if (!(x <= largest) && !std::isnan(x)) largest = x;
  }
  return largest;
}

// exp(x - m): 1 where x is m, infinities included, +0 for NaN and where there is no m.
void exponentials(std::span<const float> values, float largest, std::span<float> terms) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float x = values[i];
    terms[i] = x == largest ? 1.0F : std::isnan(x) ? 0.0F : exp_rn(x - largest);
  }
}

void divide(std::span<float> values, float divisor) {
  for (float& v : values) v /= divisor;
}

float softmax_of_kept(std::span<const float> kept, std::span<float> weights) {
  const float largest = largest_of(kept);
  exponentials(kept, largest, weights);
  float sum = 0;
  for (const float w : weights) sum += w;
  if (!std::isnan(largest)) divide(weights, sum);
  return 1;
}

}  // namespace

float sigmoid(float x) {
  const float e = exp_rn(-std::fabs(x));
  return (x >= 0 ? 1.0F : e) / (1.0F + e);
}

float sqrtsoftplus(float x) { return std::sqrt(std::max(x, 0.0F) + log1p_rn(exp_rn(-std::fabs(x)))); }

void softmax(std::span<const float> values, std::span<float> scores, float* log_sum_exp) {
  const float largest = largest_of(values);
  exponentials(values, largest, scores);
  if (std::isnan(largest)) return;
  const float sum = pairwise_sum(scores);
  if (log_sum_exp != nullptr) *log_sum_exp = largest + log_rn(sum);
  divide(scores, sum);
}

void scores_of(RouterScore score, std::span<const float> values, std::span<float> scores) {
  if (score == RouterScore::logits || score == RouterScore::softmax) return softmax(values, scores);
  const auto function = score == RouterScore::sigmoid ? sigmoid : sqrtsoftplus;
  for (std::size_t i = 0; i < values.size(); ++i) scores[i] = std::isnan(values[i]) ? 0.0F : function(values[i]);
}

float kept_weights(const Router& router, std::span<const float> kept, std::span<float> weights) {
  RouterWeights rule = router.variant->weights;
  if (rule == RouterWeights::sum_plus_tiny && router.top_k == 1) rule = RouterWeights::raw;
  if (rule == RouterWeights::softmax_of_kept) return softmax_of_kept(kept, weights);
  std::copy(kept.begin(), kept.end(), weights.begin());
  if (rule == RouterWeights::raw) return 1;
  float sum = rule == RouterWeights::tiny_then_sum ? kTiny : 0.0F;
  for (const float score : kept) sum += score;
  if (rule == RouterWeights::sum_plus_tiny) sum += kTiny;
  if (sum == 0) {
    std::fill(weights.begin(), weights.end(), 0.0F);
  } else {
    divide(weights, sum);
  }
  return sum;
}

}  // namespace router_parts

std::vector<float> router_scores(const Router& router, const MatrixView& logits, int threads) {
  router_parts::check_router(router, logits);
  std::vector<float> scores;
  const std::int64_t elements = checked_product(logits.rows, logits.cols, "router scores");
  resize_or_throw(scores, elements, "router scores");
  parallel_ranges(logits.rows, elements, threads, [&](std::int64_t begin, std::int64_t end) {
    const auto experts = static_cast<std::size_t>(logits.cols);
    std::vector<float> values(experts);
    for (std::int64_t t = begin; t < end; ++t) {
      router_parts::read_logits(router, logits, t, values);
      const auto row = std::span(scores).subspan(static_cast<std::size_t>(t) * experts, experts);
      router_parts::scores_of(router.variant->score, values, row);
    }
  });
  return scores;
}

}  // namespace mxcheck

// The order of values as an order of integers, the first few of a row, and packed values.

namespace mxcheck::router_parts {
namespace {

constexpr std::size_t kFewEnoughToInsert = 32;

// Each key finds its place among the largest so far: most are below them all, and cost one comparison.
void insert_each(std::span<const std::uint64_t> keys, std::span<std::uint64_t> first) {
  std::fill(first.begin(), first.end(), 0);
  for (const std::uint64_t key : keys) {
    if (key <= first.back()) continue;
    std::size_t at = first.size() - 1;
    for (; at > 0 && first[at - 1] < key; --at) first[at] = first[at - 1];
    first[at] = key;
  }
}

}  // namespace

void first_in_order(std::span<const std::uint64_t> keys, std::span<std::uint64_t> first,
                    std::vector<std::uint64_t>& scratch) {
  if (first.empty()) return;
  if (first.size() <= kFewEnoughToInsert) return insert_each(keys, first);
  scratch.assign(keys.begin(), keys.end());
  const auto end = scratch.begin() + static_cast<std::ptrdiff_t>(first.size());
  if (end != scratch.end()) std::nth_element(scratch.begin(), end, scratch.end(), std::greater<>());
  std::sort(scratch.begin(), end, std::greater<>());
  std::copy(scratch.begin(), end, first.begin());
}

int packed_bits(std::int64_t experts) { return std::countr_zero(std::bit_ceil(static_cast<std::uint64_t>(experts))); }

float packed(float value, std::int64_t index, int bits) {
  const std::uint32_t mask = (1U << bits) - 1;
  const auto low = static_cast<std::uint32_t>(value >= 0 ? ~index : index) & mask;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) & ~mask) | low);
}

float cleared(float value, int bits) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & ~((1U << bits) - 1));
}

}  // namespace mxcheck::router_parts

// The variants by name, and whether a router fits its logits.

namespace mxcheck {
namespace {

constexpr std::array<RouterVariant, 9> kVariants{{
    {"topk-softmax", RouterScore::logits, RouterWeights::softmax_of_kept, false,
     "top-k of the logits, softmax over those kept (SonicMoE, lm-engine)"},
    {"topk-softmax-packed", RouterScore::logits, RouterWeights::softmax_of_kept, true,
     "the same with indices packed into the logits' low bits (SonicMoE's and QuACK's kernel)"},
    {"softmax-topk", RouterScore::softmax, RouterWeights::raw, false,
     "top-k of the softmax over all experts (lm-engine, MegaBlocks)"},
    {"softmax-topk-renorm", RouterScore::softmax, RouterWeights::sum, false,
     "the same, divided by the sum of the kept (MoMoE)"},
    {"sigmoid", RouterScore::sigmoid, RouterWeights::sum_plus_tiny, false,
     "sigmoid over the sum of the kept plus 1e-20 where top_k > 1 (Transformer Engine)"},
    {"sigmoid-raw", RouterScore::sigmoid, RouterWeights::raw, false, "sigmoid as it is"},
    {"sigmoid-tiny-first", RouterScore::sigmoid, RouterWeights::tiny_then_sum, false,
     "sigmoid over a sum of the kept that starts at 1e-20 (TileKernels)"},
    {"sqrtsoftplus", RouterScore::sqrtsoftplus, RouterWeights::sum_plus_tiny, false,
     "sqrt(softplus) over the sum of the kept plus 1e-20 where top_k > 1 (Transformer Engine)"},
    {"sqrtsoftplus-raw", RouterScore::sqrtsoftplus, RouterWeights::raw, false, "sqrt(softplus) as it is"},
}};

void check_groups(const Router& router, std::int64_t experts) {
  if (router.groups < 0) refuse_usage("groups " + std::to_string(router.groups) + ": must be 0 (none) or more");
  if (router.groups == 0) {
    if (router.groups_kept != 0) {
      refuse_usage("groups_kept " + std::to_string(router.groups_kept) + " without groups: must be 0");
    }
    return;
  }
  if (experts % router.groups != 0) {
    refuse_usage("groups " + std::to_string(router.groups) + ": must divide the " + std::to_string(experts) +
                 " experts");
  }
  if (router.groups_kept < 1 || router.groups_kept > router.groups) {
    refuse_usage("groups_kept " + std::to_string(router.groups_kept) + ": must be from 1 to the " +
                 std::to_string(router.groups) + " groups");
  }
  const std::int64_t within_reach = experts / router.groups * router.groups_kept;
  if (router.top_k > within_reach) {
    refuse_usage("top_k " + std::to_string(router.top_k) + ": must be at most the " + std::to_string(within_reach) +
                 " experts of " + std::to_string(router.groups_kept) + " groups");
  }
}

}  // namespace

std::span<const RouterVariant> all_router_variants() { return kVariants; }

const RouterVariant& router_variant_named(std::string_view name) { return entry_named(kVariants, "router", name); }

void check_bias(const Router& router, std::int64_t experts) {
  if (router.bias.empty()) return;
  if (static_cast<std::int64_t>(router.bias.size()) != experts) {
    refuse_usage("bias of " + std::to_string(router.bias.size()) + " values: must be one of each of the " +
                 std::to_string(experts) + " experts");
  }
  if (router.nan != NanLogits::refuse) return;
  for (std::size_t e = 0; e < router.bias.size(); ++e) {
    if (std::isnan(router.bias[e])) {
      throw Error(ErrorKind::input, "NaN in the bias of expert " + std::to_string(e) +
                                        ": this router takes none (nan=refuse); remove it, or let NaN come last");
    }
  }
}

namespace router_parts {

void check_router(const Router& router, const MatrixView& logits) {
  check_matrix(logits);
  if (router.variant == nullptr) refuse_usage("a router without a variant: must have one");
  const std::int64_t experts = logits.cols;
  if (experts > std::numeric_limits<std::int32_t>::max()) {
    refuse_usage(std::to_string(experts) + " experts: must be fewer than 2^31");
  }
  if (router.variant->packed && experts > std::int64_t{1} << 23) {
    refuse_usage(std::to_string(experts) + " experts: packed order has room for 2^23");
  }
  if (router.top_k < 1 || router.top_k > experts) {
    refuse_usage("top_k " + std::to_string(router.top_k) + ": must be from 1 to the " + std::to_string(experts) +
                 " experts");
  }
  check_groups(router, experts);
  check_bias(router, experts);
}

void read_logits(const Router& router, const MatrixView& logits, std::int64_t row, std::span<float> values) {
  logits.read_row(row, values);
  const bool no_infinities = router.variant->packed;
  if (router.nan != NanLogits::refuse && !no_infinities) return;
  bool sound = true;
  for (const float x : values) sound &= no_infinities ? std::isfinite(x) : !std::isnan(x);
  if (sound) return;
  std::size_t col = 0;
  while (no_infinities ? std::isfinite(values[col]) : !std::isnan(values[col])) ++col;
  const std::string where = (std::isnan(values[col]) ? "NaN" : "Inf") + (" at row " + std::to_string(row)) +
                            ", column " + std::to_string(col);
  throw Error(ErrorKind::input,
              where + (no_infinities ? ": packed order takes finite logits alone"
                                     : ": this router takes none (nan=refuse); remove it, or let NaN come last"));
}

}  // namespace router_parts

namespace {

[[noreturn]] void metadata_refuse(ErrorKind kind, const std::string& text) {
  throw Error(kind, "route metadata: " + text);
}

// Slots as tokens hold them: by offsets, or width a token.
void check_slots(std::int64_t slots, std::int64_t width, std::span<const std::int64_t> offsets) {
  if (offsets.empty()) {
    if (width < 1 || slots % width != 0) {
      metadata_refuse(ErrorKind::usage, std::to_string(slots) + " slots cannot be cut into " + std::to_string(width) +
                                            " a token; give a width that divides them, or token offsets");
    }
    return;
  }
  if (std::cmp_greater(offsets.size() - 1, router_parts::kMostRows)) {
    metadata_refuse(ErrorKind::usage, std::to_string(offsets.size() - 1) + " tokens are more than int32 counts");
  }
  if (offsets.front() != 0) {
    metadata_refuse(ErrorKind::input, "token offset 0 is " + std::to_string(offsets.front()) + ": must be 0");
  }
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] < offsets[i - 1]) {
      metadata_refuse(ErrorKind::input, "token offset " + std::to_string(i) + " is " + std::to_string(offsets[i]) +
                                            ": must be at least the one before, " + std::to_string(offsets[i - 1]));
    }
  }
  if (offsets.back() != slots) {
    metadata_refuse(ErrorKind::input, "last token offset (offset " + std::to_string(offsets.size() - 1) + ") is " +
                                          std::to_string(offsets.back()) + ": must be the number of slots, " +
                                          std::to_string(slots));
  }
}

void check_experts(std::span<const std::int32_t> slot_experts, std::int64_t experts) {
  for (std::size_t slot = 0; slot < slot_experts.size(); ++slot) {
    const std::int64_t e = slot_experts[slot];
    if (e < -1 || e >= experts) {
      metadata_refuse(ErrorKind::input, "slot " + std::to_string(slot) + " has expert " + std::to_string(e) +
                                            ": must be in [0, " + std::to_string(experts) +
                                            "), or -1 for a dropped route");
    }
  }
}

}  // namespace

std::int64_t metadata_capacity(std::int64_t slots, std::int64_t experts, std::int64_t tile) {
  if (slots < 0 || experts < 0 || tile < 1) {
    metadata_refuse(ErrorKind::usage, std::to_string(slots) + " slots, " + std::to_string(experts) + " experts, tile " +
                                          std::to_string(tile) + ": sizes must be 0 or more, the tile 1 or more");
  }
  const std::int64_t padding = checked_product(experts, tile - 1, "padding of experts to the tile");
  const std::int64_t capacity = checked_sum(slots, padding, "rows");
  if (capacity > router_parts::kMostRows) {
    metadata_refuse(ErrorKind::usage, std::to_string(capacity) + " rows (" + std::to_string(slots) + " slots, " +
                                          std::to_string(experts) + " experts, tile " + std::to_string(tile) +
                                          ") are more than int32 counts");
  }
  return capacity;
}

RouteMetadata route_metadata(std::span<const std::int32_t> slot_experts, std::int64_t width,
                             std::span<const std::int64_t> token_offsets, std::int64_t experts, std::int64_t tile) {
  const auto slots = static_cast<std::int64_t>(slot_experts.size());
  const std::int64_t capacity = metadata_capacity(slots, experts, tile);
  check_slots(slots, width, token_offsets);
  check_experts(slot_experts, experts);

  RouteMetadata m;
  resize_or_throw(m.counts, experts, "counts of experts");
  for (const std::int32_t e : slot_experts) {
    if (e >= 0) ++m.counts[static_cast<std::size_t>(e)];
  }
  resize_or_throw(m.offsets, experts + 1, "offsets of experts");
  for (std::size_t e = 0; e < m.counts.size(); ++e) {
    m.offsets[e + 1] = m.offsets[e] + ceil_div(m.counts[e], tile) * tile;
  }

  resize_or_throw(m.row_slot, capacity, "slots of rows", -1);
  resize_or_throw(m.row_token, capacity, "tokens of rows", -1);
  resize_or_throw(m.row_expert, capacity, "experts of rows", -1);
  resize_or_throw(m.slot_row, slots, "rows of slots", -1);
  std::vector<std::int64_t> next(m.offsets.begin(), m.offsets.end() - 1);  // slots ascend, so rows of an expert do
  std::size_t token = 0;
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    while (!token_offsets.empty() && token_offsets[token + 1] <= slot) ++token;
    const std::int32_t e = slot_experts[static_cast<std::size_t>(slot)];
    if (e < 0) continue;
    const std::int64_t row = next[static_cast<std::size_t>(e)]++;
    const auto r = static_cast<std::size_t>(row);
    m.row_slot[r] = static_cast<std::int32_t>(slot);
    m.row_token[r] = static_cast<std::int32_t>(token_offsets.empty() ? slot / width : static_cast<std::int64_t>(token));
    m.row_expert[r] = e;
    m.slot_row[static_cast<std::size_t>(slot)] = static_cast<std::int32_t>(row);
  }
  return m;
}

}  // namespace mxcheck
