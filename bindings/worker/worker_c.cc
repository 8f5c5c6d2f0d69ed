#include "bindings/worker/worker_c.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/candidate_dispatch.h"
#include "kernels/candidate_layer.h"
#include "kernels/candidate_matmul.h"
#include "kernels/candidate_moe.h"
#include "kernels/candidate_nvfp4.h"
#include "kernels/candidate_route.h"
#include "properties/process/confine.h"
#include "properties/process/wire.h"
#include "properties/process/worker.h"

namespace mxcheck {

// The interface of a kernel library over an interpreter's functions: a table whose operations put each call into the
// hooks' words and texts (worker_c.h) and ask the interpreter.

// One in a process: the interface's functions have no argument to find it by.
class Adapter final : public CandidateSource {
 public:
  explicit Adapter(mxcheck_worker_hooks& hooks) : hooks_(hooks) {}
  Loaded load() override;
  void in_thread(const std::function<void()>& work) override;
  // For the table's functions.
  mxcheck_status supports(int operation, const mxcheck_policy* policy, DLDataType wide);
  mxcheck_status run(int operation, const mxcheck_call& call);
  [[nodiscard]] const DLTensor* tensor(int i) const;
  static void answer();  // in the thread that in_thread was called in

 private:
  mxcheck_worker_hooks& hooks_;
  mxcheck_candidate_table table_{};
  const mxcheck_call* call_ = nullptr;
};
namespace {

Adapter* serving = nullptr;
std::string unconfined;

// A tensor of its own memory's length, shape and strides, whose data is the call's.
struct Managed {
  DLManagedTensor tensor{};
  std::array<std::int64_t, wire::kMaxDimensions> shape{};
  std::array<std::int64_t, wire::kMaxDimensions> strides{};
};

void* managed(const DLTensor& from) {
  auto made = std::make_unique<Managed>();
  DLTensor& to = made->tensor.dl_tensor;
  to = from;
  std::copy_n(from.shape, from.ndim, made->shape.begin());
  to.shape = made->shape.data();
  if (from.strides != nullptr) {
    std::copy_n(from.strides, from.ndim, made->strides.begin());
    to.strides = made->strides.data();
  }
  // torch takes data alone as the address, and no address of nothing.
  to.data = static_cast<char*>(from.data) + from.byte_offset;
  to.byte_offset = 0;
  made->tensor.manager_ctx = made.get();
  made->tensor.deleter = [](DLManagedTensor* self) { delete static_cast<Managed*>(self->manager_ctx); };
  return &made.release()->tensor;
}

}  // namespace
}  // namespace mxcheck

const char* mxcheck_worker_begin(std::int32_t gate) {
  mxcheck::begin_worker();
  mxcheck::unconfined = mxcheck::confine(gate);
  return mxcheck::unconfined.c_str();
}

std::int32_t mxcheck_worker_serve(mxcheck_worker_hooks* hooks, std::int32_t socket, std::int32_t shared,
                                  const char* gpu_model) {
  if (hooks == nullptr || hooks->size != sizeof(mxcheck_worker_hooks)) return 2;
  try {
    mxcheck::Adapter adapter(*hooks);
    mxcheck::serving = &adapter;
    const std::int32_t status =
        mxcheck::serve_candidate(adapter, socket, shared, gpu_model == nullptr ? "" : gpu_model, mxcheck::unconfined);
    mxcheck::serving = nullptr;
    return status;
  } catch (const std::exception&) {
    return 1;
  }
}

void mxcheck_worker_answer(void) { mxcheck::Adapter::answer(); }

void* mxcheck_worker_tensor(std::int32_t i) {
  if (mxcheck::serving == nullptr) return nullptr;
  const DLTensor* tensor = mxcheck::serving->tensor(i);
  return tensor == nullptr ? nullptr : mxcheck::managed(*tensor);
}

namespace mxcheck {
namespace {

constexpr int kMostOperations = wire::kMaxOperations;
constexpr std::int32_t kLacksDevice = 3;  // of hooks_.load()
constexpr int kWordsOfTensor = 10;
// A policy has at most 8 texts of 60 bytes, and with its tensors far fewer numbers (properties/core/policy.h).
constexpr std::int64_t kLeastWords = 4 + 32 + kWordsOfTensor * (wire::kMaxTensors + 1);
constexpr std::int64_t kLeastTextBytes = 640;

Adapter* adapter = nullptr;
thread_local const std::function<void()>* work_of_thread = nullptr;

// Writes numbers and texts one after the other.
class Words {
 public:
  explicit Words(const mxcheck_worker_hooks& hooks) : words_(hooks.words), texts_(hooks.texts) {}
  void add(std::int64_t word) { words_[count_++] = word; }
  void add(float value) { add(std::int64_t{std::bit_cast<std::uint32_t>(value)}); }
  void add(const char* text) {
    const std::size_t bytes = std::strlen(text) + 1;
    std::memcpy(texts_ + text_bytes_, text, bytes);
    text_bytes_ += bytes;
  }
  [[nodiscard]] std::int64_t count() const { return count_; }
  void set(std::int64_t at, std::int64_t word) { words_[at] = word; }
  // The texts, which the interpreter tells policies apart by, are filled with zeros to one length.
  void end_texts() { std::memset(texts_ + text_bytes_, 0, static_cast<std::size_t>(kLeastTextBytes) - text_bytes_); }

