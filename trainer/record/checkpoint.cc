#include "trainer/record/checkpoint.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <mutex>
#include <numeric>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "goldens/format/writer.h"
#include "goldens/io/sha256.h"
#include "goldens/json/json.h"
#include "numerics/byte_stream.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/text.h"
#include "reference/training/observe.h"
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
  std::size_t elements = 0;
  for (const std::vector<float>& tensor : tensors) elements += tensor.size();
  std::vector<std::uint32_t> words;
  words.reserve(elements);  // gigabytes of a large model: not copied as the list grows
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
  if (const std::string wrong = memory_objection(config, 1); !wrong.empty()) from.refuse(wrong);
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
  std::string difference = first_difference(checkpoint.config, run.config);
  if (difference.empty() && checkpoint.training_sha256 != run.training_sha256) {
    difference = "training_sha256 is " + checkpoint.training_sha256 + ", but " + run.training_sha256;
  }
  if (!difference.empty()) refuse("a checkpoint of another run: " + difference + " in the run");
  const std::int64_t step = checkpoint.state.step;
  if (step < run.first_step() || step > run.steps_done()) {
    refuse("is of step " + std::to_string(step) + ", but the run has " + std::to_string(run.steps.size()) + " steps" +
           (run.branch ? " from " + std::to_string(run.branch->step) + " on" : ""));
  }
  if (step > run.first_step() && weights_digest(checkpoint.state) != run.step(step - 1).weights) {
    refuse("its weights are not those that the run recorded after step " + std::to_string(step - 1));
  }
}

std::string first_difference(const TrainingConfig& a, const TrainingConfig& b) {
  return first_difference(json_of(a), json_of(b), "");
}

std::uint64_t weights_digest(const TrainingState& state) {
  std::vector<std::uint64_t> digests;
  for (const std::vector<float>& tensor : state.weights) digests.push_back(tensor_digest(tensor));
  return digest_of_digests(digests);
}

namespace {

constexpr const char* kVersionKey = "file_version";
constexpr const char* kHashKey = "content_sha256";

template <class T>
constexpr Format dtype_of() {
  if constexpr (std::is_same_v<T, std::uint8_t>) return Format::uint8;
  if constexpr (std::is_same_v<T, std::uint16_t>) return Format::uint16;
  if constexpr (std::is_same_v<T, std::uint32_t>) return Format::uint32;
  if constexpr (std::is_same_v<T, std::int32_t>) return Format::int32;
  if constexpr (std::is_same_v<T, std::int64_t>) return Format::int64;
}

// libhdf5 as Debian builds it has no locks of its own, and a child that reads is forked: one thread at a time.
std::mutex& hdf5_mutex() {
  static std::mutex mutex;
  return mutex;
}

// Whatever order they are in.
template <class List, class Name>
std::vector<std::size_t> by_name(const List& list, Name name) {
  std::vector<std::size_t> order(list.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return name(list[a]) < name(list[b]); });
  return order;
}

}  // namespace

std::string content_sha256(const UnverifiedGolden& contents) {
  const Attributes& attributes = contents.info.attributes;
  const std::vector<DatasetInfo>& sets = contents.info.datasets;
  ByteWriter head;
  head.text(contents.kind);
  for (const std::size_t i : by_name(attributes, [](const auto& a) { return a.first; })) {
    if (attributes[i].first != kHashKey) head.text(attributes[i].first), head.text(attributes[i].second);
  }
  Sha256 hash;
  hash.update(head.bytes());
  for (const std::size_t i : by_name(sets, [](const DatasetInfo& set) { return set.name; })) {
    ByteWriter to;
    to.text(sets[i].name), to.text(sets[i].format), to.text(safetensors_name(sets[i].dtype));
    to.text(shape_to_text(sets[i].shape));
    to.number<std::uint64_t>(contents.data[i].size());
    hash.update(to.bytes());
    hash.update(contents.data[i]);
  }
  return hash.hex();
}

SealedWriter::SealedWriter(std::string path, std::string kind) : path_(std::move(path)) {
  contents_.kind = std::move(kind);
  attribute(kVersionKey, kSealedVersion);
}

void SealedWriter::attribute(const std::string& key, const std::string& value) {
  contents_.info.attributes.emplace_back(key, value);
}

template <class T>
void SealedWriter::add(const std::string& name, const char* format, std::vector<std::int64_t> shape,
                       std::span<const T> values) {
  contents_.info.datasets.push_back({name, Role::output, format, dtype_of<T>(), std::move(shape), {}});
  contents_.data.push_back(to_bytes(values));
}

UnverifiedGolden SealedWriter::contents() const {
  UnverifiedGolden sealed = contents_;
  sealed.info.attributes.emplace_back(kHashKey, content_sha256(contents_));
  return sealed;
}

