#include "tests/kernels/sm90/train/device_run.h"

#include <cstdio>

#include "numerics/error.h"
#include "reference/training/attention.h"
#include "reference/training/optimizer.h"
#include "reference/training/passes.h"
#include "trainer/run/engine.h"

namespace mxcheck::test {

mxcheck_train_config train_config(const TrainingConfig& config, const std::vector<float>& cosine,
                                  const std::vector<float>& sine, std::int64_t evaluation_sequences) {
  const ModelShape& m = config.model;
  const OptimizerConfig& o = config.optimizer;
  mxcheck_train_config c{};
  c.size = sizeof(c), c.layers = m.layers, c.width = m.width, c.heads = m.heads, c.experts = m.experts;
  c.inner = m.inner, c.top_k = m.top_k, c.length = m.length;
  c.batch = config.batch, c.evaluation_sequences = evaluation_sequences, c.recipe = config.recipe.name.c_str();
  c.rounding = to_text(config.rounding).data(), c.tile = config.tile, c.seed = config.seed, c.balance = config.balance;
  c.bf16_last = config.bf16_last, c.microbatches = config.microbatches;
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
  input.size = sizeof(input), input.tokens = batch.data(), input.step = static_cast<std::uint64_t>(before.step);
  input.rate = learning_rate(config_, before.step);
  input.correction1 = bias_correction(config_.optimizer.beta1, before.updates + 1);
  input.correction2 = bias_correction(config_.optimizer.beta2, before.updates + 1);
  input.observe = observe ? 1 : 0;
  outcome.values.size = sizeof(outcome.values), outcome.values.parameter_digests = outcome.parameter_digests.data();
  outcome.values.layer_digests = outcome.layer_digests.data();
  require_ok(mxcheck_train()->step(run_, &input, &outcome.values, message_, sizeof(message_)));
  return outcome;
}

Evaluation DeviceRun::evaluate(const std::string& recipe, std::span<const std::uint8_t> tokens) {
  const ModelShape& m = config_.model;
  mxcheck_train_evaluation e{};
  e.size = sizeof(e), e.tokens = tokens.data(), e.sequences = std::ssize(tokens) / (m.length + 1);
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

// --- the first difference

namespace {

using Words = std::vector<std::uint16_t>;

template <class T>
bool same(T a, T b) {
  return a == b;
}

class Comparison {
 public:
  explicit Comparison(DeviceRun& run) : run_(run) {}

  template <class T>
  void tensor(const std::string& name, const std::vector<T>& expected) {
    std::vector<T> found = run_.read<T>(name);
    if (found.size() > expected.size()) found.resize(expected.size());  // room for more routed rows
    std::size_t count = expected.size() - found.size();
    std::size_t first = found.size();
    for (std::size_t i = found.size(); i-- > 0;) {
      if (!same(found[i], expected[i])) ++count, first = i;
    }
    if (count == 0) return;
    char text[256];
    std::snprintf(text, sizeof(text), "%s: %zu of %zu differ, first [%zu]: %.9g, expected %.9g\n", name.c_str(), count,
                  expected.size(), first, first < found.size() ? static_cast<double>(found[first]) : NAN,
                  static_cast<double>(expected[first]));
    lines += text;
  }

  std::string lines;

 private:
  DeviceRun& run_;
};

// Columns of qkv from `from` on, by sequence and head, as the device has them.
Words heads_of(const ModelShape& m, std::int64_t sequences, const Words& qkv, std::int64_t from) {
  Words heads;
  for (std::int64_t g = 0; g < sequences * m.heads; ++g) {
    for (std::int64_t i = 0; i < m.length; ++i) {
      const std::int64_t token = g / m.heads * m.length + i;
      const auto first = qkv.begin() + token * 3 * m.width + from + g % m.heads * m.head_width();
      heads.insert(heads.end(), first, first + m.head_width());
    }
  }
  return heads;
}

void compare_layer(const TrainingConfig& config, const LayerPass& l, const std::string& name, Comparison& compare) {
  const ModelShape& m = config.model;
  compare.tensor(name + "x", l.x);
  compare.tensor(name + "attention_u", l.attention_norm.y);
  compare.tensor(name + "attention_scale", l.attention_norm.scale);
  compare.tensor(name + "q", heads_of(m, config.batch, l.attention.qkv, 0));
  compare.tensor(name + "k", heads_of(m, config.batch, l.attention.qkv, m.width));
  compare.tensor(name + "v", heads_of(m, config.batch, l.attention.qkv, 2 * m.width));
  compare.tensor(name + "p", l.attention.p);
  compare.tensor(name + "att", l.attention.out);
  compare.tensor(name + "middle", l.middle);
  compare.tensor(name + "moe_u", l.moe_norm.y);
  compare.tensor(name + "moe_scale", l.moe_norm.scale);
  compare.tensor(name + "logits", l.logits);
  if (config.rounding == TokenRoundingRule::none) compare.tensor(name + "chosen", l.chosen);
  compare.tensor(name + "offsets", l.routes.offsets);
  compare.tensor(name + "row_token", l.routes.row_token);
  compare.tensor(name + "row_weight", l.routes.row_weight);
  compare.tensor(name + "token_offsets", l.routes.token_offsets);
  compare.tensor(name + "token_rows", l.routes.token_rows);
  compare.tensor(name + "balance_gradient", l.balance.gradient);
}

}  // namespace

std::string differences(const TrainingConfig& config, const TrainingState& before, std::span<const std::uint8_t> batch,
                        DeviceRun& run) {
  const PassSetting setting{.config = config,
                            .recipe = config.recipe,
                            .rounding = config.rounding,
                            .sequences = config.batch,
                            .step = static_cast<std::uint64_t>(before.step)};
  const PassWeights weights = pass_weights(config.model, before.weights, 0);
  const RotaryTable table = rotary_table(config.model.length, config.model.head_width());
  const auto length = static_cast<std::size_t>(config.model.length);
  std::vector<std::uint8_t> inputs, targets;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (i % (length + 1) != length) inputs.push_back(batch[i]);
    if (i % (length + 1) != 0) targets.push_back(batch[i]);
  }
  ForwardPass pass = forward(setting, table, weights, inputs);
  Comparison compare(run);
  for (std::size_t l = 0; l < pass.layers.size(); ++l)
    compare_layer(config, pass.layers[l], "layers." + std::to_string(l) + ".", compare);
  compare.tensor("x", pass.x);
  compare.tensor("final_u", pass.final_norm.y);
  compare.tensor("logits", pass.logits);
  const TokenLoss loss = token_loss(pass.logits, targets);
  compare.tensor("d_logits", loss.d_logits);
  const std::vector<std::vector<float>> gradients = backward(setting, table, weights, inputs, pass, loss.d_logits);
  const std::vector<ParameterSpec> specs = parameters_of(config.model);
  for (std::size_t p = specs.size(); p-- > 0;) {
    const std::size_t had = compare.lines.size();
    compare.tensor("gradients." + std::to_string(p), gradients[p]);
    if (compare.lines.size() != had) compare.lines += "  (" + specs[p].name + ")\n";
  }
  return compare.lines;
}

}  // namespace mxcheck::test
