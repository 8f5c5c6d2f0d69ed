#include "benchmarks/sm90/moe/device_layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <vector>

#include "benchmarks/sm90/common/fill.h"
#include "numerics/error.h"

namespace mxcheck::bench {
namespace {

template <class T>
DeviceBuffer uploaded(const std::vector<T>& values) {
  DeviceBuffer buffer(values.size() * sizeof(T));
  check_cuda(cudaMemcpy(buffer.data(), values.data(), buffer.bytes(), cudaMemcpyHostToDevice), "upload");
  return buffer;
}

}  // namespace

LayerMemory::LayerMemory(const MoeShape& shape, const LayerRoutes& routes) {
  // The tensors of bf16 stand for every recipe's: what is shared does not depend on the recipe.
  const MoeTensors tensors = moe_tensors(shape, layer_recipe_named("bf16"));
  std::uint32_t seed = 1;
  for (const MoeTensor& t : tensors.given) {
    DeviceBuffer& buffer = buffers_.try_emplace(t.name, t.bytes()).first->second;
    const double sums = t.name == "w1" ? static_cast<double>(shape.width) : static_cast<double>(shape.inner);
    const bool weights = t.name == "w1" || t.name == "w2";
    fill_normal(buffer.data(), t.elements(), weights ? static_cast<float>(1 / std::sqrt(sums)) : 1, seed++, nullptr);
  }
  for (const auto* list : {&tensors.forward, &tensors.backward}) {
    for (const MoeTensor& t : *list) {
      const DeviceBuffer& buffer = buffers_.try_emplace(t.name, t.bytes()).first->second;
      check_cuda(cudaMemset(buffer.data(), 0xA5, t.bytes()), "poison");
    }
  }
  buffers_.try_emplace("row_token", uploaded(routes.row_token));
  buffers_.try_emplace("row_weight", uploaded(routes.row_weight));
  buffers_.try_emplace("token_offsets", uploaded(routes.token_offsets));
  buffers_.try_emplace("token_rows", uploaded(routes.token_rows));
  buffers_.try_emplace("offsets", uploaded(routes.offsets));
  check_cuda(cudaDeviceSynchronize(), "filling");  // streams that do not wait for the default one come after it
}

void* LayerMemory::find(const std::string& name) const {
  const auto found = buffers_.find(name);
  return found == buffers_.end() ? nullptr : found->second.data();
}

void LayerMemory::reserve_workspace(std::uint64_t bytes) {
  if (workspace_ != nullptr && workspace_->bytes() >= bytes) return;
  workspace_.reset();
  workspace_ = std::make_unique<DeviceBuffer>(bytes);
  check_cuda(cudaMemset(workspace_->data(), 0xA5, bytes), "workspace");
  check_cuda(cudaDeviceSynchronize(), "workspace");
}

// --- passes

namespace {

mxcheck_moe_policy policy_of(const LayerRecipe& recipe, mxcheck_gate_up gate_up) {
  mxcheck_moe_policy p{};
  p.policy.size = sizeof p;
  p.policy.layout = MXCHECK_COMPACT;
  p.policy.format = "";
  p.policy.recipe = recipe.name.c_str();
  p.gate_up = gate_up;
  return p;
}

const MoeTensor* tensor_named(const MoeTensors& t, std::string_view name) {
  for (const auto* list : {&t.given, &t.routes, &t.kept, &t.forward, &t.backward}) {
    const auto found = std::ranges::find(*list, name, &MoeTensor::name);
    if (found != list->end()) return &*found;
  }
  return nullptr;
}

}  // namespace

const mxcheck_operation& moe_operation(Direction direction) {
  const std::string_view name = direction == Direction::forward ? "moe_forward" : "moe_backward";
  const mxcheck_candidate_table& table = *mxcheck_candidate();
  const std::span all(table.operations, static_cast<std::size_t>(table.num_operations));
  const auto found = std::ranges::find_if(all, [&](const mxcheck_operation& o) { return o.name == name; });
  if (found == all.end()) throw Error(ErrorKind::environment, fmt::format("{} has no {}", table.name, name));
  return *found;
}

bool moe_library_offers(const LayerRecipe& recipe, mxcheck_gate_up gate_up, WeightsOfCalls weights) {
  mxcheck_moe_kept_policy kept{policy_of(recipe, gate_up), {MXCHECK_WEIGHTS_KEEP, 0, nullptr, 0}};
  if (weights != WeightsOfCalls::read) kept.moe.policy.size = sizeof kept;
  const mxcheck_moe_policy& policy = kept.moe;
  return std::ranges::all_of(std::array{Direction::forward, Direction::backward}, [&](Direction d) {
    const mxcheck_operation& o = moe_operation(d);
    return o.supports == nullptr || o.supports(&policy.policy, {kDLBfloat, 16, 1}) == MXCHECK_OK;
  });
}

std::string moe_library_name() {
  const mxcheck_candidate_table& table = *mxcheck_candidate();
  return fmt::format("{} {}", table.name, table.version);
}

PassOnDevice::PassOnDevice(Direction direction, const MoeTensors& tensors, const mxcheck_moe_policy& policy,
                           WeightsOfCalls weights, const std::map<std::string, DeviceBuffer>& kept,
                           const LayerMemory& memory)
    : operation_(moe_operation(direction)),
      policy_{policy, {}},
      of_calls_(weights),
      memory_(memory),
      report_(sizeof(mxcheck_device_report)) {
  check_cuda(cudaMemset(report_.data(), 0, report_.bytes()), "report");
  for (const std::string& name : moe_inputs(tensors, direction)) inputs_.push_back(bound(tensors, name, kept));
  for (const std::string& name : moe_outputs(tensors, direction)) outputs_.push_back(bound(tensors, name, kept));
  if (weights == WeightsOfCalls::read) return;
  policy_.moe.policy.size = sizeof policy_;
  policy_.kept.mode = MXCHECK_WEIGHTS_BYTES;
  policy_.kept.bytes = workspace_bytes();
  weights_ = std::make_unique<DeviceBuffer>(policy_.kept.bytes);
  policy_.kept.memory = weights_->data();
  policy_.kept.mode = MXCHECK_WEIGHTS_KEEP;
}

DLTensor PassOnDevice::bound(const MoeTensors& tensors, const std::string& name,
                             const std::map<std::string, DeviceBuffer>& kept) {
  const MoeTensor* const described = tensor_named(tensors, name);
  const auto own = kept.find(name);
  void* const data = own != kept.end() ? own->second.data() : memory_.find(name);
  if (described == nullptr || data == nullptr) throw Error(ErrorKind::internal, "no memory for " + name);
  data_.emplace(name, data);
  DLTensor t{};
  t.data = data, t.device = {kDLCUDA, 0}, t.dtype = described->type;
  t.ndim = static_cast<int>(described->shape.size()), t.shape = shapes_.emplace_back(described->shape).data();
  return t;
}

mxcheck_call PassOnDevice::call(cudaStream_t stream) {
  mxcheck_call c{};
  c.size = sizeof c;
  c.num_inputs = static_cast<std::int32_t>(inputs_.size()), c.num_outputs = static_cast<std::int32_t>(outputs_.size());
  c.policy = &policy_.moe.policy;
  c.inputs = inputs_.data(), c.outputs = outputs_.data();
  c.message = message_.data(), c.message_bytes = message_.size();
  c.report = static_cast<mxcheck_device_report*>(report_.data());
  if (const DeviceBuffer* const w = memory_.workspace(); w != nullptr) {
    c.workspace = w->data(), c.workspace_bytes = w->bytes();
  }
  c.stream = stream;
  return c;
}

std::uint64_t PassOnDevice::workspace_bytes() {
  if (operation_.workspace == nullptr) return 0;
  if (policy_.kept.mode == MXCHECK_WEIGHTS_KEEP && policy_.kept.memory != nullptr) {  // of both kinds of calls
    policy_.kept.mode = MXCHECK_WEIGHTS_KEPT;
    const std::uint64_t using_them = workspace_bytes();
    policy_.kept.mode = MXCHECK_WEIGHTS_KEEP;
    return std::max(using_them, asked_bytes());
  }
  return asked_bytes();
}

std::uint64_t PassOnDevice::asked_bytes() {
  const mxcheck_call c = call(nullptr);
  std::uint64_t bytes = 0;
  if (operation_.workspace(&c, &bytes) != MXCHECK_OK) {
    throw Error(ErrorKind::internal, fmt::format("{}: {}", operation_.name, message_.data()));
  }
  return bytes;
}

void PassOnDevice::enqueue(cudaStream_t stream) {
  if (of_calls_ != WeightsOfCalls::read && !has_kept_) {
    run(stream);
    has_kept_ = true;
    policy_.kept.mode = of_calls_ == WeightsOfCalls::kept ? MXCHECK_WEIGHTS_KEPT : MXCHECK_WEIGHTS_CHECKED;
  }
  run(stream);
}

void PassOnDevice::run(cudaStream_t stream) {
  const mxcheck_call c = call(stream);
  if (operation_.run(&c) != MXCHECK_OK) {
    throw Error(ErrorKind::internal, fmt::format("{}: {}", operation_.name, message_.data()));
  }
}

mxcheck_kernels::sm90::MoePlan PassOnDevice::plan() {
  const bool forward = operation_.name == std::string_view("moe_forward");
  return plan_by(forward ? mxcheck_kernels::sm90::moe_forward_plan : mxcheck_kernels::sm90::moe_backward_plan, false);
}

mxcheck_kernels::sm90::MoePlan PassOnDevice::plan_by(const PlanOf& plan_of, bool for_sizes) {
  planned_ = call(nullptr);
  if (for_sizes) planned_.workspace = nullptr;
  return plan_of(planned_);
}

std::string PassOnDevice::report() {
  check_cuda(cudaDeviceSynchronize(), operation_.name);
  mxcheck_device_report found{};
  check_cuda(cudaMemcpy(&found, report_.data(), sizeof found, cudaMemcpyDeviceToHost), "report");
  return found.status == MXCHECK_OK ? "" : found.message;
}

void* PassOnDevice::data(const std::string& name) const {
  const auto found = data_.find(name);
  return found == data_.end() ? nullptr : found->second;
}

RecipeOnDevice::RecipeOnDevice(const MoeShape& shape, const LayerRecipe& recipe, mxcheck_gate_up gate_up,
                               WeightsOfCalls weights, const LayerMemory& memory)
    : recipe_(recipe), tensors_(moe_tensors(shape, recipe)), policy_(policy_of(recipe, gate_up)) {
  policy_.policy.rows = shape.tokens, policy_.policy.cols = shape.width;
  policy_.inner = shape.inner, policy_.experts = shape.experts, policy_.routed = shape.rows();
  for (const MoeTensor& t : tensors_.kept) {
    const DeviceBuffer& buffer = kept_.try_emplace(t.name, t.bytes()).first->second;
    check_cuda(cudaMemset(buffer.data(), 0xA5, t.bytes()), "poison");
  }
  for (const Direction direction : {Direction::forward, Direction::backward}) {
    passes_.emplace_back(direction, tensors_, policy_, weights, kept_, memory);
  }
}

std::uint64_t RecipeOnDevice::workspace_bytes() {
  return std::max(pass(Direction::forward).workspace_bytes(), pass(Direction::backward).workspace_bytes());
}

}  // namespace mxcheck::bench
