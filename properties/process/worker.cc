#include "properties/process/worker.h"

#include <dlfcn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/candidate.h"
#include "numerics/error.h"
#include "properties/core/rng.h"
#include "properties/process/call_watch.h"
#include "properties/process/confine.h"
#include "properties/process/process_state.h"
#include "properties/process/wire.h"
#include "properties/process/worker_call.h"
#include "properties/process/worker_cuda.h"
#include "properties/process/worker_host.h"

namespace mxcheck {
namespace {

template <std::size_t kSize>
void copy_text(char (&to)[kSize], const char* from) {
  std::snprintf(to, kSize, "%s", from == nullptr ? "" : from);
}

// Whose turn it is among the worker's threads: one at a time answers a message. The next one is woken while the gate
// still reads the reply, so that a turn costs no time.
class Turns {
 public:
  static constexpr int kThreads = 3;
  bool wait(int self) {  // false: it is over
    std::unique_lock lock(mutex_);
    changed_[self].wait(lock, [&] { return over_ || turn_ == self; });
    return !over_;
  }
  void pass(int next) {
    {
      const std::lock_guard lock(mutex_);
      turn_ = next;
    }
    changed_[next].notify_one();  // after the lock, which it would wait for at once
  }
  void end() {
    const std::lock_guard lock(mutex_);
    over_ = true;
    for (std::condition_variable& one : changed_) one.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_[kThreads];
  int turn_ = 0;
  bool over_ = false;
};

// The thread that answers this message: half of them are answered by the first thread, which loaded the library.
// Irregular, so that no statement has each of its two or three calls always in the same thread.
int thread_of_message(std::uint64_t number) {
  constexpr int kThreads[] = {0, 1, 0, 2};
  return kThreads[mix64(number) & 3];
}

// A shared library that exports the interface's one function.
class LibrarySource final : public CandidateSource {
 public:
  explicit LibrarySource(std::string path) : path_(std::move(path)) {}

  Loaded load() override {
    Loaded loaded;
    void* library = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* why = dlerror();
      loaded.problem = std::string("cannot be loaded: ") + (why == nullptr ? "no reason given" : why);
      return loaded;
    }
    const auto function = reinterpret_cast<mxcheck_candidate_function>(dlsym(library, MXCHECK_CANDIDATE_SYMBOL));
    if (function == nullptr) {
      loaded.problem =
          "has no function " MXCHECK_CANDIDATE_SYMBOL "; kernels/candidate.h says what a candidate exports";
      return loaded;
    }
    loaded.sources = static_cast<const char*>(dlsym(library, MXCHECK_CANDIDATE_SOURCES_SYMBOL));
    loaded.table = function();
    if (loaded.table == nullptr) loaded.problem = refusal_of(library);
    loaded.lacks_device = !loaded.problem.empty();
    return loaded;
  }

 private:
  // Why a library has no table here; empty where it does not say.
  static std::string refusal_of(void* library) {
    const auto why = reinterpret_cast<const char* (*)()>(dlsym(library, "mxcheck_candidate_refusal"));
    const char* const text = why == nullptr ? nullptr : why();
    return text == nullptr ? "" : std::string("cannot run on this machine: ") + text;
  }

  std::string path_;
};

class Worker {
 public:
  Worker(CandidateSource& source, int socket, int shared, std::string gpu_model, std::string unconfined)
      : source_(source),
        gpu_model_(std::move(gpu_model)),
        unconfined_(std::move(unconfined)),
        socket_(socket),
        memory_(shared) {}

  int serve() {
    load();
    std::vector<std::thread> others;
    for (int i = 1; i < Turns::kThreads && problem_.empty(); ++i) {
      others.emplace_back([this, i] {
        if (cuda_) cuda_->bind_thread();
        source_.in_thread([this, i] { answer_in_turn(i); });
      });
    }
    source_.in_thread([this] { answer_in_turn(0); });
    for (std::thread& other : others) other.join();
    return failed_ ? 1 : wire::status_of_end(last_number_);
  }

