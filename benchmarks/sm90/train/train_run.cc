#include "benchmarks/sm90/train/train_run.h"

#include <dlfcn.h>

#include "numerics/error.h"
#include "reference/training/attention.h"
#include "reference/training/optimizer.h"
#include "reference/training/state.h"

namespace mxcheck::bench {
namespace {

TrainingConfig full_model(const std::string& recipe, std::int64_t batch, std::uint64_t seed) {
  TrainingConfig c;
  c.model = {.layers = 4, .width = 256, .heads = 4, .experts = 32, .inner = 128, .top_k = 4, .length = 256};
  c.batch = batch;
  c.steps = 10000;
  c.seed = seed;
  c.recipe = layer_recipe_named(recipe);
  return c;
}

}  // namespace

const mxcheck_train_table& load_train(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error(ErrorKind::environment, std::string("cannot load the library: ") + dlerror());
  void* const symbol = dlsym(library, MXCHECK_TRAIN_SYMBOL);
  if (symbol == nullptr) throw Error(ErrorKind::environment, path + " has no symbol " MXCHECK_TRAIN_SYMBOL);
  const mxcheck_train_table& table = *reinterpret_cast<mxcheck_train_function>(symbol)();
  if (table.interface_version != MXCHECK_TRAIN_VERSION) {
    throw Error(ErrorKind::environment, path + " is of interface version " + std::to_string(table.interface_version));
  }
  return table;
}

TrainRun::TrainRun(const mxcheck_train_table& table, const std::string& recipe, const std::string& rounding,
                   std::int64_t batch, std::uint64_t seed)
    : table_(table), config_(full_model(recipe, batch, seed)) {
  create(rounding);
  const TrainingState state = initial_state(config_);
  for (std::size_t p = 0; p < state.weights.size(); ++p) {
    require_ok(table_.set_parameter(run_, static_cast<std::int64_t>(p), state.weights[p].data(),
                                    state.first_moments[p].data(), state.second_moments[p].data(), message_,
                                    sizeof(message_)));
  }
  for (std::int64_t i = 0; i < config_.batch * (config_.model.length + 1); ++i)
    data_.push_back(static_cast<std::uint8_t>(i * i % 251));
}
TrainRun::~TrainRun() { table_.destroy(run_); }

void TrainRun::create(const std::string& rounding) {
  const RotaryTable rotary = rotary_table(config_.model.length, config_.model.head_width());
  const ModelShape& m = config_.model;
  const OptimizerConfig& o = config_.optimizer;
  mxcheck_train_config c{};
  c.size = sizeof(c);
  c.layers = m.layers, c.width = m.width, c.heads = m.heads, c.experts = m.experts;
  c.inner = m.inner, c.top_k = m.top_k, c.length = m.length, c.batch = config_.batch;
  c.recipe = config_.recipe.name.c_str(), c.rounding = rounding.c_str(), c.tile = config_.tile;
  c.seed = config_.seed, c.balance = config_.balance;
  c.beta1 = o.beta1, c.beta2 = o.beta2, c.epsilon = o.epsilon, c.decay = o.decay, c.clip = o.clip;
  c.cosine = rotary.cosine.data(), c.sine = rotary.sine.data();
  require_ok(table_.create(&c, &run_, message_, sizeof(message_)));
}

void TrainRun::require_ok(mxcheck_status status) const {
  if (status == MXCHECK_OK) return;
  throw Error(ErrorKind::environment, "the library: status " + std::to_string(status) + ", " + message_);
}

void TrainRun::step() {
  mxcheck_train_step input{};
  input.size = sizeof(input);
  input.tokens = data_.data();
  input.step = static_cast<std::uint64_t>(steps_);
  input.rate = learning_rate(config_, steps_);
  ++steps_;
  input.correction1 = bias_correction(config_.optimizer.beta1, steps_);
  input.correction2 = bias_correction(config_.optimizer.beta2, steps_);
  mxcheck_train_outcome outcome{};
  outcome.size = sizeof(outcome);
  require_ok(table_.step(run_, &input, &outcome, message_, sizeof(message_)));
  loss_ = outcome.loss;
}

}  // namespace mxcheck::bench