 private:
  std::int64_t* words_;
  char* texts_;
  std::int64_t count_ = 0;
  std::size_t text_bytes_ = 0;
};

template <class Struct>
const Struct& as(const mxcheck_policy& policy) {
  return *static_cast<const Struct*>(static_cast<const void*>(&policy));
}

void add_own_fields(std::string_view operation, const mxcheck_policy& policy, Words& w) {
  if (operation == "matmul") {
    const auto& p = as<mxcheck_matmul_policy>(policy);
    w.add(p.format_b);
    for (const std::int64_t n : {p.block_b_rows, p.block_b_cols, p.depth, std::int64_t{p.scale_type},
                                 std::int64_t{p.grouping}, std::int64_t{p.accumulate}})
      w.add(n);
    w.add(p.alpha);
  } else if (operation.starts_with("route")) {
    const auto& p = as<mxcheck_route_policy>(policy);
    w.add(p.rule);
    for (const std::int64_t n : {p.top_k, p.groups, p.groups_kept, std::int64_t{p.nan}, std::int64_t{p.bias}}) w.add(n);
    w.add(p.scale);
    for (const std::int64_t n : {std::int64_t{p.renormalize}, p.tile, p.capacity, static_cast<std::int64_t>(p.seed),
                                 static_cast<std::int64_t>(p.step), std::int64_t{p.layer}})
      w.add(n);
  } else if (operation == "aggregate") {
    w.add(std::int64_t{as<mxcheck_aggregate_policy>(policy).weighted});
  } else if (operation.starts_with("swiglu") || operation == "quantize_transposed") {
    if (policy.size < sizeof(mxcheck_swiglu_policy)) return;
    const auto& p = as<mxcheck_swiglu_policy>(policy);
    w.add(p.format_h), w.add(p.format_scaled);
    w.add(std::int64_t{p.gate_up}), w.add(std::int64_t{p.outputs});
  } else if (operation == "quantize_nvfp4") {
    if (policy.size < sizeof(mxcheck_nvfp4_policy)) return;
    const auto& p = as<mxcheck_nvfp4_policy>(policy);
    w.add(p.hadamard_sum);
    for (const std::int64_t n : {p.rounding, p.hadamard, p.hadamard_result, p.directions}) w.add(n);
    for (const std::uint32_t n : p.signs) w.add(std::int64_t{n});
    w.add(static_cast<std::int64_t>(p.seed)), w.add(static_cast<std::int64_t>(p.offset));
    for (const std::uint32_t n : {p.counter[0], p.counter[1], p.column_counter[0], p.column_counter[1]})
      w.add(std::int64_t{n});
  } else if (operation.starts_with("moe")) {
    const auto& p = as<mxcheck_moe_policy>(policy);
    for (const std::int64_t n : {p.inner, p.experts, p.routed, std::int64_t{p.gate_up}}) w.add(n);
  } else if (operation == "dispatch" || operation == "combine") {
    const auto& p = as<mxcheck_dispatch_policy>(policy);
    for (const std::int64_t n : {p.ranks, p.experts, p.routed, p.capacity, std::int64_t{p.weighted}}) w.add(n);
  }
}

void add_policy(std::string_view operation, const mxcheck_policy& p, Words& w) {
  const std::int64_t at = w.count();
  w.add(std::int64_t{0});
  w.add(p.format), w.add(p.recipe);
  for (const std::int64_t n : {p.rows, p.cols, std::int64_t{p.threads}, std::int64_t{p.layout}, p.block_rows,
                               p.block_cols, std::int64_t{p.pad_byte}})
    w.add(n);
  add_own_fields(operation, p, w);
  w.set(at, w.count() - at - 1);
  w.end_texts();
}

void add_tensor(const DLTensor& t, Words& w) {
  const auto* data = static_cast<const char*>(t.data);
  w.add(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(data) + t.byte_offset));
  w.add(std::int64_t{t.dtype.code}), w.add(std::int64_t{t.dtype.bits}), w.add(std::int64_t{t.ndim});
  for (int i = 0; i < wire::kMaxDimensions; ++i) w.add(i < t.ndim ? t.shape[i] : std::int64_t{1});
  std::array<std::int64_t, wire::kMaxDimensions> strides{1, 1, 1};
  std::int64_t step = 1;
  for (int i = t.ndim; i-- > 0; step *= t.shape[i]) {
    strides[static_cast<std::size_t>(i)] = t.strides != nullptr ? t.strides[i] : step;
  }
  for (const std::int64_t stride : strides) w.add(stride);
}

template <int kOperation>
mxcheck_status supports_at(const mxcheck_policy* policy, DLDataType wide) {
  return adapter->supports(kOperation, policy, wide);
}
template <int kOperation>
mxcheck_status run_at(const mxcheck_call* call) {
  return adapter->run(kOperation, *call);
}

template <int... kOperation>
void set_functions(std::vector<mxcheck_operation>& operations, std::integer_sequence<int, kOperation...>) {
  constexpr std::array supports{&supports_at<kOperation>...};
  constexpr std::array run{&run_at<kOperation>...};
  for (std::size_t i = 0; i < operations.size(); ++i) {
    operations[i].supports = supports[i], operations[i].workspace = nullptr, operations[i].run = run[i];
  }
}

}  // namespace

