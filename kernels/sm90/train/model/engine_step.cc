// Steps and evaluations of a run.

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "kernels/common/refusal.h"
#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/train/elementwise/digest.h"
#include "kernels/sm90/train/model/copies.h"
#include "kernels/sm90/train/model/engine.h"

namespace mxcheck_kernels::sm90 {
namespace {

std::uint64_t digest_of(std::span<const unsigned long long> digests) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < digests.size(); ++i) sum += digest_term(i, digests[i]);
  return sum;
}

}  // namespace

void Engine::enqueue_loss(const Pass& pass, bool gradient) {
  const TokenBytes tokens = pass.tokens();
  const float share = 1.0F / static_cast<float>(pass.shape.tokens);
  require_success(
      launch_token_loss(tokens, pass.a.logits, share, pass.a.losses, gradient ? backward_.d_logits : nullptr, stream_));
  require_success(launch_token_sum(pass.a.losses, pass.shape.tokens, pass.a.partials, pass.a.loss_sum, stream_));
}

// With gradients their norm, and what follows from it.
void Engine::enqueue_norm(const Pass& pass) {
  StepEndJob job;
  job.overflow = pass.a.router.overflow;
  job.loss_sum = pass.a.loss_sum, job.tokens = static_cast<float>(pass.shape.tokens);
  job.balance = pass.a.balance, job.layers = static_cast<int>(model_.config.layers);
  job.limit = model_.config.clip;
  job.result = result_;
  if (pass.backward) {
    const float* from = model_.gradients;
    for (std::size_t round = 0; round < sums_.size(); ++round) {
      require_success(launch_block_sums(tables_[round], from, round == 0, tables_[round + 1], sums_[round], stream_));
      from = sums_[round];
    }
    job.squares = from, job.sums = tables_.back();
  }
  require_success(launch_step_end(job, stream_));
}

void Engine::enqueue_update() {
  const mxcheck_train_config& c = model_.config;
  AdamWJob job;
  job.table = tables_.front();
  job.input = input_, job.result = result_;
  job.beta1 = c.beta1, job.beta2 = c.beta2, job.epsilon = c.epsilon, job.decay = c.decay;
  job.bf16_moments = c.bf16_moments != 0;
  job.gradients = model_.gradients, job.weights = model_.weights;
  job.first = first_moments_, job.second = second_moments_;
  require_success(launch_adamw(job, stream_));
}

void Engine::enqueue_step(std::uint64_t step, bool observe) {
  upload(input_, staged_input_.data(), 1, stream_);
  upload(activations_.tokens, staged_tokens_.data(), staged_tokens_.size(), stream_);
  require_success(launch_round(tables_.front(), model_.weights, model_.bf16, stream_));
  const Pass pass{model_, shape_, activations_, plans_, step, true, stream_, &side_, observe ? &observed_ : nullptr};
  forward(pass);
  require_success(
      launch_digests(layer_table_, activations_.residual, digests_ + model_.parameters.list.size(), pass.aside()));
  enqueue_loss(pass, true);
  backward(pass, backward_);
  enqueue_norm(pass);
  enqueue_update();
  require_success(launch_digests(tables_.front(), model_.weights, digests_, stream_));
}

// Under token choice a step is the same work every time, unless it is observed.
void Engine::launch_step(std::uint64_t step, bool observe) {
  if (observe && observed_.empty()) make_observed();
  if (!launched_ || observe || model_.rule != TokenRoundingRule::none) {
    enqueue_step(step, observe);
    launched_ = true;
    return;
  }
  if (!graph_.captured()) graph_.capture(stream_, [&] { enqueue_step(step, false); });
  graph_.launch(stream_);
}

// Waits. The report is what a kernel found wrong of a call inside: of routes that this library makes itself.
void Engine::fetch_result() {
  download(found_.data(), result_, 1, stream_);
  download(found_digests_.data(), digests_, found_digests_.size(), stream_);
  download(found_report_.data(), model_.report, 1, stream_);
  require_success(cudaStreamSynchronize(stream_));
  const mxcheck_device_report& report = *found_report_.data();
  if (report.status == MXCHECK_OK) return;
  throw Refusal(MXCHECK_DEVICE_ERROR, std::string("inside a step: ") + report.message + " (index " +
                                          std::to_string(report.index) + ", value " + std::to_string(report.value) +
                                          ")");
}