void SealedWriter::commit(int compression) {
  attribute(kHashKey, content_sha256(contents_));
  const std::lock_guard lock(hdf5_mutex());
  GoldenWriter writer(path_, contents_.info, {.compression = compression, .file_kind = contents_.kind.c_str()});
  for (std::size_t i = 0; i < contents_.data.size(); ++i) {
    if (!contents_.data[i].empty()) writer.append(i, contents_.data[i]);
  }
  writer.commit();
}

SealedReader::SealedReader(std::string path, const std::string& kind)
    : SealedReader(path, kind, [&] {
        const std::lock_guard lock(hdf5_mutex());
        return read_unverified(path);
      }()) {}

SealedReader::SealedReader(std::string path, const std::string& kind, UnverifiedGolden contents)
    : path_(std::move(path)), contents_(std::move(contents)) {
  if (contents_.kind != kind) refuse("is of kind '" + contents_.kind + "', not '" + kind + "'");
  if (text(kVersionKey) != kSealedVersion) {
    refuse("has file version '" + text(kVersionKey) + "'; this build reads version " + kSealedVersion);
  }
  for (const DatasetInfo& set : contents_.info.datasets) {  // what the hash is not of
    if (set.role != Role::output || !set.attributes.empty()) refuse(set.name + " has attributes of its own");
  }
  if (const std::string hash = content_sha256(contents_); hash != text(kHashKey)) {
    refuse("was altered: its contents have SHA-256 " + hash + ", but " + text(kHashKey) + " is in it");
  }
}

void SealedReader::refuse(const std::string& what) const {
  throw Error(ErrorKind::input, path_ + ": " + one_line(what));
}

bool SealedReader::has(const std::string& key) const {
  const Attributes& all = contents_.info.attributes;
  return std::any_of(all.begin(), all.end(), [&](const auto& attribute) { return attribute.first == key; });
}

const std::string& SealedReader::text(const std::string& key) const {
  for (const auto& [name, value] : contents_.info.attributes) {
    if (name == key) return value;
  }
  refuse("has no attribute '" + key + "'");
}

std::int64_t SealedReader::integer(const std::string& key) const {
  const auto value = parse_number<std::int64_t>(text(key));
  if (!value) refuse("attribute '" + key + "' is '" + text(key) + "', no decimal integer of 64 bits");
  return *value;
}

double SealedReader::number(const std::string& key) const {
  const auto value = parse_number<double>(text(key));
  if (!value) refuse("attribute '" + key + "' is '" + text(key) + "', no decimal number");
  return *value;
}

std::size_t SealedReader::find(const std::string& name, const char* format, std::size_t rank) const {
  for (std::size_t i = 0; i < contents_.data.size(); ++i) {
    const DatasetInfo& set = contents_.info.datasets[i];
    if (set.name != name) continue;
    if (set.format == format && set.shape.size() == rank) return i;
    refuse(name + " has format '" + set.format + "' and shape " + shape_to_text(set.shape) + "; wanted are '" + format +
           "' and rank " + std::to_string(rank));
  }
  refuse("has no dataset '" + name + "'");
}

template <class T>
std::vector<T> SealedReader::list(const std::string& name, const char* format) const {
  const std::size_t at = find(name, format, 1);
  if (contents_.info.datasets[at].dtype != dtype_of<T>()) refuse(name + " has elements of another type");
  return values_in<T>(contents_.data[at]);
}

template <class T>
std::vector<T> SealedReader::table(const std::string& name, const char* format, std::int64_t rows,
                                   std::int64_t cols) const {
  const std::size_t at = find(name, format, 2);
  const DatasetInfo& set = contents_.info.datasets[at];
  if (set.dtype != dtype_of<T>()) refuse(name + " has elements of another type");
  if (set.shape[0] != rows || set.shape[1] != cols) {
    refuse(name + " is " + shape_to_text(set.shape) + ", but " + std::to_string(rows) + " x " + std::to_string(cols) +
           " by the rest of the file");
  }
  return values_in<T>(contents_.data[at]);
}

#define MXCHECK_SEALED_ELEMENT(T)                                                                                     \
  template void SealedWriter::add<T>(const std::string&, const char*, std::vector<std::int64_t>, std::span<const T>); \
  template std::vector<T> SealedReader::list<T>(const std::string&, const char*) const;                               \
  template std::vector<T> SealedReader::table<T>(const std::string&, const char*, std::int64_t, std::int64_t) const;
MXCHECK_SEALED_ELEMENT(std::uint8_t)
MXCHECK_SEALED_ELEMENT(std::uint16_t)
MXCHECK_SEALED_ELEMENT(std::uint32_t)
MXCHECK_SEALED_ELEMENT(std::int32_t)
MXCHECK_SEALED_ELEMENT(std::int64_t)
#undef MXCHECK_SEALED_ELEMENT

}  // namespace mxcheck
