#include "properties/process/worker_cuda.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace mxcheck {
namespace {

constexpr std::uint8_t kGarbage = 0x5A;  // what memory holds before anything of the call is in it

template <std::size_t kSize>
void copy_text(char (&to)[kSize], const std::string& from) {
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
    copy_text(c.reply.device_error, failure.what);
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
      return copy_text(c.reply.device_error, failure.what);
    }
    c.reply.status = MXCHECK_OK, c.reply.message[0] = '\0', c.reply.conduct[0] = '\0';
  }
  run(as_asked);
}

void CudaWorker::in_one_stream(const DeviceCall& c, CudaHandle stream) {
  Lane& lane = this->lane(0);
  if (!lane.prepare(c)) return;
  lane.load(c, stream);
  lane.run(c, stream);
  lane.collect(c, stream, c.shared);
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
      copy_text(c.reply.comparison.problem, "the GPU model failed: " + failure.what);
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
    if (!barrier.release()) copy_text(c.reply.conduct, "run waited for work in its stream");
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
    copy_text(c.reply.conduct, "run did what ends the capture of its stream: it waits, allocates or leaves the stream");
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
  const auto status = c.reply.status;
  for (const std::size_t i : {1U, 2U}) {
    c.reply.status = status;
    lane(i).collect(c, streams_[i], other.data());
    if (i == 1) std::memcpy(c.shared, other.data(), other.size());
    if (std::memcmp(c.shared, other.data(), other.size()) != 0) {
      copy_text(c.reply.conduct, "calls in flight in several streams at once gave different bytes");
    }
  }
  c.reply.status = status;
  lane(0).collect(c, streams_[0], other.data());
  if (std::memcmp(c.shared, other.data(), other.size()) != 0) {
    copy_text(c.reply.conduct, "calls in flight in several streams at once gave different bytes");
  }
}

}  // namespace mxcheck