CandidateSource::Loaded Adapter::load() {
  adapter = this;
  Loaded loaded;
  loaded.adapted = true;
  if (hooks_.num_words < kLeastWords || hooks_.text_bytes < kLeastTextBytes) {
    loaded.problem = "is behind an adapter whose buffers are too small";
    return loaded;
  }
  if (const std::int32_t failed = hooks_.load(); failed != 0) {
    loaded.lacks_device = failed == kLacksDevice;
    loaded.problem = hooks_.problem != nullptr ? hooks_.problem : "cannot be loaded";
    return loaded;
  }
  if (hooks_.num_operations < 0 || hooks_.num_operations > kMostOperations) {
    loaded.problem = "has " + std::to_string(hooks_.num_operations) + " operations; 0 to " +
                     std::to_string(kMostOperations) + " are possible";
    return loaded;
  }
  static std::vector<mxcheck_operation> operations;
  operations.assign(hooks_.operations, hooks_.operations + hooks_.num_operations);
  set_functions(operations, std::make_integer_sequence<int, kMostOperations>());
  table_ = {MXCHECK_CANDIDATE_VERSION,
            sizeof(mxcheck_candidate_table),
            hooks_.name,
            hooks_.version,
            static_cast<DLDeviceType>(hooks_.device),
            hooks_.num_operations,
            operations.data()};
  loaded.table = &table_;
  loaded.captures = (hooks_.flags & MXCHECK_WORKER_CAPTURES) != 0;
  loaded.waits = (hooks_.flags & MXCHECK_WORKER_WAITS) != 0;
  loaded.static_shapes = (hooks_.flags & MXCHECK_WORKER_STATIC_SHAPES) != 0;
  loaded.files = hooks_.files == nullptr ? "" : hooks_.files;
  return loaded;
}

void Adapter::in_thread(const std::function<void()>& work) {
  work_of_thread = &work;
  hooks_.in_thread();
  work_of_thread = nullptr;
}

void Adapter::answer() {
  if (work_of_thread != nullptr) (*work_of_thread)();
}

mxcheck_status Adapter::supports(int operation, const mxcheck_policy* policy, DLDataType wide) {
  Words w(hooks_);
  for (int i = 0; i < 3; ++i) w.add(std::int64_t{0});
  add_policy(table_.operations[operation].name, *policy, w);
  return static_cast<mxcheck_status>(hooks_.supports(operation, wide.code, wide.bits));
}

mxcheck_status Adapter::run(int operation, const mxcheck_call& call) {
  Words w(hooks_);
  w.add(std::int64_t{call.num_inputs}), w.add(std::int64_t{call.num_outputs});
  w.add(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(call.stream)));
  add_policy(table_.operations[operation].name, *call.policy, w);
  call_ = &call;
  for (int i = 0; i < call.num_inputs + call.num_outputs; ++i) add_tensor(*tensor(i), w);
  hooks_.message[0] = '\0';
  const auto status = static_cast<mxcheck_status>(hooks_.run(operation));
  call_ = nullptr;
  if (status != MXCHECK_OK) std::snprintf(call.message, call.message_bytes, "%s", hooks_.message);
  return status;
}

const DLTensor* Adapter::tensor(int i) const {
  if (call_ == nullptr || i < 0 || i >= call_->num_inputs + call_->num_outputs) return nullptr;
  return i < call_->num_inputs ? call_->inputs + i : call_->outputs + (i - call_->num_inputs);
}

}  // namespace mxcheck
