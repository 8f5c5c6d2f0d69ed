#include "tests/kernels/sm90/train/device_run.h"

#include "numerics/error.h"
#include "reference/training/attention.h"
#include "reference/training/optimizer.h"
#include "trainer/run/device_layers.h"

namespace mxcheck::test {

mxcheck_train_config train_config(const TrainingConfig& config, const std::vector<float>& cosine,
                                  const std::vector<float>& sine, std::int64_t evaluation_sequences) {
  const ModelShape& m = config.model;
  const OptimizerConfig& o = config.optimizer;
  mxcheck_train_config c{};
  c.size = sizeof(c);
  c.layers = m.layers, c.width = m.width, c.heads = m.heads, c.experts = m.experts;
  c.inner = m.inner, c.top_k = m.top_k, c.length = m.length;
  c.batch = config.batch, c.evaluation_sequences = evaluation_sequences;
  c.recipe = config.recipe.name.c_str();
  c.rounding = to_text(config.rounding).data();
  c.tile = config.tile, c.seed = config.seed, c.balance = config.balance;
  c.beta1 = o.beta1, c.beta2 = o.beta2, c.epsilon = o.epsilon, c.decay = o.decay, c.clip = o.clip;
  c.bf16_moments = o.moments == Format::bf16 ? 1 : 0;
  c.cosine = cosine.data(), c.sine = sine.data();
  return c;
}

DeviceRun::DeviceRun(const TrainingConfig& config, const TrainingState& state, std::int64_t evaluation_sequences)
    : config_(config), parameters_(state.weights.size()) {
  const RotaryTable table = rotary_table(config.model.length, config.model.head_width());
  mxcheck_train_config c = train_config(config_, table.cosine, table.sine, evaluation_sequences);
  const std::string recipe = device_recipe(config.recipe);
  c.recipe = recipe.c_str();
  require_ok(mxcheck_train()->create(&c, &run_, message_, sizeof(message_)));
  set_state(state);
}
DeviceRun::~DeviceRun() { mxcheck_train()->destroy(run_); }

void DeviceRun::require_ok(mxcheck_status status) const {
  if (status == MXCHECK_OK) return;
  throw Error(ErrorKind::environment, "sm90_train: status " + std::to_string(status) + ", " + message_);
}

void DeviceRun::set_state(const TrainingState& state) {
  for (std::size_t p = 0; p < parameters_; ++p) {
    require_ok(mxcheck_train()->set_parameter(run_, static_cast<std::int64_t>(p), state.weights[p].data(),
                                              state.first_moments[p].data(), state.second_moments[p].data(), message_,
                                              sizeof(message_)));
  }
}

DeviceOutcome DeviceRun::step(const TrainingState& before, std::span<const std::uint8_t> batch, bool observe) {
  DeviceOutcome outcome;
  outcome.parameter_digests.resize(parameters_);
  outcome.layer_digests.resize(static_cast<std::size_t>(config_.model.layers));
  mxcheck_train_step input{};
  input.size = sizeof(input);
  input.tokens = batch.data();
  input.step = static_cast<std::uint64_t>(before.step);
  input.rate = learning_rate(config_, before.step);
  input.correction1 = bias_correction(config_.optimizer.beta1, before.updates + 1);
  input.correction2 = bias_correction(config_.optimizer.beta2, before.updates + 1);
  input.observe = observe ? 1 : 0;
  outcome.values.size = sizeof(outcome.values);
  outcome.values.parameter_digests = outcome.parameter_digests.data();
  outcome.values.layer_digests = outcome.layer_digests.data();
  require_ok(mxcheck_train()->step(run_, &input, &outcome.values, message_, sizeof(message_)));
  return outcome;
}

Evaluation DeviceRun::evaluate(const std::string& recipe, std::span<const std::uint8_t> tokens) {
  const ModelShape& m = config_.model;
  mxcheck_train_evaluation e{};
  e.size = sizeof(e);
  e.tokens = tokens.data();
  e.sequences = std::ssize(tokens) / (m.length + 1);
  e.recipe = recipe.c_str();
  const std::int64_t slots = e.sequences * m.length * m.top_k;
  std::vector<std::int32_t> routes(static_cast<std::size_t>(m.layers * slots));
  e.routes = routes.data();
  require_ok(mxcheck_train()->evaluate(run_, &e, message_, sizeof(message_)));
  Evaluation evaluation;
  evaluation.loss = e.loss;
  for (std::int64_t l = 0; l < e.layers; ++l)
    evaluation.routes.emplace_back(routes.begin() + l * slots, routes.begin() + (l + 1) * slots);
  return evaluation;
}

void DeviceRun::get_parameter(std::size_t p, std::vector<float>& weights, std::vector<float>& first,
                              std::vector<float>& second) {
  const auto number = static_cast<std::int64_t>(p);
  const auto size = static_cast<std::size_t>(mxcheck_train()->parameter_size(run_, number));
  weights.resize(size), first.resize(size), second.resize(size);
  require_ok(mxcheck_train()->get_parameter(run_, number, weights.data(), first.data(), second.data(), message_,
                                            sizeof(message_)));
}

std::uint64_t DeviceRun::bytes_of(const std::string& name) {
  std::uint64_t bytes = 0;
  require_ok(mxcheck_train()->read(run_, name.c_str(), nullptr, &bytes, message_, sizeof(message_)));
  return bytes;
}
void DeviceRun::read_bytes(const std::string& name, void* data, std::uint64_t bytes) {
  require_ok(mxcheck_train()->read(run_, name.c_str(), data, &bytes, message_, sizeof(message_)));
}

}  // namespace mxcheck::test
