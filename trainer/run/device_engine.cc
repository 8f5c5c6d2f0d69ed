// A library of kernels/train.h as an engine: what only exact arithmetic gives is computed here, and passed to it.

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "kernels/train.h"
#include "numerics/error.h"
#include "reference/training/attention.h"
#include "reference/training/observe.h"
#include "reference/training/optimizer.h"
#include "reference/training/passes.h"
#include "trainer/run/engine.h"
#include "trainer/run/ranks.h"

namespace mxcheck {
namespace {

// The library stays loaded: CUDA's libraries do not survive being unloaded in every order.
const mxcheck_train_table& load_table(const std::string& library) {
  const auto refuse = [&](const std::string& what) { throw Error(ErrorKind::environment, library + ": " + what); };
  void* const loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) refuse(std::string("cannot be loaded: ") + dlerror());
  void* const symbol = dlsym(loaded, MXCHECK_TRAIN_SYMBOL);
  if (symbol == nullptr) refuse("has no symbol " MXCHECK_TRAIN_SYMBOL ": it is no library of kernels/train.h");
  const mxcheck_train_table* const table = reinterpret_cast<mxcheck_train_function>(symbol)();
  constexpr std::size_t kFirstSize = offsetof(mxcheck_train_table, config_bytes);
  if (table->interface_version != MXCHECK_TRAIN_VERSION || table->size < kFirstSize) {
    refuse("is of interface version " + std::to_string(table->interface_version) + "; " +
           std::to_string(MXCHECK_TRAIN_VERSION) + " is needed");
  }
  return *table;
}

// The members of a configuration that a library does not know: it would train something else.
void check_known(const mxcheck_train_table& table, const TrainingConfig& config) {
  const std::uint64_t known = table.size >= sizeof(mxcheck_train_table) ? table.config_bytes : 0;
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::usage,
                std::string(table.name) + ": was built before " + what + ": build it again, or train on the CPU");
  };
  if (config.bf16_last != 0 && known < offsetof(mxcheck_train_config, microbatches))
    refuse("layers could stay in BF16, and bf16_last is " + std::to_string(config.bf16_last));
  if (config.microbatches != 1 && known < sizeof(mxcheck_train_config))
    refuse("a batch could be cut, and microbatches are " + std::to_string(config.microbatches));
}

// The first GPU, as NVIDIA's driver names it in /proc.
std::string gpu_name() {
  std::error_code error;
  for (const auto& gpu : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", error)) {
    std::ifstream information(gpu.path() / "information");
    for (std::string line; std::getline(information, line);) {
      if (line.starts_with("Model:")) return line.substr(line.find_first_not_of(" \t", 6));
    }
  }
  return "a GPU without a name";
}

// An engine's place on one of several GPUs; on a host without several it is nothing.
class GpuPlace {
 public:
  explicit GpuPlace(std::shared_ptr<TrainingGpus> gpus) : gpus_(std::move(gpus)) {
    if (gpus_ != nullptr && !gpus_->are_several()) gpus_.reset();
    if (gpus_ != nullptr) number_ = gpus_->take();
  }
  ~GpuPlace() {
    if (gpus_ != nullptr) gpus_->give_back(number_);
  }
  GpuPlace(const GpuPlace&) = delete;
  GpuPlace& operator=(const GpuPlace&) = delete;

  // For the calls that this thread makes next: engines of one thread may be on different GPUs.
  void bind() const {
    if (gpus_ != nullptr) gpus_->bind(number_);
  }
  [[nodiscard]] std::string device() const { return gpus_ != nullptr ? gpus_->name(number_) : gpu_name(); }
  [[nodiscard]] std::string text() const { return gpus_ != nullptr ? " on GPU " + std::to_string(number_) : ""; }

 private:
  std::shared_ptr<TrainingGpus> gpus_;
  int number_ = 0;
};

