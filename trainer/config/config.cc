#include "trainer/config/config.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "goldens/io/byte_source.h"
#include "goldens/json/json.h"
#include "goldens/layer/recipe_json.h"
#include "numerics/error.h"
#include "numerics/names.h"
#include "numerics/text.h"

namespace mxcheck {
namespace {

constexpr int kMaxDepth = 8;
constexpr std::uint64_t kMostBytes = 1 << 20;
constexpr std::int64_t kMostSize = 1 << 24;  // as check has it

constexpr OptimizerConfig kRateToZero{.peak_rate = 2e-3F, .last_rate = 0, .warm_up = 200};
constexpr std::array<TrainingPreset, 4> kPresets{{
    {"tiny",
     {2, 64, 2, 8, 32, 2, 64},
     4,
     10000,
     {},
     "a step in a tenth of a second on a CPU: 10,000 steps in CI's reach"},
    {"small", {2, 96, 3, 8, 48, 2, 128}, 4, 10000, {}, "0.35 M parameters: trajectories of engines are compared on it"},
    {"full", {4, 256, 4, 32, 128, 4, 256}, 16, 10000, {}, "14 M parameters, 4,096 tokens a step"},
    {kVerdictPreset, {4, 256, 4, 32, 128, 4, 256}, 128, 2000, kRateToZero, "the sizes of full, 32,768 tokens a step"},
}};

// The shortest decimal that is read as this FP32 number, as JSON's number. Reading rounds twice, to a double and then
// to FP32; where that ends elsewhere the decimal of the double that equals the number is written.
double short_number(float value) {
  std::array<char, 32> text{};
  std::to_chars(text.data(), text.data() + text.size() - 1, value);
  const double read = std::strtod(text.data(), nullptr);
  return static_cast<float>(read) == value ? read : double{value};
}

float number(JsonObject& o, const char* key) {
  const Json& value = o.required(key);
  if (const auto* x = value.get_if<double>()) return static_cast<float>(*x);
  if (const auto* x = value.get_if<std::int64_t>()) return static_cast<float>(*x);
  if (const auto* x = value.get_if<std::uint64_t>()) return static_cast<float>(*x);
  o.refuse(key, "is no number");
}

std::uint64_t counter(JsonObject& o, const char* key) {
  const Json& value = o.required(key);
  if (const auto* x = value.get_if<std::uint64_t>()) return *x;
  if (const auto* x = value.get_if<std::int64_t>(); x != nullptr && *x >= 0) return static_cast<std::uint64_t>(*x);
  o.refuse(key, "is no integer of 0 to 2^64 - 1");
}

Json model_json(const ModelShape& m) {
  return {{"layers", m.layers}, {"width", m.width}, {"heads", m.heads},  {"experts", m.experts},
          {"inner", m.inner},   {"top_k", m.top_k}, {"length", m.length}};
}
ModelShape model_from(const Json& json, const std::string& place) {
  JsonObject o(json, place);
  const auto size = [&](const char* key) { return o.integer(key, 1, kMostSize); };
  ModelShape m;
  m.layers = size("layers"), m.width = size("width"), m.heads = size("heads"), m.experts = size("experts");
  m.inner = size("inner"), m.top_k = size("top_k"), m.length = size("length");
  o.finish();
  return m;
}

Json optimizer_json(const OptimizerConfig& o) {
  return {{"peak_rate", short_number(o.peak_rate)},
          {"last_rate", short_number(o.last_rate)},
          {"warm_up", o.warm_up},
          {"beta1", short_number(o.beta1)},
          {"beta2", short_number(o.beta2)},
          {"epsilon", short_number(o.epsilon)},
          {"decay", short_number(o.decay)},
          {"clip", short_number(o.clip)},
          {"moments", spec(o.moments).name},
          {"skips_non_finite", o.skips_non_finite}};
}
OptimizerConfig optimizer_from(const Json& json, const std::string& place) {
  JsonObject o(json, place);
  OptimizerConfig c;
  c.peak_rate = number(o, "peak_rate"), c.last_rate = number(o, "last_rate");
  c.warm_up = o.integer("warm_up", 0, kMostSize);
  c.beta1 = number(o, "beta1"), c.beta2 = number(o, "beta2");
  c.epsilon = number(o, "epsilon"), c.decay = number(o, "decay"), c.clip = number(o, "clip");
  const std::string moments = o.text("moments");
  if (moments != "fp32" && moments != "bf16") o.refuse("moments", "is '" + moments + "'; fp32 or bf16 is needed");
  c.moments = moments == "bf16" ? Format::bf16 : Format::fp32;
  const Json& skips = o.required("skips_non_finite");
  if (skips.get_if<bool>() == nullptr) o.refuse("skips_non_finite", "is neither true nor false");
  c.skips_non_finite = *skips.get_if<bool>();
  o.finish();
  return c;
}

// An error of the action is thrown again as one of usage, its text after the place.
template <class Action>
auto at_place(const std::string& place, Action action) {
  try {
    return action();
  } catch (const Error& e) {
    throw Error(ErrorKind::usage, place + ": " + e.what());
  }
}

}  // namespace

std::string to_json(const TrainingConfig& c) {
  Json json{{"model", model_json(c.model)},
            {"batch", c.batch},
            {"steps", c.steps},
            {"seed", c.seed},
            {"perturb", c.perturb},
            {"recipe", layer_recipe_json(c.recipe)},
            {"rounding", to_text(c.rounding)},
            {"tile", c.tile},
            {"balance", short_number(c.balance)},
            {"optimizer", optimizer_json(c.optimizer)}};
  // Files of runs without them stay as they were.
  if (c.bf16_last != 0) json["bf16_last"] = c.bf16_last;
  if (c.microbatches != 1) json["microbatches"] = c.microbatches;
  return to_text(json);
}

TrainingConfig config_from_json(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where, kMaxDepth, ErrorKind::usage);
  JsonObject o(json, where + ": $");
  TrainingConfig c;
  c.model = model_from(o.required("model"), where + ": $.model");
  c.batch = o.integer("batch", 1, kMostSize);
  c.steps = o.integer("steps", 1, kMostSize);
  c.seed = counter(o, "seed");
  c.perturb = o.integer("perturb", kPerturbOrder, std::int64_t{1} << 62);
  c.recipe = layer_recipe_from(to_text(o.required("recipe")), where + ": $.recipe");
  if (o.has("bf16_last")) c.bf16_last = o.integer("bf16_last", 1, kMostSize);
  if (o.has("microbatches")) c.microbatches = o.integer("microbatches", 1, kMostSize);
  const std::string rounding = o.text("rounding");
  c.rounding = at_place(where + ": $.rounding", [&] { return token_rounding_rule_named(rounding); });
  c.tile = o.integer("tile", 1, kMostSize);
  c.balance = number(o, "balance");
  c.optimizer = optimizer_from(o.required("optimizer"), where + ": $.optimizer");
  o.finish();
  at_place(where, [&] {
    check(c);
    return 0;
  });
  return c;
}