void Engine::step(const mxcheck_train_step& input, mxcheck_train_outcome& outcome) {
  if (input.size < sizeof(input)) invalid("input.size is less than that of mxcheck_train_step");
  if (outcome.size < sizeof(outcome)) invalid("outcome.size is less than that of mxcheck_train_outcome");
  if (input.tokens == nullptr) invalid("input.tokens must be given");
  *staged_input_.data() = {input.rate, input.correction1, input.correction2};
  std::copy_n(input.tokens, staged_tokens_.size(), staged_tokens_.data());
  launch_step(input.step, input.observe != 0);
  fetch_result();
  const StepResult& result = *found_.data();
  outcome.loss = result.loss, outcome.balance_loss = result.balance_loss, outcome.gradient_norm = result.norm;
  outcome.updated = result.updated, outcome.layers = result.layers;
  const std::span all(found_digests_.data(), static_cast<std::size_t>(found_digests_.size()));
  const auto parameters = all.first(model_.parameters.list.size());
  const auto layers = all.subspan(parameters.size());
  outcome.weights_digest = digest_of(parameters);
  if (outcome.parameter_digests != nullptr) std::copy(parameters.begin(), parameters.end(), outcome.parameter_digests);
  if (outcome.layer_digests != nullptr) std::copy(layers.begin(), layers.end(), outcome.layer_digests);
}

// A few are kept: a run evaluates under its own recipe and under bf16, in parts of one size and what is left.
Engine::EvaluationPass& Engine::evaluation_pass(const std::string& recipe, std::int64_t sequences) {
  constexpr std::size_t kKept = 8;
  const auto known = std::find_if(evaluation_passes_.begin(), evaluation_passes_.end(), [&](const auto& pass) {
    return pass->recipe == recipe && pass->shape.sequences == sequences;
  });
  if (known != evaluation_passes_.end()) {
    std::rotate(evaluation_passes_.begin(), known, known + 1);
    return *evaluation_passes_.front();
  }
  auto pass = std::make_unique<EvaluationPass>();
  pass->recipe = recipe;
  pass->shape = pass_shape(model_, sequences, pass->recipe.c_str(), TokenRoundingRule::none);
  (void)experts_bytes(experts_shape(model_, pass->shape, pass->shape.most_routed), false);  // refused before all else
  pass->plans = ExpertsPlans(model_.config.layers);
  pass->token_end.create(1);
  *pass->token_end.data() = pass->shape.tokens;
  if (evaluation_passes_.size() == kKept) evaluation_passes_.pop_back();
  evaluation_passes_.insert(evaluation_passes_.begin(), std::move(pass));
  return *evaluation_passes_.front();
}

void Engine::enqueue_evaluation(EvaluationPass& p) {
  const mxcheck_train_config& c = model_.config;
  upload(evaluation_.tokens, evaluation_tokens_.data(), p.shape.sequences * (c.length + 1), stream_);
  upload(evaluation_.token_end, p.token_end.data(), 1, stream_);
  require_success(launch_round(tables_.front(), model_.weights, model_.bf16, stream_));
  const Pass pass{model_, p.shape, evaluation_, p.plans, 0, false, stream_};
  forward(pass);
  enqueue_loss(pass, false);
  enqueue_norm(pass);
  const std::int64_t slots = p.shape.tokens * c.top_k;
  for (std::int64_t l = 0; l < c.layers; ++l) {
    download(found_routes_.data() + l * slots, evaluation_.layers[static_cast<std::size_t>(l)].router.chosen, slots,
             stream_);
  }
}

void Engine::evaluate(mxcheck_train_evaluation& evaluation) {
  const mxcheck_train_config& c = model_.config;
  if (evaluation.size < sizeof(evaluation)) invalid("evaluation.size is less than that of mxcheck_train_evaluation");
  if (evaluation.tokens == nullptr || evaluation.recipe == nullptr) invalid("tokens and recipe must be given");
  if (evaluation.sequences < 1 || evaluation.sequences > c.evaluation_sequences) {
    invalid("evaluation.sequences is " + std::to_string(evaluation.sequences) + ": must be 1 to " +
            std::to_string(c.evaluation_sequences));
  }
  EvaluationPass& pass = evaluation_pass(evaluation.recipe, evaluation.sequences);
  std::copy_n(evaluation.tokens, evaluation.sequences * (c.length + 1), evaluation_tokens_.data());
  if (!pass.launched) {
    enqueue_evaluation(pass);
    pass.launched = true;
  } else {
    if (!pass.graph.captured()) pass.graph.capture(stream_, [&] { enqueue_evaluation(pass); });
    pass.graph.launch(stream_);
  }
  fetch_result();
  if (evaluation.routes != nullptr)
    std::copy_n(found_routes_.data(), c.layers * pass.shape.tokens * c.top_k, evaluation.routes);
  evaluation.loss = found_.data()->loss;
  evaluation.layers = found_.data()->layers;
}

}  // namespace mxcheck_kernels::sm90
