// The variants by name, and whether a router fits its logits.

#include <array>
#include <cmath>
#include <limits>

#include "numerics/error.h"
#include "numerics/names.h"
#include "reference/router/parts.h"
#include "reference/router/router.h"

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

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorKind::usage, text); }

void check_groups(const Router& router, std::int64_t experts) {
  if (router.groups < 0) refuse("groups " + std::to_string(router.groups) + ": must be 0 (none) or more");
  if (router.groups == 0) {
    if (router.groups_kept != 0) {
      refuse("groups_kept " + std::to_string(router.groups_kept) + " without groups: must be 0");
    }
    return;
  }
  if (experts % router.groups != 0) {
    refuse("groups " + std::to_string(router.groups) + ": must divide the " + std::to_string(experts) + " experts");
  }
  if (router.groups_kept < 1 || router.groups_kept > router.groups) {
    refuse("groups_kept " + std::to_string(router.groups_kept) + ": must be from 1 to the " +
           std::to_string(router.groups) + " groups");
  }
  const std::int64_t within_reach = experts / router.groups * router.groups_kept;
  if (router.top_k > within_reach) {
    refuse("top_k " + std::to_string(router.top_k) + ": must be at most the " + std::to_string(within_reach) +
           " experts of " + std::to_string(router.groups_kept) + " groups");
  }
}

}  // namespace

std::span<const RouterVariant> all_router_variants() { return kVariants; }

const RouterVariant& router_variant_named(std::string_view name) { return entry_named(kVariants, "router", name); }

void check_bias(const Router& router, std::int64_t experts) {
  if (router.bias.empty()) return;
  if (static_cast<std::int64_t>(router.bias.size()) != experts) {
    refuse("bias of " + std::to_string(router.bias.size()) + " values: must be one of each of the " +
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
  if (router.variant == nullptr) refuse("a router without a variant: must have one");
  const std::int64_t experts = logits.cols;
  if (experts > std::numeric_limits<std::int32_t>::max()) {
    refuse(std::to_string(experts) + " experts: must be fewer than 2^31");
  }
  if (router.variant->packed && experts > std::int64_t{1} << 23) {
    refuse(std::to_string(experts) + " experts: packed order has room for 2^23");
  }
  if (router.top_k < 1 || router.top_k > experts) {
    refuse("top_k " + std::to_string(router.top_k) + ": must be from 1 to the " + std::to_string(experts) + " experts");
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
}  // namespace mxcheck
