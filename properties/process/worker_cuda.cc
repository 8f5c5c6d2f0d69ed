#include "properties/process/worker_cuda.h"

#include <dlfcn.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/candidate_matmul.h"
#include "properties/process/cuda_driver.h"

namespace mxcheck {
namespace {

constexpr std::uint8_t kGarbage = 0x5A;  // what memory holds before anything of the call is in it

template <std::size_t kSize>
void worker_cuda_copy_text(char (&to)[kSize], const std::string& from) {
  std::snprintf(to, kSize, "%s", from.c_str());
}

// Holds a stream back until release, for three seconds at most: a library that waits for the stream would else never
// return.
class Barrier {
 public:
  Barrier() : watch_([this] { watch(); }) {}
  ~Barrier() {
    release();
    watch_.join();
  }
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;

  static void hold(void* self) {  // as a function of the stream
    auto* barrier = static_cast<Barrier*>(self);
    std::unique_lock lock(barrier->mutex_);
    barrier->changed_.wait(lock, [&] { return barrier->open_; });
  }
  bool release() {  // true: the stream was held until now
    const std::lock_guard lock(mutex_);
    const bool held = !open_;
    open_ = true;
    changed_.notify_all();
    return held;
  }

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(3), [&] { return open_; });
    open_ = true;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  std::thread watch_;
};

}  // namespace

CudaWorker::CudaWorker(std::string gpu_model) : model_(device_, std::move(gpu_model)) {
  for (CudaHandle& stream : streams_) stream = device_.create_stream();
}

Lane& CudaWorker::lane(std::size_t number) {
  if (!lanes_[number]) lanes_[number] = std::make_unique<Lane>(device_);
  return *lanes_[number];
}

void CudaWorker::run(const DeviceCall& c) {
  try {
    if (c.message.request == wire::Request::compare) return compared(c);
    switch (c.message.stream_mode) {
      case StreamMode::own: return in_one_stream(c, streams_[0]);
      case StreamMode::legacy: return in_one_stream(c, nullptr);
      case StreamMode::behind: return behind_a_barrier(c);
      case StreamMode::captured: return captured(c);
      case StreamMode::crowded: return crowded(c);
    }
  } catch (const CudaFailure& failure) {
    worker_cuda_copy_text(c.reply.device_error, failure.what);
  }
}

// Whatever waits, allocates or compiles does it on a first call of a kind, and then no more: a call before the one that
// is looked at, in a stream of its own and into the same lanes, whose outputs nobody sees.
void CudaWorker::run_adapted(const DeviceCall& c, bool captures, bool waits) {
  wire::Message message = c.message;
  if (message.stream_mode == StreamMode::captured && !captures) message.stream_mode = StreamMode::own;
  if (message.stream_mode == StreamMode::behind && waits) message.stream_mode = StreamMode::own;
  const DeviceCall as_asked{c.operation, c.policy, message, c.shared, c.reply, c.text};
  if (message.request != wire::Request::compare && message.stream_mode != StreamMode::own) {
    try {
      Lane& lane = this->lane(0);
      if (!lane.prepare(as_asked)) return;
      lane.load(as_asked, streams_[0]);
      lane.run(as_asked, streams_[0]);
      device_.synchronize(streams_[0]);
    } catch (const CudaFailure& failure) {
      return worker_cuda_copy_text(c.reply.device_error, failure.what);
    }
    c.reply.status = MXCHECK_OK, c.reply.message[0] = '\0', c.reply.conduct[0] = '\0';
  }
  run(as_asked);
}

void CudaWorker::in_one_stream(const DeviceCall& c, CudaHandle stream) {
  Lane& lane = this->lane(0);
  if (!lane.prepare(c)) return;
  lane.load(c, stream);
  if (c.message.between != 0) interrupt(c, stream);
  lane.run(c, stream);
  lane.collect(c, stream, c.shared);
}

// Asks and calls between the workspace and the run of the call in lane 0.
void CudaWorker::interrupt(const DeviceCall& c, CudaHandle stream) {
  wire::Between between;
  std::memcpy(&between, c.shared + c.message.between, sizeof(between));
  if (between.has_call != 0) {
    const PolicyInPlace policy(between.call.policy);
    wire::Reply reply;
    const DeviceCall other{c.operation, *policy.get(), between.call, c.shared + between.displaced, reply, other_text_};
    Lane& lane = this->lane(1);
    if (lane.prepare(other)) {
      lane.load(other, stream);
      lane.run(other, stream);
    }
    device_.synchronize(stream);
  }
  if (between.has_question != 0 && !ask_supports(c.operation, between.question))
    add_conduct(c.reply, "the library wrote into the policy, or beside it, in supports()");
}

// A fault up to the first wait is the library's; what goes wrong after it is the model's. Tensors that are not copied
// back are where the library left them.
void CudaWorker::compared(const DeviceCall& c) {
  Lane& lane = this->lane(0);
  if (!lane.prepare(c)) return;
  lane.load(c, streams_[0]);
  lane.run(c, streams_[0]);
  device_.synchronize(streams_[0]);
  if (c.reply.status == MXCHECK_OK) {
    try {
      model_.compare(
          c.message, [&](int i) { return lane.address_of(c, i); }, streams_[0], c.reply.comparison);
    } catch (const CudaFailure& failure) {
      worker_cuda_copy_text(c.reply.comparison.problem, "the GPU model failed: " + failure.what);
    }
  }
  lane.collect(c, streams_[0], c.shared);
}