class DeviceEngine final : public TrainingEngine {
 public:
  DeviceEngine(const TrainingConfig& config, const std::string& library, std::int64_t evaluation_sequences, int threads,
               const std::shared_ptr<TrainingGpus>& gpus, RankGroup* ranks)
      : config_(config),
        threads_(threads),
        gpu_(gpus),
        ranks_(ranks),
        table_(load_table(library)),
        rotary_(rotary_table(config.model.length, config.model.head_width())),
        parameters_(parameters_of(config.model).size()) {
    const ModelShape& m = config.model;
    mxcheck_train_config c{};
    c.size = sizeof(c);
    c.layers = m.layers, c.width = m.width, c.heads = m.heads, c.experts = m.experts;
    c.inner = m.inner, c.top_k = m.top_k, c.length = m.length, c.batch = config.batch;
    c.evaluation_sequences = evaluation_sequences;
    const std::string recipe = device_recipe(config.recipe);
    c.recipe = recipe.c_str();
    const std::string rounding(to_text(config.rounding));
    c.rounding = rounding.c_str(), c.tile = config.tile, c.seed = config.seed, c.balance = config.balance;
    const OptimizerConfig& o = config.optimizer;
    c.beta1 = o.beta1, c.beta2 = o.beta2, c.epsilon = o.epsilon, c.decay = o.decay, c.clip = o.clip;
    c.bf16_moments = o.moments == Format::bf16 ? 1 : 0;
    c.cosine = rotary_.cosine.data(), c.sine = rotary_.sine.data();
    c.bf16_last = config.bf16_last, c.microbatches = config.microbatches;
    if (ranks != nullptr) {
      c.ranks = ranks->ranks(), c.rank = ranks->rank();
      c.exchange = ranks->device_exchange();
    }
    check_known(table_, config);
    gpu_.bind();
    require(table_.create(&c, &run_, message_.data(), message_.size()), "training on the device");
  }
  ~DeviceEngine() override {
    try {
      gpu_.bind();
    } catch (const Error&) {  // a GPU that is lost: destroy() gives back what there is
    }
    table_.destroy(run_);
  }

  [[nodiscard]] std::string name() const override { return table_.name; }
  [[nodiscard]] std::string device() const override { return gpu_.device(); }
  [[nodiscard]] std::int64_t steps_done() const override { return step_; }

  void load(TrainingState state) override {
    gpu_.bind();
    for (std::size_t p = 0; p < parameters_; ++p) {
      require(table_.set_parameter(run_, static_cast<std::int64_t>(p), state.weights[p].data(),
                                   state.first_moments[p].data(), state.second_moments[p].data(), message_.data(),
                                   message_.size()),
              "a state's parameter");
    }
    step_ = state.step, updates_ = state.updates;
    state_ = std::move(state);
  }

  [[nodiscard]] const TrainingState& state() override {
    gpu_.bind();
    for (std::size_t p = 0; p < parameters_; ++p) {
      require(table_.get_parameter(run_, static_cast<std::int64_t>(p), state_.weights[p].data(),
                                   state_.first_moments[p].data(), state_.second_moments[p].data(), message_.data(),
                                   message_.size()),
              "a state's parameter");
    }
    state_.step = step_, state_.updates = updates_;
    return state_;
  }

  StepOutcome step(std::span<const std::uint8_t> tokens, bool observe) override {
    gpu_.bind();
    const OptimizerConfig& o = config_.optimizer;
    mxcheck_train_step input{};
    input.size = sizeof(input);
    input.tokens = tokens.data(), input.step = static_cast<std::uint64_t>(step_);
    input.rate = learning_rate(config_, step_);
    input.correction1 = bias_correction(o.beta1, updates_ + 1);
    input.correction2 = bias_correction(o.beta2, updates_ + 1);
    input.observe = observe && quantizes(config_.recipe) ? 1 : 0;
    // Observations are the first rank's; the others' would be of other microbatches.
    if (ranks_ != nullptr && ranks_->rank() != 0) observe = false;
    StepOutcome outcome;
    outcome.parameter_digests.resize(parameters_);
    std::vector<std::uint64_t> layers(static_cast<std::size_t>(config_.model.layers));
    mxcheck_train_outcome out{};
    out.size = sizeof(out);
    out.parameter_digests = outcome.parameter_digests.data(), out.layer_digests = layers.data();
    if (ranks_ != nullptr) ranks_->begin_device_step();
    const mxcheck_status status = table_.step(run_, &input, &out, message_.data(), message_.size());
    if (ranks_ != nullptr) ranks_->end_device_step();
    require(status, "a step");
    outcome.loss = out.loss, outcome.balance_loss = out.balance_loss, outcome.gradient_norm = out.gradient_norm;
    outcome.rate = input.rate;
    outcome.updated = out.updated != 0;
    outcome.skipped = outcome.updated ? 0 : parameter_count(config_.model);
    outcome.weights_digest = out.weights_digest;
    outcome.layers.resize(static_cast<std::size_t>(out.layers));
    // A step that ended in a layer has nothing of the backward pass.
    if (observe && out.layers == config_.model.layers) observe_layers(outcome.layers);
    for (std::size_t l = 0; l < outcome.layers.size(); ++l) outcome.layers[l].output_digest = layers[l];
    ++step_;
    updates_ += outcome.updated ? 1 : 0;
    return outcome;
  }

