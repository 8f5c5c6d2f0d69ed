#include "trainer/record/checkpoint.h"

#include <bit>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "goldens/json/json.h"
#include "numerics/error.h"
#include "numerics/one_line.h"
#include "reference/training/digest.h"
#include "trainer/config/config.h"
#include "trainer/record/sealed_file.h"

namespace mxcheck {
namespace {

using Tensors = std::vector<std::vector<float>>;

std::string size_objection(const ModelShape& model, const char* name, const Tensors& tensors) {
  const std::vector<ParameterSpec> specs = parameters_of(model);
  if (tensors.size() != specs.size()) {
    return std::string(name) + ": " + std::to_string(tensors.size()) + " tensors of " + std::to_string(specs.size());
  }
  for (std::size_t p = 0; p < specs.size(); ++p) {
    if (std::ssize(tensors[p]) != specs[p].size()) {
      return std::string(name) + ": " + specs[p].name + " has " + std::to_string(tensors[p].size()) + " elements of " +
             std::to_string(specs[p].size());
    }
  }
  return "";
}

std::string step_objection(const TrainingConfig& config, const TrainingState& state) {
  if (state.step >= 0 && state.step <= config.steps && state.updates >= 0 && state.updates <= state.step) return "";
  return "step " + std::to_string(state.step) + " and " + std::to_string(state.updates) + " updates of a run of " +
         std::to_string(config.steps) + " steps";
}

// All tensors' bits one after the other, in the order of the parameters.
std::vector<std::uint32_t> words_of(const Tensors& tensors) {
  std::vector<std::uint32_t> words;
  for (const std::vector<float>& tensor : tensors) {
    for (const float value : tensor) words.push_back(std::bit_cast<std::uint32_t>(value));
  }
  return words;
}

// A BF16 number widened has 16 zeros below.
std::vector<std::uint16_t> halves_of(const Tensors& tensors, const std::string& where) {
  std::vector<std::uint16_t> halves;
  for (const std::uint32_t word : words_of(tensors)) {
    if ((word & 0xFFFFU) != 0) throw Error(ErrorKind::usage, where + " holds what is no BF16 number");
    halves.push_back(static_cast<std::uint16_t>(word >> 16));
  }
  return halves;
}

void put_moments(SealedWriter& to, const char* name, Format format, const Tensors& moments, const std::string& path) {
  if (format == Format::bf16) {
    to.list<std::uint16_t>(name, "bfloat16", halves_of(moments, path + ": " + name));
  } else {
    to.list<std::uint32_t>(name, "float32", words_of(moments));
  }
}

std::vector<std::uint32_t> take_moments(const SealedReader& from, const char* name, Format format) {
  if (format != Format::bf16) return from.list<std::uint32_t>(name, "float32");
  std::vector<std::uint32_t> words;
  for (const std::uint16_t half : from.list<std::uint16_t>(name, "bfloat16"))
    words.push_back(std::uint32_t{half} << 16);
  return words;
}

// Cut into the configuration's parameters, whose elements are as many as the words.
Tensors tensors_of(const ModelShape& model, const std::vector<std::uint32_t>& words) {
  Tensors tensors;
  std::size_t at = 0;
  for (const ParameterSpec& p : parameters_of(model)) {
    std::vector<float> tensor(static_cast<std::size_t>(p.size()));
    for (float& value : tensor) value = std::bit_cast<float>(words[at++]);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// "model.width is 64, but 96": the first member in which two objects of the same kind differ, the second's last.
std::string first_difference(const Json& a, const Json& b, const std::string& place) {
  const auto* members = a.get_if<Json::Object>();
  if (members == nullptr || b.get_if<Json::Object>() == nullptr) {
    constexpr JsonStyle kLine{.indent = -1};
    const std::string of_a = to_text(a, kLine);
    const std::string of_b = to_text(b, kLine);
    return of_a == of_b ? "" : place + " is " + of_a + ", but " + of_b;
  }
  for (const auto& [key, value] : *members) {
    const Json* other = b.find(key);
    const std::string name = place.empty() ? key : place + "." + key;
    if (other == nullptr) return name + " is not in the other";
    if (std::string difference = first_difference(value, *other, name); !difference.empty()) return difference;
  }
  return a.size() == b.size() ? "" : place + " has other members";
}

Json json_of(const TrainingConfig& config) {
  constexpr int kDepth = 64;
  return parse_json(to_json(config), "configuration", kDepth, ErrorKind::internal);
}

SealedWriter written(const std::string& path, const Checkpoint& checkpoint) {
  const auto& [config, training_sha256, state] = checkpoint;
  std::string wrong = step_objection(config, state);
  if (wrong.empty()) wrong = size_objection(config.model, "weights", state.weights);
  if (wrong.empty()) wrong = size_objection(config.model, "first moments", state.first_moments);
  if (wrong.empty()) wrong = size_objection(config.model, "second moments", state.second_moments);
  if (!wrong.empty()) throw Error(ErrorKind::usage, path + ": no state of its configuration: " + wrong);
  SealedWriter to(path, kCheckpointKind);
  to.attribute("configuration", to_json(config));
  to.attribute("training_sha256", training_sha256);
  to.attribute("step", std::to_string(state.step));
  to.attribute("updates", std::to_string(state.updates));
  to.list<std::uint32_t>("weights", "float32", words_of(state.weights));
  put_moments(to, "first_moments", config.optimizer.moments, state.first_moments, path);
  put_moments(to, "second_moments", config.optimizer.moments, state.second_moments, path);
  return to;
}

}  // namespace

void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint) {
  written(path.string(), checkpoint).commit(0);
}

UnverifiedGolden contents_of(const Checkpoint& checkpoint) { return written("a checkpoint", checkpoint).contents(); }

Checkpoint read_checkpoint(const std::filesystem::path& path) {
  return checkpoint_in(SealedReader(path.string(), kCheckpointKind));
}

Checkpoint checkpoint_in(const SealedReader& from) {
  Checkpoint checkpoint;
  try {
    checkpoint.config = config_from_json(from.text("configuration"), from.path() + ": configuration");
  } catch (const Error& e) {
    throw Error(ErrorKind::input, e.what());
  }
  const TrainingConfig& config = checkpoint.config;
  TrainingState& state = checkpoint.state;
  checkpoint.training_sha256 = from.text("training_sha256");
  state.step = from.integer("step");
  state.updates = from.integer("updates");
  if (const std::string wrong = step_objection(config, state); !wrong.empty()) from.refuse(wrong);
  for (const auto& [name, format, tensors] :
       {std::tuple("weights", Format::fp32, &state.weights),
        std::tuple("first_moments", config.optimizer.moments, &state.first_moments),
        std::tuple("second_moments", config.optimizer.moments, &state.second_moments)}) {
    const std::vector<std::uint32_t> words = take_moments(from, name, format);
    if (parameter_count(config.model) != std::ssize(words)) {
      from.refuse(std::string(name) + " has " + std::to_string(words.size()) + " elements, but the configuration " +
                  std::to_string(parameter_count(config.model)) + " weights");
    }
    *tensors = tensors_of(config.model, words);
  }
  return checkpoint;
}

void check_belongs(const Checkpoint& checkpoint, const RunRecord& run, const std::filesystem::path& path) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::input, path.string() + ": " + one_line(what));
  };
  std::string difference = first_difference(json_of(checkpoint.config), json_of(run.config), "");
  if (difference.empty() && checkpoint.training_sha256 != run.training_sha256) {
    difference = "training_sha256 is " + checkpoint.training_sha256 + ", but " + run.training_sha256;
  }
  if (!difference.empty()) refuse("a checkpoint of another run: " + difference + " in the run");
  const std::int64_t step = checkpoint.state.step;
  if (step > std::ssize(run.steps)) {
    refuse("is of step " + std::to_string(step) + ", but the run has " + std::to_string(run.steps.size()) + " steps");
  }
  std::vector<std::uint64_t> digests;
  for (const std::vector<float>& tensor : checkpoint.state.weights) digests.push_back(tensor_digest(tensor));
  if (step > 0 && digest_of_digests(digests) != run.steps[static_cast<std::size_t>(step - 1)].weights) {
    refuse("its weights are not those that the run recorded after step " + std::to_string(step - 1));
  }
}

}  // namespace mxcheck