// Inputs arrive in the stream behind a barrier that opens when run has returned: a library that works in another
// stream reads garbage, and one that waits is found out.
void CudaWorker::behind_a_barrier(const DeviceCall& c) {
  Lane& lane = this->lane(0);
  Lane& staged = this->lane(1);
  if (!lane.prepare(c) || !staged.prepare(c)) return;
  staged.load(c, streams_[0]);
  lane.fill(c, kGarbage, streams_[0]);
  device_.synchronize(streams_[0]);
  {
    Barrier barrier;
    device_.run_on_host(streams_[0], Barrier::hold, &barrier);
    lane.copy_from(c, staged, streams_[0]);
    lane.run(c, streams_[0]);
    if (!barrier.release()) worker_cuda_copy_text(c.reply.conduct, "run waited for work in its stream");
    device_.synchronize(streams_[0]);
  }
  lane.collect(c, streams_[0], c.shared);
}

// A graph captures what run enqueues; it is launched twice, over fresh tensors.
void CudaWorker::captured(const DeviceCall& c) {
  Lane& lane = this->lane(0);
  if (!lane.prepare(c)) return;
  lane.load(c, streams_[0]);
  device_.synchronize(streams_[0]);
  device_.begin_capture(streams_[0]);
  lane.run(c, streams_[0]);
  CudaHandle graph = device_.end_capture(streams_[0]);
  if (c.reply.status == MXCHECK_OK && graph == nullptr) {
    worker_cuda_copy_text(c.reply.conduct,
                          "run did what ends the capture of its stream: it waits, allocates or leaves the stream");
  }
  if (graph != nullptr && c.reply.status == MXCHECK_OK) {
    CudaHandle executable = device_.instantiate(graph);
    for (int launch = 0; launch < 2; ++launch) {
      lane.load(c, streams_[0]);
      device_.launch(executable, streams_[0]);
      device_.synchronize(streams_[0]);
    }
    device_.destroy_graph(graph, executable);
  }
  lane.collect(c, streams_[0], c.shared);
}

// The same call three times in flight, at addresses that were not there before, last stream first.
void CudaWorker::crowded(const DeviceCall& c) {
  for (std::size_t i = 0; i < kLanes; ++i) {
    lane(i).move();
    if (!lane(i).prepare(c)) return;
    lane(i).load(c, streams_[i]);
  }
  for (const CudaHandle stream : streams_) device_.synchronize(stream);
  for (const std::size_t i : {2U, 0U, 1U}) {
    lane(i).run(c, streams_[i]);
    if (c.reply.status != MXCHECK_OK) break;
  }
  std::vector<std::byte> other(c.message.used_bytes);
  const auto differs = [&] {
    return c.message.open_outputs == 0 && std::memcmp(c.shared, other.data(), other.size()) != 0;
  };
  const auto status = c.reply.status;
  for (const std::size_t i : {1U, 2U}) {
    c.reply.status = status;
    lane(i).collect(c, streams_[i], other.data());
    if (i == 1) std::memcpy(c.shared, other.data(), other.size());
    if (differs()) {
      worker_cuda_copy_text(c.reply.conduct, "calls in flight in several streams at once gave different bytes");
    }
  }
  c.reply.status = status;
  lane(0).collect(c, streams_[0], other.data());
  if (differs()) {
    worker_cuda_copy_text(c.reply.conduct, "calls in flight in several streams at once gave different bytes");
  }
}

namespace {

static_assert(MXCHECK_GPU_MODEL_NO_SCALE == static_cast<int>(MXCHECK_NO_SCALES) &&
              MXCHECK_GPU_MODEL_SCALE_E8M0 == static_cast<int>(MXCHECK_E8M0) &&
              MXCHECK_GPU_MODEL_SCALE_FP32 == static_cast<int>(MXCHECK_FP32));
static_assert(MXCHECK_GPU_MODEL_DENSE == static_cast<int>(MXCHECK_DENSE) &&
              MXCHECK_GPU_MODEL_ALONG_M == static_cast<int>(MXCHECK_ROWS) &&
              MXCHECK_GPU_MODEL_ALONG_K == static_cast<int>(MXCHECK_DEPTH));

template <class T>
T* pointer_to(CudaPointer address) {
  return reinterpret_cast<T*>(address);
}

void say(DeviceComparison& into, const char* what, const char* why) {
  std::snprintf(into.problem, sizeof(into.problem), "the GPU model %s: %s", what, why);
}

}  // namespace