  Evaluation evaluate(const LayerRecipe& recipe, std::span<const std::uint8_t> tokens) override {
    gpu_.bind();
    const ModelShape& m = config_.model;
    mxcheck_train_evaluation e{};
    e.size = sizeof(e);
    e.tokens = tokens.data(), e.sequences = std::ssize(tokens) / (m.length + 1);
    const std::string text = device_recipe(recipe);
    e.recipe = text.c_str();
    const std::int64_t of_layer = e.sequences * m.length * m.top_k;
    routes_.resize(static_cast<std::size_t>(m.layers * of_layer));
    e.routes = routes_.data();
    require(table_.evaluate(run_, &e, message_.data(), message_.size()), "an evaluation");
    Evaluation evaluation;
    evaluation.loss = e.loss;
    for (std::int64_t l = 0; l < e.layers; ++l)
      evaluation.routes.emplace_back(routes_.begin() + l * of_layer, routes_.begin() + (l + 1) * of_layer);
    return evaluation;
  }

 private:
  void observe_layers(std::vector<LayerObservation>& layers) {
    const ReadTensor read = [this](const std::string& name) {
      std::uint64_t bytes = 0;
      require(table_.read(run_, name.c_str(), nullptr, &bytes, message_.data(), message_.size()), "an observation");
      std::vector<std::byte> data(bytes);
      require(table_.read(run_, name.c_str(), data.data(), &bytes, message_.data(), message_.size()), "an observation");
      return data;
    };
    for (std::size_t l = 0; l < layers.size(); ++l)
      layers[l] = observe_device_layer(config_, {step_, static_cast<std::int64_t>(l)}, read, threads_);
  }

  void require(mxcheck_status status, const char* what) const {
    if (status == MXCHECK_OK) return;
    const bool is_request = status == MXCHECK_INVALID || status == MXCHECK_UNSUPPORTED;
    throw Error(is_request ? ErrorKind::usage : ErrorKind::environment,
                std::string(table_.name) + gpu_.text() + ": " + what + ": " + message_.data());
  }

  TrainingConfig config_;
  int threads_;
  GpuPlace gpu_;
  RankGroup* ranks_;
  const mxcheck_train_table& table_;
  RotaryTable rotary_;
  std::size_t parameters_;
  mxcheck_train_run* run_ = nullptr;
  std::int64_t step_ = 0;
  std::int64_t updates_ = 0;
  TrainingState state_;
  std::vector<std::int32_t> routes_;  // of an evaluation
  mutable std::array<char, 512> message_{};
};

}  // namespace

std::unique_ptr<TrainingEngine> device_engine(const TrainingConfig& config, const std::string& library,
                                              std::int64_t evaluation_sequences, int threads,
                                              const std::shared_ptr<TrainingGpus>& gpus, RankGroup* ranks) {
  check(config);
  if (ranks != nullptr) check_ranks(config, ranks->ranks());
  return std::make_unique<DeviceEngine>(config, library, evaluation_sequences, threads, gpus, ranks);
}

