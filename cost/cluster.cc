#include "cost/cluster.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "numerics/error.h"

namespace mxcheck {
namespace {

void check_spec(const ClusterSpec& spec, const LayerShape& shape) {
  if (spec.gpus < 1 || spec.gpus > kMostGpus)
    refuse_usage("GPUs: " + std::to_string(spec.gpus) + ": 1 to " + std::to_string(kMostGpus) + " can be estimated");
  if (spec.node < 1) refuse_usage("GPUs of a node: " + std::to_string(spec.node) + ": 1 or more are needed");
  if (spec.network && !(*spec.network > 0 && std::isfinite(*spec.network)))
    refuse_usage("network: a rate above 0 GB/s is needed");
  if (!spec.expert_parallel) return;
  const std::int64_t p = *spec.expert_parallel;
  if (p < 1 || spec.gpus % p != 0 || shape.experts % p != 0)
    refuse_usage("expert parallel: " + std::to_string(p) + " does not divide both " + std::to_string(spec.gpus) +
                 " GPUs and " + std::to_string(shape.experts) + " experts; " +
                 std::to_string(std::gcd(spec.gpus, shape.experts)) + " does");
}

// How far a token's copies travel from its GPU, of a group of GPUs.
struct Copies {
  double to_nodes = 0;  // other nodes that it goes to, over the network
  double to_gpus = 0;   // GPUs that it goes to over NVLink, on any node
};

Copies copies_of(const LayerShape& shape, std::int64_t group, std::int64_t node) {
  if (group == 1) return {};
  const double to_gpu = 1 - none_of(shape.experts / group, shape.experts, shape.top_k);
  const auto all = static_cast<double>(group);
  if (group <= node) return {0, (all - 1) * to_gpu};
  const double nodes = all / static_cast<double>(node);  // need not be whole: an average
  const auto of_node = static_cast<std::int64_t>(static_cast<double>(shape.experts) / nodes);
  // On each node the GPU that the network reaches has its copy already.
  return {(nodes - 1) * (1 - none_of(of_node, shape.experts, shape.top_k)), (all - nodes) * to_gpu};
}

struct Links {
  double nvlink = 0;  // bytes a second
  double network = 0;
};

Transfer all_to_all(const Copies& copies, double bytes_of_tokens, const Links& links, double imbalance) {
  Transfer t;
  t.nvlink_bytes = copies.to_gpus * bytes_of_tokens * imbalance;
  t.network_bytes = copies.to_nodes * bytes_of_tokens * imbalance;
  if (t.nvlink_bytes == 0 && t.network_bytes == 0) return t;
  const double seconds = std::max(t.nvlink_bytes / links.nvlink, t.network_bytes / links.network);
  t.us = seconds * kMicro + (t.network_bytes > 0 ? kNetworkLatency : kNvlinkLatency);
  return t;
}

// Reduce-scatter and all-gather: a GPU sends all but one part of its gradients twice, in log2(replicas) rounds each.
Transfer sum_of_gradients(std::int64_t replicas, double bytes, bool over_network, const Links& links) {
  Transfer t;
  if (replicas == 1) return t;
  const double sent = 2 * bytes * (1 - 1 / static_cast<double>(replicas));
  (over_network ? t.network_bytes : t.nvlink_bytes) = sent;
  const double rounds = 2 * std::ceil(std::log2(static_cast<double>(replicas)));
  t.us = sent / (over_network ? links.network : links.nvlink) * kMicro +
         rounds * (over_network ? kNetworkLatency : kNvlinkLatency);
  return t;
}

// A tensor travels as codes if every GEMM that reads it can be given these codes: the weight's gradient too.
double travelling_bytes(const LayerRecipe& recipe, LayerGemm rows, LayerGemm tokens, bool is_a) {
  const OperandRule& of_rows = recipe.gemm(rows).a;
  const OperandRule& of_tokens = is_a ? recipe.gemm(tokens).a : recipe.gemm(tokens).b;
  const bool codes = of_rows.quantized() && !has_scale_of_tensor(of_rows) && of_rows.block.rows == 1 &&
                     of_tokens.quantized() && of_tokens.source == OperandSource::requantized;
  return codes ? code_bytes(of_rows) : 2;
}

}  // namespace

double none_of(std::int64_t some, std::int64_t experts, std::int64_t top_k) {
  double none = 1;
  for (std::int64_t k = 0; k < top_k && none > 0; ++k) {
    const auto left = static_cast<double>(experts - k);
    none *= std::max(0.0, (left - static_cast<double>(some)) / left);
  }
  return none;
}

ClusterEstimate estimate_cluster(const LayerShape& shape, const LayerRecipe& recipe, const Card& card,
                                 const ClusterSpec& spec, EstimateOptions options) {
  check(shape);
  check_spec(spec, shape);
  ClusterEstimate c;
  c.gpus = spec.gpus;
  c.expert_parallel = spec.expert_parallel.value_or(std::gcd(spec.gpus, shape.experts));
  c.replicas = c.gpus / c.expert_parallel;
  options.gpus = c.expert_parallel;
  c.layer = estimate(shape, recipe, card, options);

  const Links links{card.nvlink.value * card.nvlink_share.value * kGiga,
                    spec.network.value_or(card.network.value * card.network_share.value) * kGiga};
  const Copies copies = copies_of(shape, c.expert_parallel, spec.node);
  const double elements = product({shape.tokens, shape.d_model});
  const auto transfer = [&](double bytes) {
    return all_to_all(copies, elements * bytes, links, c.layer.load.imbalance);
  };
  const double x_bytes = travelling_bytes(recipe, LayerGemm::up, LayerGemm::d_w1, true);
  c.dispatch = transfer(x_bytes);
  c.combine = transfer(2);
  c.backward_dispatch = transfer(travelling_bytes(recipe, LayerGemm::d_down, LayerGemm::d_w2, false));
  c.backward_combine = transfer(2);
  if (c.expert_parallel > 1) {
    const double to_gpu = 1 - none_of(shape.experts / c.expert_parallel, shape.experts, shape.top_k);
    c.received_x = static_cast<double>(c.expert_parallel) * to_gpu * elements * x_bytes * c.layer.load.imbalance;
  }

  const double parameters =
      3 * product({shape.experts, shape.d_model, shape.d_expert}) / static_cast<double>(c.expert_parallel);
  c.weight_bytes = 2 * parameters;
  c.gradient_bytes = 4 * parameters;
  c.gradients = sum_of_gradients(c.replicas, c.gradient_bytes, spec.gpus > spec.node, links);
  for (double* part : {&c.gradients.nvlink_bytes, &c.gradients.network_bytes, &c.gradients.us})
    *part /= options.microbatches;
  return c;
}

}  // namespace mxcheck