MxcheckGpuModelCall model_call(const wire::Message& message, const AddressOfTensor& address_of) {
  const auto p = read<mxcheck_matmul_policy>(message.policy);
  MxcheckGpuModelCall call{};
  call.a_format = message.model.a_format, call.b_format = message.model.b_format;
  call.m = p.policy.rows, call.n = p.policy.cols, call.k = p.depth;
  call.a_rows = message.tensors[0].shape[0];
  call.promotion = message.model.promotion;
  call.scale_format = p.scale_type;
  call.scale_a_block = static_cast<std::int32_t>(p.policy.block_cols);
  call.scale_b_block = static_cast<std::int32_t>(p.block_b_cols);
  call.scale_b_rows = static_cast<std::int32_t>(p.block_b_rows);
  call.groups = p.grouping;
  call.experts = 1;
  call.alpha = p.alpha;
  call.row_end = p.policy.rows;
  int next = 0;
  call.a = pointer_to<const void>(address_of(next++));
  call.b = pointer_to<const void>(address_of(next++));
  if (p.scale_type != MXCHECK_NO_SCALES) {
    call.scale_a = pointer_to<const void>(address_of(next++));
    call.scale_b = pointer_to<const void>(address_of(next++));
  }
  if (p.accumulate != 0) call.c = pointer_to<const float>(address_of(next++));
  for (; next < message.num_inputs; ++next) {
    const wire::Tensor& t = message.tensors[next];
    if (t.dtype_bits == 32) call.row_index = pointer_to<const std::int32_t>(address_of(next));
    if (t.dtype_bits == 64) {
      call.experts = t.shape[0] - 1;
      call.offsets = pointer_to<const std::int64_t>(address_of(next)) + 1;  // ends alone
    }
  }
  const wire::Tensor& d = message.tensors[message.num_inputs];
  call.output = d.dtype_bits == 16 ? MXCHECK_GPU_MODEL_OUT_BF16 : MXCHECK_GPU_MODEL_OUT_FP32;
  call.d = pointer_to<void>(address_of(message.num_inputs));
  return call;
}

// Empty, or why not.
std::string GpuModel::load() {
  if (loaded_) return "";
  void* library = dlopen(library_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return why == nullptr ? "no reason given" : why;
  }
  compare_ = reinterpret_cast<decltype(compare_)>(dlsym(library, "mxcheck_gpu_model_compare"));
  decode_ = reinterpret_cast<decltype(decode_)>(dlsym(library, "mxcheck_gpu_model_decode_mx"));
  decode_nvfp4_ = reinterpret_cast<decltype(decode_nvfp4_)>(dlsym(library, "mxcheck_gpu_model_decode_nvfp4"));
  if (compare_ == nullptr || decode_ == nullptr || decode_nvfp4_ == nullptr)
    return library_ + " lacks a function of gpu_model.h";
  loaded_ = true;
  return "";
}

CudaPointer GpuModel::reserve(Buffer& buffer, std::uint64_t bytes) {
  if (bytes > buffer.bytes) {
    device_.free(buffer.memory);
    buffer = {};
    buffer.memory = device_.allocate(bytes);
    buffer.bytes = bytes;
  }
  return buffer.memory;
}

// Both operands as BF16, in memory of this object.
bool GpuModel::decode(const wire::Message& message, MxcheckGpuModelCall& call, DeviceComparison& into) {
  char why[160] = {};
  for (int i = 0; i < 2; ++i) {
    const std::int64_t rows = message.tensors[i].shape[0];
    const CudaPointer out = reserve(decoded_[i], static_cast<std::uint64_t>(rows * call.k) * 2 + 2);
    const void*& operand = i == 0 ? call.a : call.b;
    const void*& scales = i == 0 ? call.scale_a : call.scale_b;
    const auto decode = message.model.decodes == DeviceModel::kDecodesNvfp4 ? decode_nvfp4_ : decode_;
    if (decode(static_cast<const std::uint8_t*>(operand), static_cast<const std::uint8_t*>(scales), rows, call.k,
               pointer_to<std::uint16_t>(out), call.stream, why, sizeof(why)) != 0) {
      say(into, "did not decode", why);
      return false;
    }
    operand = pointer_to<const void>(out), scales = nullptr;
  }
  call.scale_format = MXCHECK_GPU_MODEL_NO_SCALE;
  return true;
}

void GpuModel::compare(const wire::Message& message, const AddressOfTensor& address_of, CudaHandle stream,
                       DeviceComparison& into) {
  if (const std::string why = load(); !why.empty()) return say(into, "cannot be loaded", why.c_str());
  MxcheckGpuModelCall call = model_call(message, address_of);
  const CudaPointer at = reserve(report_, sizeof(MxcheckGpuModelReport));
  call.report = pointer_to<MxcheckGpuModelReport>(at);
  call.stream = stream;
  if (message.model.decodes != 0 && !decode(message, call, into)) return;
  char why[160] = {};
  if (compare_(&call, why, sizeof(why)) != 0) return say(into, "refused", why);
  MxcheckGpuModelReport report{};
  device_.to_host(&report, at, sizeof(report), stream);
  device_.synchronize(stream);
  if (report.bad_offsets != 0 || report.bad_rows != 0) return say(into, "refused", "offsets or rows are out of range");
  into.compared = report.compared, into.differing = report.differing, into.first = report.first;
  into.expected = report.expected, into.observed = report.observed;
}

}  // namespace mxcheck