namespace {

// The first `count` elements of a tensor.
template <class T>
std::vector<T> elements_of(const ReadTensor& read, const std::string& name, std::int64_t count) {
  const std::vector<std::byte> bytes = read(name);
  std::vector<T> values(static_cast<std::size_t>(count));
  if (bytes.size() < values.size() * sizeof(T)) {
    throw Error(ErrorKind::environment, "the tensor '" + name + "' of an observed step has " +
                                            std::to_string(bytes.size()) + " bytes; " +
                                            std::to_string(values.size() * sizeof(T)) + " are needed");
  }
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

// Before a size is made of them.
std::int64_t routed_rows(const std::vector<std::int64_t>& offsets, std::int64_t most) {
  if (offsets.front() == 0 && std::is_sorted(offsets.begin(), offsets.end()) && offsets.back() <= most)
    return offsets.back();
  throw Error(ErrorKind::environment, "the offsets of an observed step's experts are none: they begin with " +
                                          std::to_string(offsets.front()) + " and end with " +
                                          std::to_string(offsets.back()));
}

}  // namespace

namespace {

// "bf16", "e4m3.rceil"; empty for what kernels/train.h has no word for.
std::string word_of(const OperandRule& rule) {
  if (!rule.quantized()) return "bf16";
  constexpr std::array kFormats{Format::e4m3, Format::e5m2, Format::e2m1, Format::e2m3, Format::e3m2};
  const bool offered = std::find(kFormats.begin(), kFormats.end(), rule.format) != kFormats.end() &&
                       rule.block == BlockShape{1, 32} && (rule.scales == "rceil" || rule.scales == "floor") &&
                       rule.source == OperandSource::values;
  return offered ? std::string(spec(rule.format).name) + "." + rule.scales : "";
}

}  // namespace

std::string device_recipe(const LayerRecipe& recipe) {
  const auto all = all_layer_recipes();
  if (std::find(all.begin(), all.end(), recipe) != all.end()) return recipe.name;
  const auto refuse = [&](const std::string& what) {
    throw Error(
        ErrorKind::usage,
        "recipe '" + recipe.name + "', " + what +
            ": of recipes that are not built in, kernels have those whose operands are BF16, or e4m3, e5m2, e2m1, "
            "e2m3 or e3m2 in blocks of 1x32 with scales rceil or floor, under sm90_bf16 or sm90_bf16+decode, "
            "with X and H kept in BF16; the CPU computes all");
  };
  if (recipe.keeps_quantized_x || recipe.kept_h.quantized()) refuse("what is kept");
  std::string text = "mx32";
  for (const LayerGemmSpec& gemm : kLayerGemms) {
    const GemmRule& rule = recipe.gemm(gemm.value);
    const std::string of = "GEMM " + std::string(gemm.name);
    if (rule.contract != "sm90_bf16" && rule.contract != "sm90_bf16+decode") refuse(of + ", contract " + rule.contract);
    for (const auto& [operand, tensor] : {std::pair(&rule.a, gemm.a), std::pair(&rule.b, gemm.b)}) {
      const std::string word = word_of(*operand);
      if (word.empty()) refuse(of + ", operand " + std::string(tensor));
      text += " " + word;
    }
  }
  return text;
}

bool quantizes(const LayerRecipe& recipe) {
  return std::any_of(recipe.gemms.begin(), recipe.gemms.end(),
                     [](const GemmRule& gemm) { return gemm.a.quantized() || gemm.b.quantized(); });
}

LayerObservation observe_device_layer(const TrainingConfig& config, const LayerOfStep& at, const ReadTensor& read,
                                      int threads) {
  const auto [step, layer] = at;
  const ModelShape& m = config.model;
  const std::int64_t tokens = config.microbatch() * m.length;  // of the first microbatch
  const std::string of = "layers." + std::to_string(layer) + ".";
  LayerRoutes routes;
  routes.offsets = elements_of<std::int64_t>(read, of + "offsets", m.experts + 1);
  const std::int64_t rows = routed_rows(routes.offsets, tokens * m.experts);
  const LayerRecipe& recipe = recipe_of_layer(config, config.recipe, layer);
  if (!quantizes(recipe)) {
    LayerObservation loads;
    loads.expert_loads = expert_loads(routes);
    return loads;
  }
  routes.row_token = elements_of<std::int32_t>(read, of + "row_token", rows);
  routes.row_weight = elements_of<float>(read, of + "row_weight", rows);
  routes.token_offsets = elements_of<std::int64_t>(read, of + "token_offsets", tokens + 1);
  routes.token_rows = elements_of<std::int32_t>(read, of + "token_rows", rows);
  const auto x = elements_of<std::uint16_t>(read, of + "moe_u", tokens * m.width);
  const auto d_o = elements_of<std::uint16_t>(read, of + "observed_d_o", tokens * m.width);
  const auto h = elements_of<std::uint16_t>(read, of + "observed_h", rows * 2 * m.inner);
  const auto p = elements_of<float>(read, of + "observed_p", rows * m.inner);
  const LayerParameters parameters = parameters_of_layer(layer);
  const std::int64_t matrix = m.experts * m.width * m.inner;
  const auto w1 = elements_of<std::uint16_t>(read, "weights_bf16." + std::to_string(parameters.w1), 2 * matrix);
  const auto w2 = elements_of<std::uint16_t>(read, "weights_bf16." + std::to_string(parameters.w2), matrix);
  Layer computed{{tokens, m.width, m.inner, m.experts}, &recipe, GateUp::halves, w1, w2, threads};
  computed.random = {config.seed, static_cast<std::uint32_t>(step * config.microbatches),
                     static_cast<std::uint32_t>(layer)};
  return observe_layer(computed, x, d_o, routes, {h, p});
}

}  // namespace mxcheck