TrainingConfig read_config(const std::string& path) {
  const FileSource file(path);
  if (file.size() > kMostBytes)
    throw Error(ErrorKind::input, path + ": has " + std::to_string(file.size()) + " bytes; at most 2^20 are read");
  return config_from_json(file.text(), path);
}

std::span<const TrainingPreset> all_training_presets() { return kPresets; }

TrainingConfig preset_named(std::string_view name) {
  const auto* const found =
      std::find_if(kPresets.begin(), kPresets.end(), [&](const TrainingPreset& p) { return p.name == name; });
  if (found == kPresets.end()) {
    throw Error(ErrorKind::usage,
                "there is no preset '" + std::string(name) + "'" + known_names(name, names_in(kPresets)));
  }
  TrainingConfig config;
  config.model = found->model;
  config.batch = found->batch;
  config.steps = found->steps;
  config.optimizer = found->optimizer;
  config.recipe = layer_recipe_named("bf16");
  return config;
}

// Memory: what reference/training keeps, by its headers.

namespace {

constexpr double kTensorOverhead = 256;  // bytes of a tensor's name and of the lists that it is in

// The bytes that a forward pass keeps of one token in one layer: the residual stream twice, the norms and attention in
// BF16, logits and the gradient of the balance loss, chosen experts, and H at a byte an element.
double bytes_of_token(const ModelShape& m) {
  const auto d = static_cast<double>(m.width), k = static_cast<double>(m.top_k);
  return 8 * d + 4 * d + 8 * d + 8 * static_cast<double>(m.experts) + 12 * k + 2 * k * static_cast<double>(m.inner);
}

double bytes_of_pass(const ModelShape& m, double sequences) {
  const auto length = static_cast<double>(m.length), layers = static_cast<double>(m.layers);
  const double probabilities = 2 * static_cast<double>(m.heads) * length * length;
  const double of_ends = 6 * static_cast<double>(m.width) + 4 * static_cast<double>(kVocabulary);
  return sequences * (layers * (length * bytes_of_token(m) + probabilities) + length * of_ends);
}

std::string gib(double bytes) { return fmt::format("{:.1f} GiB", bytes * 0x1p-30); }

std::string needs(const TrainingMemory& m) {
  return fmt::format("takes at least {} of memory (weights and moments {}, a step {}, an evaluation {})",
                     gib(m.total()), gib(m.state), gib(m.step), gib(m.evaluation));
}

// The least of the limits that are set.
double memory_of_process() {
  double most = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream in(file);
    double limit = 0;
    if (in >> limit && limit > 0) most = std::min(most, limit);  // "max" is no number
  }
  rlimit space{};
  if (::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    most = std::min(most, static_cast<double>(space.rlim_cur));
  return most;
}

}  // namespace

TrainingMemory training_memory(const TrainingConfig& config, std::int64_t validation_sequences) {
  const ModelShape& m = config.model;
  const auto weights = static_cast<double>(parameter_count(m));
  const auto length = static_cast<double>(m.length), sequences = static_cast<double>(validation_sequences);
  TrainingMemory memory;
  memory.state = 12 * weights + 7 * kTensorOverhead * static_cast<double>(m.layers);
  // A sum waits at each level of the microbatches' tree.
  const double sums = 1 + std::log2(static_cast<double>(config.microbatches));
  memory.step = (2 + 4 * sums) * weights + bytes_of_pass(m, static_cast<double>(config.microbatch()));
  memory.evaluation = 2 * weights + bytes_of_pass(m, std::min(sequences, static_cast<double>(kSequencesAtOnce))) +
                      sequences * (length + 1);
  return memory;
}

std::string memory_objection(const TrainingConfig& config, std::int64_t validation_sequences) {
  const TrainingMemory memory = training_memory(config, validation_sequences);
  return memory.total() <= kMostTrainingMemory ? ""
                                               : "a run of this configuration " + needs(memory) + "; at most " +
                                                     gib(kMostTrainingMemory) + " may be asked for";
}

void require_memory(const TrainingConfig& config, std::int64_t validation_sequences) {
  const TrainingMemory memory = training_memory(config, validation_sequences);
  const double there = memory_of_process();
  if (memory.total() <= there) return;
  throw Error(ErrorKind::environment, "out of memory: a run of this configuration " + needs(memory) + "; there is " +
                                          gib(there) + ": take smaller sizes, or a machine with more");
}

}  // namespace mxcheck
