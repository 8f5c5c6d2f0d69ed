#include "kernels/sm90/train/model/engine.h"

#include <utility>

#include "kernels/common/refusal.h"
#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/train/model/copies.h"

namespace mxcheck_kernels::sm90 {

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
  shape_ = pass_shape(model_, config.batch, model_.recipe.c_str(), model_.rule);
  const ExpertsBytes bytes = experts_bytes(experts_shape(model_, shape_, shape_.most_routed), true);
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
  if (config.evaluation_sequences > 0) make_evaluation();
  // All that was filled comes before work on a stream that does not wait for it. cudaDeviceSynchronize would end
  // another thread's capture of a graph, so that these two streams are waited for.
  require_success(cudaStreamSynchronize(cudaStreamLegacy));
  require_success(cudaStreamSynchronize(stream_));
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
  const ExpertsBytes bytes = experts_bytes_of_all(experts_shape(model_, most, most.most_routed));
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

}  // namespace mxcheck_kernels::sm90
