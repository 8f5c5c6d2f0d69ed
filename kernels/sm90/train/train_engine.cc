#include "kernels/sm90/train/train_engine.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "kernels/common/refusal.h"
#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/train/train_math.cuh"

namespace mxcheck_kernels::sm90 {

// ---- The state of a run ----

Engine::Engine(const mxcheck_train_config& config) {
  check_config(config);
  own_stream_.create();
  stream_ = own_stream_.get();
  side_.create();
  model_.config = config;
  model_.recipe = config.recipe, model_.rounding = config.rounding;
  model_.config.recipe = model_.recipe.c_str(), model_.config.rounding = model_.rounding.c_str();
  model_.rule = token_rounding_rule_named(config.rounding);
  model_.parameters = parameters_of(config);
  make_state();
  shape_ = pass_shape(model_, config.batch / config.microbatches, model_.recipe.c_str(), model_.rule);
  const ExpertsBytes bytes = bytes_of_layers(shape_, true);
  activations_ = make_activations(buffers_, model_, shape_, "", true, bytes);
  backward_ = take_backward(buffers_, model_, shape_);
  plans_ = ExpertsPlans(config.layers);
  make_norm_tables();
  std::vector<Parameter> outputs;
  const std::int64_t elements = shape_.tokens * config.width;
  for (std::int64_t l = 1; l <= config.layers; ++l) outputs.push_back({l * elements, elements});
  layer_table_ = make_table("layer_table", outputs);
  const std::int64_t digests = std::ssize(model_.parameters.list) + config.layers;
  digests_ = buffers_.take<unsigned long long>("digests", digests);
  staged_input_.create(1), staged_tokens_.create(config.batch * (config.length + 1));
  found_.create(1), found_digests_.create(digests), found_report_.create(1);
  if (has_parts()) make_microbatches();
  if (config.evaluation_sequences > 0) make_evaluation();
  // All that was filled comes before work on a stream that does not wait for it. cudaDeviceSynchronize would end
  // another thread's capture of a graph, so that these two streams are waited for.
  require_success(cudaStreamSynchronize(cudaStreamLegacy));
  require_success(cudaStreamSynchronize(stream_));
}

// The most of the first layer, under the recipe, and of the last, which may be in BF16.
ExpertsBytes Engine::bytes_of_layers(const PassShape& shape, bool backward) const {
  const auto of = [&](std::int64_t layer) {
    return experts_bytes(experts_shape(model_, shape, layer, shape.most_routed), backward);
  };
  ExpertsBytes most = of(0);
  if (model_.config.bf16_last == 0) return most;
  const ExpertsBytes last = of(model_.config.layers - 1);
  most.workspace = std::max(most.workspace, last.workspace);
  most.kept = {std::max(most.kept.h, last.kept.h), std::max(most.kept.h_scales, last.kept.h_scales),
               std::max(most.kept.x, last.kept.x), std::max(most.kept.x_scales, last.kept.x_scales)};
  return most;
}

void Engine::make_state() {
  const mxcheck_train_config& c = model_.config;
  const std::int64_t elements = model_.parameters.elements;
  model_.weights = buffers_.take<float>("weights", elements);
  model_.bf16 = buffers_.take<std::uint16_t>("weights_bf16", elements);
  model_.gradients = buffers_.take<float>("gradients", elements);
  first_moments_ = buffers_.take<float>("first_moments", elements);
  second_moments_ = buffers_.take<float>("second_moments", elements);
  for (std::size_t p = 0; p < model_.parameters.list.size(); ++p) {
    buffers_.name_part("gradients." + std::to_string(p), model_.gradient(p),
                       static_cast<std::uint64_t>(model_.parameters.list[p].size) * sizeof(float));
    buffers_.name_part("weights_bf16." + std::to_string(p), model_.weight(p),
                       static_cast<std::uint64_t>(model_.parameters.list[p].size) * sizeof(std::uint16_t));
  }
  const std::int64_t angles = c.length * (c.width / c.heads / 2);
  auto* const cosine = buffers_.take<float>("cosine", angles);
  auto* const sine = buffers_.take<float>("sine", angles);
  upload(cosine, c.cosine, angles, stream_);
  upload(sine, c.sine, angles, stream_);
  model_.rotation = {cosine, sine};
  model_.config.cosine = model_.config.sine = nullptr;  // the caller's
  model_.report = buffers_.take<mxcheck_device_report>("report", 1);
  input_ = buffers_.take<StepInput>("input", 1);
  result_ = buffers_.take<StepResult>("result", 1);
}

TensorTable Engine::make_table(const std::string& name, const std::vector<Parameter>& tensors) {
  std::vector<TensorEntry> entries;
  TensorTable table;
  for (const Parameter& t : tensors) {
    entries.push_back({t.offset, t.size, table.blocks, t.decays});
    table.blocks += (t.size + kBlockElements - 1) / kBlockElements;
  }
  const auto count = static_cast<std::int64_t>(entries.size());
  auto* const data = buffers_.take<TensorEntry>(name, count);
  require_success(cudaMemcpy(data, entries.data(), entries.size() * sizeof(TensorEntry), cudaMemcpyHostToDevice));
  table.entries = data, table.count = static_cast<int>(count);
  return table;
}

// Rounds of sums of 1024, until one number is left of the largest parameter.
void Engine::make_norm_tables() {
  std::vector<Parameter> tensors = model_.parameters.list;
  tables_.push_back(make_table("parameter_table", tensors));
  for (bool more = true; more;) {
    more = false;
    std::int64_t offset = 0;
    for (Parameter& t : tensors) {
      t.size = (t.size + kBlockElements - 1) / kBlockElements;
      t.offset = offset;
      offset += (t.size + 3) / 4 * 4;
      more = more || t.size > 1;
    }
    const std::string round = std::to_string(sums_.size());
    tables_.push_back(make_table("sum_table." + round, tensors));
    sums_.push_back(buffers_.take<float>("sums." + round, offset));
  }
}

void Engine::make_evaluation() {
  const PassShape most =
      pass_shape(model_, model_.config.evaluation_sequences, model_.recipe.c_str(), TokenRoundingRule::none);
  const ExpertsBytes bytes = experts_bytes_of_all(experts_shape(model_, most, 0, most.most_routed));
  evaluation_ = make_activations(buffers_, model_, most, "evaluation.", false, bytes);
  evaluation_tokens_.create(most.sequences * (model_.config.length + 1));
  found_routes_.create(model_.config.layers * most.tokens * model_.config.top_k);
}

void Engine::make_observed() {
  const mxcheck_train_config& c = model_.config;
  std::vector<ObservedTensors> all;
  for (std::int64_t l = 0; l < c.layers; ++l) {
    const std::string name = "layers." + std::to_string(l) + ".observed_";
    ObservedTensors o;
    o.h = buffers_.take<std::uint16_t>(name + "h", shape_.most_routed * 2 * c.inner);
    o.p = buffers_.take<float>(name + "p", shape_.most_routed * c.inner);
    o.d_o = buffers_.take<std::uint16_t>(name + "d_o", shape_.tokens * c.width);
    all.push_back(o);
  }
  observed_ = std::move(all);
}

const Parameter& Engine::parameter_at(std::int64_t parameter) const {
  const std::int64_t count = std::ssize(model_.parameters.list);
  if (parameter < 0 || parameter >= count) {
    invalid("parameter " + std::to_string(parameter) + ": must be 0 to " + std::to_string(count - 1));
  }
  return model_.parameters.list[static_cast<std::size_t>(parameter)];
}

std::int64_t Engine::parameter_size(std::int64_t parameter) const {
  const bool known = parameter >= 0 && parameter < std::ssize(model_.parameters.list);
  return known ? parameter_at(parameter).size : -1;
}

void Engine::set_parameter(std::int64_t parameter, const float* weights, const float* first, const float* second) {
  const Parameter& p = parameter_at(parameter);
  if (weights == nullptr || first == nullptr || second == nullptr) {
    invalid("weights and both moments of parameter " + std::to_string(parameter) + " must be given");
  }
  upload(model_.weights + p.offset, weights, p.size, stream_);
  upload(first_moments_ + p.offset, first, p.size, stream_);
  upload(second_moments_ + p.offset, second, p.size, stream_);
  require_success(cudaStreamSynchronize(stream_));
}

void Engine::get_parameter(std::int64_t parameter, float* weights, float* first, float* second) {
  const Parameter& p = parameter_at(parameter);
  const std::pair<float*, const float*> all[] = {
      {weights, model_.weights}, {first, first_moments_}, {second, second_moments_}};
  for (const auto& [to, from] : all) {
    if (to != nullptr) download(to, from + p.offset, p.size, stream_);
  }
  require_success(cudaStreamSynchronize(stream_));
}

void Engine::read(const std::string& name, void* data, std::uint64_t& bytes) {
  const std::string names = buffers_.names();
  const Buffers::Part part = name.empty() ? Buffers::Part{names.data(), names.size()} : buffers_.find(name);
  const std::uint64_t room = std::exchange(bytes, part.bytes);
  if (data == nullptr) return;
  if (room < part.bytes) {
    invalid("'" + name + "' has " + std::to_string(part.bytes) + " bytes: there is room for " + std::to_string(room));
  }
  require_success(cudaMemcpy(data, part.data, part.bytes, cudaMemcpyDefault));
}

// ---- Steps and evaluations ----

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

StepEndJob Engine::losses_of(const Pass& pass) const {
  StepEndJob job;
  job.overflow = pass.a.router.overflow;
  job.loss_sum = pass.a.loss_sum, job.tokens = static_cast<float>(pass.shape.tokens);
  job.balance = pass.a.balance, job.layers = static_cast<int>(model_.config.layers);
  return job;
}

// With gradients their norm, and what follows from it.
void Engine::enqueue_norm(StepEndJob job, bool has_gradients) {
  job.limit = model_.config.clip;
  job.result = result_;
  if (has_gradients) {
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
  enqueue_pass(step, observe);
  enqueue_norm(losses_of(pass_of(step, observe)), true);
  enqueue_update();
  require_success(launch_digests(tables_.front(), model_.weights, digests_, stream_));
}

Pass Engine::pass_of(std::uint64_t random_step, bool observe) {
  return {model_, shape_, activations_, plans_, random_step, true, stream_, &side_, observe ? &observed_ : nullptr};
}

// Forward and backward; of one microbatch without the digests of outputs, which are summed.
void Engine::enqueue_pass(std::uint64_t random_step, bool observe) {
  const Pass pass = pass_of(random_step, observe);
  forward(pass);
  if (!has_parts()) {
    require_success(
        launch_digests(layer_table_, activations_.residual, digests_ + model_.parameters.list.size(), pass.aside()));
  }
  enqueue_loss(pass, true);
  backward(pass, backward_);
}

// Under token choice a step is the same work every time, unless it is observed or draws random words.
bool Engine::has_graph(bool observe) const {
  return launched_ && !observe && model_.rule == TokenRoundingRule::none && !draws_words(shape_.recipe);
}

void Engine::launch_step(std::uint64_t step, bool observe) {
  if (observe && observed_.empty()) make_observed();
  if (has_parts()) {
    launch_microbatches(step, observe);
    return;
  }
  if (!has_graph(observe)) {
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
  add_layer_digests(layers);
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
  (void)bytes_of_layers(pass->shape, false);  // refused before all else
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
  enqueue_norm(losses_of(pass), false);
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
