#pragma once
// A layer on 1 to 10,000 GPUs: experts parallel over a group of GPUs, as many replicas of the group as there are GPUs
// for, tokens sent to their experts and back, gradients of weights summed over the replicas.
//
//   const ClusterSpec spec{.gpus = 1024};
//   const ClusterEstimate c = estimate_cluster(shape, recipe, card, spec);
//   c.step_us(), c.overlapped_us()
//
// The network: all-to-all with full bandwidth between any two nodes. A token goes once to each node that has one of its
// experts, and there over NVLink to each GPU that has one (as DeepEP does); back the same way, summed on its way. The
// choice of experts is uniform for this. An all-to-all takes the longer of NVLink's and the network's bytes over their
// rates, plus a latency. Gradients are summed by reduce-scatter and all-gather.
//
// Errors: Error{usage} for numbers of GPUs that cannot be, with what would be right.

#include <cstdint>
#include <optional>

#include "cost/estimate.h"

namespace mxcheck {

struct ClusterSpec {
  std::int64_t gpus = 1;
  std::optional<std::int64_t> expert_parallel;  // GPUs of a group; not given: all that divide gpus and experts
  std::int64_t node = kNodeGpus;                // GPUs that NVLink joins
  std::optional<double> network;                // GB/s of a GPU, one direction, as reached; not given: the card's
};

inline constexpr std::int64_t kMostGpus = 1'000'000;

struct Transfer {
  double nvlink_bytes = 0;  // that a GPU sends
  double network_bytes = 0;
  double us = 0;
};

struct ClusterEstimate {
  std::int64_t gpus = 1, expert_parallel = 1, replicas = 1;
  Estimate layer;                                // of the busiest GPU
  Transfer dispatch, combine;                    // of X and O
  Transfer backward_dispatch, backward_combine;  // of dO and dX
  Transfer gradients;                            // of dW1 and dW2, FP32, of a microbatch
  double weight_bytes = 0;                       // of a GPU, BF16
  double gradient_bytes = 0;                     // of a GPU, FP32
  double received_x = 0;  // bytes of tokens kept for the backward pass on the GPUs of their experts

  [[nodiscard]] double compute_us() const { return layer.us(); }
  [[nodiscard]] double transfer_us() const {
    return dispatch.us + combine.us + backward_dispatch.us + backward_combine.us + gradients.us;
  }
  [[nodiscard]] double step_us() const { return compute_us() + transfer_us(); }
  // With all transfers under the computation, or the reverse.
  [[nodiscard]] double overlapped_us() const { return compute_us() > transfer_us() ? compute_us() : transfer_us(); }
};

ClusterEstimate estimate_cluster(const LayerShape& shape, const LayerRecipe& recipe, const Card& card,
                                 const ClusterSpec& spec, EstimateOptions options = {});

// The probability that none of top_k different experts out of `experts` is among `some` of them.
double none_of(std::int64_t some, std::int64_t experts, std::int64_t top_k);

}  // namespace mxcheck
