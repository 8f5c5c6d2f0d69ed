// A library of kernels/train.h that computes with the reference, so that the trainer's side of the interface is tested
// without a GPU. It refuses a rate or a correction that is not the definition's.

#include "kernels/train.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "reference/training/attention.h"
#include "reference/training/optimizer.h"
#include "reference/training/passes.h"
#include "reference/training/step.h"

struct mxcheck_train_run {
  mxcheck::TrainingConfig config;
  mxcheck::TrainingState state;
  std::map<std::string, std::vector<std::byte>> observed;
};

namespace {

using namespace mxcheck;

mxcheck_status say(mxcheck_status status, const std::string& what, char* message, std::uint64_t bytes) {
  if (message != nullptr && bytes != 0) std::snprintf(message, bytes, "%s", what.c_str());
  return status;
}

mxcheck_status create(const mxcheck_train_config* c, mxcheck_train_run** run, char* message, std::uint64_t bytes) {
  if (c->layers == 3) return say(MXCHECK_UNSUPPORTED, "three layers are not offered", message, bytes);
  TrainingConfig config;
  config.model = {c->layers, c->width, c->heads, c->experts, c->inner, c->top_k, c->length};
  config.batch = c->batch, config.steps = 1 << 20, config.seed = c->seed;
  config.recipe = layer_recipe_named(c->recipe), config.rounding = token_rounding_rule_named(c->rounding);
  config.tile = c->tile, config.balance = c->balance, config.bf16_last = c->bf16_last;
  config.microbatches = std::max<std::int64_t>(1, c->microbatches);
  config.optimizer.beta1 = c->beta1, config.optimizer.beta2 = c->beta2, config.optimizer.epsilon = c->epsilon;
  config.optimizer.decay = c->decay, config.optimizer.clip = c->clip;
  config.optimizer.moments = c->bf16_moments != 0 ? Format::bf16 : Format::fp32;
  const RotaryTable table = rotary_table(c->length, c->width / c->heads);
  const std::size_t angles = table.cosine.size();
  if (table.cosine != std::vector<float>(c->cosine, c->cosine + angles) ||
      table.sine != std::vector<float>(c->sine, c->sine + angles)) {
    return say(MXCHECK_INVALID, "the table of rotations is another", message, bytes);
  }
  *run = new mxcheck_train_run{config, initial_state(config, 1)};
  return MXCHECK_OK;
}

mxcheck_status set_parameter(mxcheck_train_run* run, std::int64_t parameter, const float* weights, const float* first,
                             const float* second, char* /*message*/, std::uint64_t /*bytes*/) {
  const auto p = static_cast<std::size_t>(parameter);
  const std::size_t size = run->state.weights[p].size();
  run->state.weights[p].assign(weights, weights + size);
  run->state.first_moments[p].assign(first, first + size);
  run->state.second_moments[p].assign(second, second + size);
  return MXCHECK_OK;
}

mxcheck_status get_parameter(mxcheck_train_run* run, std::int64_t parameter, float* weights, float* first,
                             float* second, char* /*message*/, std::uint64_t /*bytes*/) {
  const auto p = static_cast<std::size_t>(parameter);
  std::copy(run->state.weights[p].begin(), run->state.weights[p].end(), weights);
  std::copy(run->state.first_moments[p].begin(), run->state.first_moments[p].end(), first);
  std::copy(run->state.second_moments[p].begin(), run->state.second_moments[p].end(), second);
  return MXCHECK_OK;
}

// The number of the update is known by the corrections, which no two of the first thousand share.
std::int64_t update_of(const mxcheck_train_run& run, const mxcheck_train_step& input) {
  const OptimizerConfig& o = run.config.optimizer;
  for (std::int64_t t = 1; t <= 100; ++t) {
    if (bias_correction(o.beta1, t) == input.correction1 && bias_correction(o.beta2, t) == input.correction2) return t;
  }
  return 0;
}

// Routes and inputs of every layer, of the first microbatch. H, P and dO are +0: the reference's step does not hand
// them out.
void keep_observed(mxcheck_train_run* run, std::span<const std::uint8_t> tokens) {
  const TrainingConfig& config = run->config;
  const ModelShape& m = config.model;
  std::vector<std::uint8_t> inputs;
  for (std::int64_t b = 0; b < config.microbatch(); ++b) {
    const auto sequence = tokens.subspan(static_cast<std::size_t>(b * (m.length + 1)));
    inputs.insert(inputs.end(), sequence.begin(), sequence.begin() + m.length);
  }
  const PassSetting setting{.config = config,
                            .recipe = config.recipe,
                            .rounding = config.rounding,
                            .sequences = config.microbatch(),
                            .step = static_cast<std::uint64_t>(run->state.step * config.microbatches),
                            .threads = 1};
  const PassWeights weights = pass_weights(m, run->state.weights, 1);
  const ForwardPass pass = forward(setting, rotary_table(m.length, m.head_width()), weights, inputs);
  const auto keep = [&](const std::string& name, const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    run->observed[name].assign(bytes.begin(), bytes.end());
  };
  for (std::size_t l = 0; l < pass.layers.size(); ++l) {
    const LayerPass& layer = pass.layers[l];
    const std::string of = "layers." + std::to_string(l) + ".";
    const std::size_t rows = layer.routes.row_token.size();
    keep(of + "moe_u", layer.moe_norm.y);
    keep(of + "offsets", layer.routes.offsets), keep(of + "row_token", layer.routes.row_token);
    keep(of + "row_weight", layer.routes.row_weight), keep(of + "token_offsets", layer.routes.token_offsets);
    keep(of + "token_rows", layer.routes.token_rows);
    keep(of + "observed_h", std::vector<std::uint16_t>(rows * static_cast<std::size_t>(2 * m.inner)));
    keep(of + "observed_p", std::vector<float>(rows * static_cast<std::size_t>(m.inner)));
    keep(of + "observed_d_o",
         std::vector<std::uint16_t>(static_cast<std::size_t>(config.microbatch() * m.length * m.width)));
  }
  for (std::size_t p = 0; p < weights.bf16.size(); ++p) keep("weights_bf16." + std::to_string(p), weights.bf16[p]);
}

mxcheck_status read(mxcheck_train_run* run, const char* name, void* data, std::uint64_t* bytes, char* message,
                    std::uint64_t message_bytes) {
  const auto found = run->observed.find(name);
  if (found == run->observed.end())
    return say(MXCHECK_INVALID, std::string("there is no tensor ") + name, message, message_bytes);
  *bytes = found->second.size();
  if (data != nullptr && *bytes != 0) std::memcpy(data, found->second.data(), *bytes);
  return MXCHECK_OK;
}

mxcheck_status step(mxcheck_train_run* run, const mxcheck_train_step* input, mxcheck_train_outcome* out, char* message,
                    std::uint64_t bytes) {
  run->state.step = static_cast<std::int64_t>(input->step);
  run->state.updates = update_of(*run, *input) - 1;
  if (run->state.updates < 0) return say(MXCHECK_INVALID, "the corrections are of no update", message, bytes);
  // The rate as it comes: a peak that stays.
  run->config.optimizer.warm_up = 0;
  run->config.optimizer.peak_rate = run->config.optimizer.last_rate = input->rate;
  const std::int64_t size = run->config.batch * (run->config.model.length + 1);
  // Routes are those of every step, what is quantized of one that is to be observed.
  keep_observed(run, {input->tokens, static_cast<std::size_t>(size)});
  if (input->observe == 0) std::erase_if(run->observed, [](const auto& t) { return !t.first.ends_with("offsets"); });
  const StepOutcome o =
      training_step(run->config, run->state, {input->tokens, static_cast<std::size_t>(size)}, false, 1);
  out->loss = o.loss, out->balance_loss = o.balance_loss, out->gradient_norm = o.gradient_norm;
  out->updated = o.updated ? 1 : 0;
  out->layers = std::ssize(o.layers);
  out->weights_digest = o.weights_digest;
  std::copy(o.parameter_digests.begin(), o.parameter_digests.end(), out->parameter_digests);
  for (std::size_t l = 0; l < o.layers.size(); ++l) out->layer_digests[l] = o.layers[l].output_digest;
  return MXCHECK_OK;
}

mxcheck_status evaluate(mxcheck_train_run* run, mxcheck_train_evaluation* e, char* /*message*/,
                        std::uint64_t /*bytes*/) {
  const std::int64_t size = e->sequences * (run->config.model.length + 1);
  const Evaluation found = mxcheck::evaluate(run->config, run->state, layer_recipe_named(e->recipe),
                                             {e->tokens, static_cast<std::size_t>(size)}, 1);
  e->loss = found.loss;
  e->layers = std::ssize(found.routes);
  std::int32_t* to = e->routes;
  for (const std::vector<std::int32_t>& routes : found.routes) to = std::copy(routes.begin(), routes.end(), to);
  return MXCHECK_OK;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const mxcheck_train_table* mxcheck_train() {
  static const mxcheck_train_table table = [] {
    mxcheck_train_table t{};
    t.interface_version = MXCHECK_TRAIN_VERSION, t.size = sizeof(t);
    t.name = "reference", t.version = "test";
    t.create = create, t.destroy = [](mxcheck_train_run* run) { delete run; };
    t.parameter_size = [](const mxcheck_train_run* run, std::int64_t p) {
      return std::ssize(run->state.weights[static_cast<std::size_t>(p)]);
    };
    t.set_parameter = set_parameter, t.get_parameter = get_parameter;
    t.step = step, t.evaluate = evaluate, t.read = read;
#ifdef MXCHECK_EARLIER_TABLE
    t.size = offsetof(mxcheck_train_table, config_bytes);
#else
    t.config_bytes = sizeof(mxcheck_train_config);
#endif
    return t;
  }();
  return &table;
}
