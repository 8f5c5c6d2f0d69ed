// Steps of several microbatches, on one device or as one of several ranks: docs/training.md, "Microbatches" and
// "Ranks". A rank makes its microbatches last to first, so that the tensors of a pass that a step leaves are its first
// one's. The sum of a subtree waits at its level for the subtree before it; addition is commutative.

#include <algorithm>
#include <string>

#include "kernels/common/refusal.h"
#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/train/train_engine.h"

namespace mxcheck_kernels::sm90 {
namespace {

void require_exchanged(std::int32_t status, const char* what) {
  if (status != 0) throw Refusal(MXCHECK_DEVICE_ERROR, std::string("the exchange of ") + what + " failed");
}

}  // namespace

void Engine::make_microbatches() {
  const mxcheck_train_config& c = model_.config;
  own_tokens_ = buffers_.take<std::uint8_t>("own_tokens", own_microbatches() * shape_.sequences * (c.length + 1));
  for (std::int64_t subtree = 1; subtree < own_microbatches(); subtree *= 2)
    pending_.push_back(buffers_.take<float>("pending." + std::to_string(pending_.size()), model_.parameters.elements));
  parts_ = buffers_.take<MicrobatchResult>("microbatch_results", c.microbatches);
  if (c.ranks == 1) return;
  slices_ = buffers_.take<float>("slices", model_.parameters.elements);
  all_digests_ = buffers_.take<unsigned long long>("all_layer_digests", c.ranks * c.layers);
  found_layer_digests_.create(c.ranks * c.layers);
}

void Engine::launch_microbatches(std::uint64_t step, bool observe) {
  const mxcheck_train_config& c = model_.config;
  const std::int64_t own = own_microbatches();
  const std::int64_t bytes = own * shape_.sequences * (c.length + 1);
  upload(input_, staged_input_.data(), 1, stream_);
  upload(own_tokens_, staged_tokens_.data() + c.rank * bytes, bytes, stream_);
  require_success(launch_round(tables_.front(), model_.weights, model_.bf16, stream_));
  unsigned long long* const layers = digests_ + model_.parameters.list.size();
  require_success(cudaMemsetAsync(layers, 0, static_cast<std::size_t>(c.layers) * sizeof(*layers), stream_));
  for (std::int64_t i = own; i-- > 0;) {
    launch_microbatch(i, step, observe && c.rank == 0 && i == 0);
    end_microbatch(i);
  }
  if (c.ranks > 1) exchange_gradients();
  if (c.ranks > 1) gather_results();
  StepEndJob job;
  job.parts = parts_, job.count = static_cast<int>(c.microbatches);
  enqueue_norm(job, true);
  enqueue_update();
  require_success(launch_digests(tables_.front(), model_.weights, digests_, stream_));
}

// Number `index` of this rank's.
void Engine::launch_microbatch(std::int64_t index, std::uint64_t step, bool observe) {
  const mxcheck_train_config& c = model_.config;
  const auto bytes = static_cast<std::size_t>(shape_.sequences * (c.length + 1));
  require_success(cudaMemcpyAsync(activations_.tokens, own_tokens_ + static_cast<std::size_t>(index) * bytes, bytes,
                                  cudaMemcpyDeviceToDevice, stream_));
  const auto number = static_cast<std::uint64_t>(c.rank * own_microbatches() + index);
  const std::uint64_t random_step = step * static_cast<std::uint64_t>(c.microbatches) + number;
  if (!has_graph(observe)) {
    enqueue_pass(random_step, observe);
    launched_ = true;
    return;
  }
  if (!graph_.captured()) graph_.capture(stream_, [&] { enqueue_pass(random_step, false); });
  graph_.launch(stream_);
}

// Its losses, its part of the digests, and its gradients in the tree.
void Engine::end_microbatch(std::int64_t index) {
  const mxcheck_train_config& c = model_.config;
  const std::int64_t number = c.rank * own_microbatches() + index;
  require_success(launch_microbatch_end(losses_of(pass_of(0, false)), parts_ + number, stream_));
  require_success(launch_digest_parts(layer_table_, activations_.residual, number * shape_.tokens * c.width,
                                      digests_ + model_.parameters.list.size(), stream_));
  // Counted from the last, an odd number has a subtree of each of its trailing ones beside its path.
  const std::int64_t done = own_microbatches() - 1 - index;
  TreePathJob job;
  job.leaf = model_.gradients, job.elements = model_.parameters.elements;
  while ((done >> job.count & 1) != 0)
    job.pending[job.count] = pending_[static_cast<std::size_t>(job.count)], ++job.count;
  job.out = index == 0 ? model_.gradients : pending_[static_cast<std::size_t>(job.count)];
  if (index == 0 && c.ranks == 1) job.scale = 1.0F / static_cast<float>(c.microbatches);
  if (index == 0 && job.count == 0 && c.ranks > 1) return;  // one alone
  require_success(launch_tree_path(job, stream_));
}

// Every rank adds up one slice of all ranks' sums, in the order of the tree, and gets the others' slices.
void Engine::exchange_gradients() {
  const mxcheck_train_config& c = model_.config;
  const mxcheck_train_exchange& e = *c.exchange;
  TreeOfSlicesJob job;
  job.slices = slices_, job.ranks = static_cast<int>(c.ranks);
  job.scale = 1.0F / static_cast<float>(c.microbatches);
  job.elements = model_.parameters.elements / c.ranks;  // elements are a multiple of 64
  job.out = model_.gradients + c.rank * job.elements;
  const auto bytes = static_cast<std::uint64_t>(job.elements) * sizeof(float);
  require_success(cudaMemcpyAsync(slices_ + c.rank * job.elements, job.out, bytes, cudaMemcpyDeviceToDevice, stream_));
  require_exchanged(e.all_to_all(e.context, model_.gradients, slices_, bytes, stream_), "gradients");
  require_success(launch_tree_of_slices(job, stream_));
  require_exchanged(e.all_gather(e.context, model_.gradients, bytes, stream_), "summed gradients");
}

void Engine::gather_results() {
  const mxcheck_train_config& c = model_.config;
  const mxcheck_train_exchange& e = *c.exchange;
  const auto of_losses = static_cast<std::uint64_t>(own_microbatches()) * sizeof(MicrobatchResult);
  require_exchanged(e.all_gather(e.context, parts_, of_losses, stream_), "losses");
  const std::uint64_t of_digests = static_cast<std::uint64_t>(c.layers) * sizeof(*all_digests_);
  require_success(cudaMemcpyAsync(all_digests_ + c.rank * c.layers, digests_ + model_.parameters.list.size(),
                                  of_digests, cudaMemcpyDeviceToDevice, stream_));
  require_exchanged(e.all_gather(e.context, all_digests_, of_digests, stream_), "digests");
  download(found_layer_digests_.data(), all_digests_, found_layer_digests_.size(), stream_);
}

// Sums of digests are modulo 2^64, in any order.
void Engine::add_layer_digests(std::span<unsigned long long> layers) const {
  if (model_.config.ranks == 1) return;
  std::fill(layers.begin(), layers.end(), 0ULL);
  for (std::int64_t i = 0; i < found_layer_digests_.size(); ++i)
    layers[static_cast<std::size_t>(i) % layers.size()] += found_layer_digests_.data()[i];
}

}  // namespace mxcheck_kernels::sm90