 private:
  // All bytes of a message, whatever signals a library's timers send.
  template <class Message, class Move>
  static bool transfer(Message& message, Move move) {
    std::size_t done = 0;
    while (done < sizeof(message)) {
      const ssize_t n = move(reinterpret_cast<char*>(&message) + done, sizeof(message) - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      done += static_cast<std::size_t>(n);
    }
    return true;
  }

  void answer_in_turn(int self) {
    while (turns_.wait(self)) {
      if (!answer_one()) return turns_.end();
      const int next = problem_.empty() ? thread_of_message(++messages_) : 0;
      if (next != self) turns_.pass(next);
    }
  }

  bool answer_one() {
    wire::Message message;
    if (!transfer(message, [&](void* at, std::size_t n) { return recv(socket_, at, n, 0); })) return false;
    wire::Reply reply;
    reply.number = last_number_ = message.number;
    if (!memory_.resize(message.shared_bytes)) {
      reply.status = MXCHECK_NO_MEMORY;
      copy_text(reply.message, "the gate's shared memory cannot be mapped");
    } else {
      answer(message, reply);
    }
    failed_ = !transfer(reply, [&](void* at, std::size_t n) { return send(socket_, at, n, MSG_NOSIGNAL); });
    if (reply.device_error[0] != '\0') _exit(1);  // nothing in this process reaches the device any more
    return !failed_;
  }

  void load() {
    const std::set<std::string> before = mapped_files();
    const SignalHandlers handlers = SignalHandlers::now();
    const CallWatch watch(handlers_, process_);
    load_table();
    for (const std::string& path : mapped_files()) {
      if (!loaded_.files && before.count(path) == 0 && !is_of_the_system(path)) files_ += path + "\n";
    }
    if (loaded_.files) files_ = *loaded_.files;
    if (!problem_.empty() || table_->device != kDLCPU) return;
    // Handlers of other signals than those by which an access outside of a tensor is seen are the library's own affair.
    at_load_ = handlers.undo_changes(false);
    handlers_ = SignalHandlers::now();
    if (loaded_.adapted) process_ = ProcessState::now();  // modules that it imports are not the candidate's own
    const std::string more = watch.undo_changes();
    if (!more.empty()) at_load_ += (at_load_.empty() ? "" : "; ") + more;
    if (!at_load_.empty()) at_load_ = "when it was loaded, the library " + at_load_;
  }

  void load_table() {
    loaded_ = source_.load();
    problem_ = loaded_.problem;
    lacks_device_ = loaded_.lacks_device;
    if (!problem_.empty()) return;
    table_ = loaded_.table;
    problem_ = validate();
    if (!problem_.empty() || table_->device != kDLCUDA) return;
    try {
      cuda_ = std::make_unique<CudaWorker>(gpu_model_);
    } catch (const Error& e) {
      problem_ = std::string("needs a CUDA device: ") + e.what();
      lacks_device_ = true;
    }
  }

  std::string validate() const {
    if (table_ == nullptr) return "returned no table from " MXCHECK_CANDIDATE_SYMBOL;
    if (table_->interface_version != MXCHECK_CANDIDATE_VERSION) {
      return "speaks interface version " + std::to_string(table_->interface_version) + "; this gate speaks version " +
             std::to_string(MXCHECK_CANDIDATE_VERSION);
    }
    if (table_->size != sizeof(mxcheck_candidate_table)) {
      return "has a table of " + std::to_string(table_->size) + " bytes; version " +
             std::to_string(MXCHECK_CANDIDATE_VERSION) + " has " + std::to_string(sizeof(mxcheck_candidate_table));
    }
    if (table_->num_operations < 0 || table_->num_operations > wire::kMaxOperations ||
        (table_->num_operations > 0 && table_->operations == nullptr)) {
      return "has a table of " + std::to_string(table_->num_operations) + " operations; 0 to " +
             std::to_string(wire::kMaxOperations) + " are possible";
    }
    for (int i = 0; i < table_->num_operations; ++i) {
      const mxcheck_operation& operation = table_->operations[i];
      if (operation.name == nullptr || operation.supports == nullptr || operation.run == nullptr) {
        return "has operation " + std::to_string(i) + " without a name, a supports or a run function";
      }
    }
    return {};
  }

  void answer(const wire::Message& message, wire::Reply& reply) {
    if (message.request == wire::Request::describe) return describe(reply);
    if (message.request == wire::Request::sources) {
      if (loaded_.sources != nullptr) copy_text(reply.message, loaded_.sources + message.byte_offset);
      return;
    }
    if (message.request == wire::Request::files) {
      if (message.byte_offset <= files_.size()) copy_text(reply.message, files_.c_str() + message.byte_offset);
      return;
    }
    const mxcheck_operation& operation = table_->operations[message.operation];
    if (message.request == wire::Request::supports) return answer_questions(operation, message, reply);
    PolicyInPlace in_place(message.policy);
    const mxcheck_policy& policy = *in_place.get();
    const CallWatch watch(handlers_, process_);
    if (cuda_) {
      const DeviceCall call{operation, policy, message, memory_.at(0), reply, cuda_text_};
      loaded_.adapted ? cuda_->run_adapted(call, loaded_.captures, loaded_.waits) : cuda_->run(call);
    } else {
      host_.run({operation, policy, message, memory_, reply});
    }
    if (!in_place.is_as_given()) add_conduct(reply, "the library wrote into the policy, or beside it");
    tell_changes(watch, reply);
    if (!at_load_.empty()) add_conduct(reply, at_load_);
    if (!in_supports_.empty()) add_conduct(reply, in_supports_ + ", in supports()");
    in_supports_.clear();
  }

  void answer_questions(const mxcheck_operation& operation, const wire::Message& message, wire::Reply& reply) {
    const CallWatch watch(handlers_, process_);
    bool is_as_given = true;
    for (std::size_t i = 0; i < message.questions; ++i) {
      std::byte* const at = memory_.at(i * sizeof(wire::Question));
      wire::Question question;
      std::memcpy(&question, at, sizeof(question));
      is_as_given = ask_supports(operation, question) && is_as_given;
      std::memcpy(at, &question, sizeof(question));
    }
    if (!is_as_given) add_conduct(reply, "the library wrote into the policy, or beside it");
    tell_changes(watch, reply);
    if (reply.conduct[0] != '\0') in_supports_ = reply.conduct;  // told with the next call
  }

  // On the host: a driver has threads and handlers of its own.
  void tell_changes(const CallWatch& watch, wire::Reply& reply) const {
    if (cuda_) return;
    const std::string changed = watch.undo_changes();
    if (!changed.empty()) add_conduct(reply, "the library " + changed);
  }

  void describe(wire::Reply& reply) const {
    if (!problem_.empty()) {
      reply.status = MXCHECK_FAILED;
      reply.environment = lacks_device_ ? 1 : 0;
      copy_text(reply.message, problem_.c_str());
      return;
    }
    if (cuda_) {
      std::string text;
      for (const auto& [key, value] : cuda_->device().description()) text += key + "=" + value + "\n";
      copy_text(reply.device_text, text.c_str());
      std::string gpus;
      for (const Gpu& gpu : cuda_->device().all_alike()) {
        const std::string line = std::to_string(gpu.number) + "=" + gpu.uuid + "\n";
        if (gpus.size() + line.size() < sizeof(reply.gpus)) gpus += line;
      }
      copy_text(reply.gpus, gpus.c_str());
    }
    copy_text(reply.unconfined, unconfined_.c_str());
    copy_text(reply.name, table_->name);
    copy_text(reply.version, table_->version);
    reply.device = table_->device;
    reply.adapted = loaded_.adapted ? 1 : 0, reply.static_shapes = loaded_.static_shapes ? 1 : 0;
    reply.num_operations = table_->num_operations;
    for (int i = 0; i < table_->num_operations; ++i) {
      const mxcheck_operation& from = table_->operations[i];
      wire::Operation& to = reply.operations[i];
      copy_text(to.name, from.name);
      copy_text(to.contract, from.contract);
      to.max_rows = from.max_rows, to.max_cols = from.max_cols;
      to.rows_multiple = from.rows_multiple, to.cols_multiple = from.cols_multiple;
    }
  }

  CandidateSource& source_;
  const std::string gpu_model_;
  const std::string unconfined_;
  int socket_;
  SharedMemory memory_;
  const mxcheck_candidate_table* table_ = nullptr;
  CandidateSource::Loaded loaded_;
  std::string problem_;
  bool lacks_device_ = false;
  std::string files_;  // that loading the library has mapped, or that its source names
  SignalHandlers handlers_ = SignalHandlers::now();
  ProcessState process_ = ProcessState::now();
  std::string at_load_;      // what the library changed in the process when it was loaded
  std::string in_supports_;  // and in supports() since the last call
  HostWorker host_;
  std::unique_ptr<CudaWorker> cuda_;  // for CUDA candidates
  MessageBuffer cuda_text_;
  Turns turns_;
  std::uint64_t messages_ = 0;
  std::uint64_t last_number_ = 0;  // of a message
  bool failed_ = false;
};

}  // namespace

#if defined(__SANITIZE_ADDRESS__)
// The worker may not ptrace itself, by which leaks are looked for, and a library's leaks are a statement's affair.
bool is_worker = false;
extern "C" int __lsan_is_turned_off() { return is_worker ? 1 : 0; }
#endif

void begin_worker() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
}

int serve_candidate(CandidateSource& source, int socket, int shared, const std::string& gpu_model,
                    const std::string& unconfined) {
  return Worker(source, socket, shared, gpu_model, unconfined).serve();
}

int run_worker(int argc, char** argv) {
  if (argc != 6) return 2;
#if defined(__SANITIZE_ADDRESS__)
  is_worker = true;
#endif
  begin_worker();
  LibrarySource library(argv[2]);
  const std::string gpu_model = argv[5];
  const int socket = std::atoi(argv[3]), shared = std::atoi(argv[4]);
  rename_process(argc, argv);
  return serve_candidate(library, socket, shared, gpu_model, confine(getppid()));
}

}  // namespace mxcheck
