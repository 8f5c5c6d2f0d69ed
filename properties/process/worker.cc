#include "properties/process/worker.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "kernels/candidate.h"
#include "numerics/error.h"
#include "properties/process/wire.h"
#include "properties/process/worker_call.h"
#include "properties/process/worker_cuda.h"

namespace mxcheck {
namespace {

template <std::size_t kSize>
void copy_text(char (&to)[kSize], const char* from) {
  std::snprintf(to, kSize, "%s", from == nullptr ? "" : from);
}

// The shared memory as this process sees it; the parent may have made it larger since.
class SharedMemory {
 public:
  explicit SharedMemory(int fd) : fd_(fd) {}
  bool resize(std::uint64_t bytes) {
    if (bytes == bytes_) return true;
    if (base_ != nullptr) munmap(base_, bytes_);
    base_ = nullptr, bytes_ = 0;
    if (bytes == 0) return true;
    void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (base == MAP_FAILED) return false;
    base_ = static_cast<std::byte*>(base), bytes_ = bytes;
    return true;
  }
  [[nodiscard]] std::byte* at(std::uint64_t offset) const { return base_ + offset; }

 private:
  int fd_;
  std::byte* base_ = nullptr;
  std::uint64_t bytes_ = 0;
};

// Inaccessible pages around the guarded tensors for the length of one call.
class Guards {
 public:
  Guards(const SharedMemory& memory, const wire::Message& message) : memory_(memory), message_(message) {
    protect(PROT_NONE);
  }
  ~Guards() { protect(PROT_READ | PROT_WRITE); }
  Guards(const Guards&) = delete;
  Guards& operator=(const Guards&) = delete;

 private:
  void protect(int protection) const {
    for (int i = 0; i < message_.num_inputs + message_.num_outputs; ++i) {
      const wire::Tensor& t = message_.tensors[i];
      if (t.guarded == 0) continue;
      const std::uint64_t first = t.offset / wire::kPage * wire::kPage;
      const std::uint64_t end = (t.offset + t.bytes + wire::kPage - 1) / wire::kPage * wire::kPage;
      mprotect(memory_.at(first - wire::kPage), wire::kPage, protection);
      mprotect(memory_.at(end), wire::kPage, protection);
    }
  }
  const SharedMemory& memory_;
  const wire::Message& message_;
};

struct Workspace {
  static constexpr std::uint64_t kZone = 4096;
  static constexpr unsigned char kPoison = 0xC7;
  static constexpr std::uint64_t kMost = std::uint64_t{1} << 40;  // more is refused like memory that is not there
  explicit Workspace(std::uint64_t size) : bytes(size) {
    if (size == 0 || size > kMost) return;
    memory.reset(static_cast<unsigned char*>(std::aligned_alloc(4096, (size + 2 * kZone + 4095) / 4096 * 4096)));
    if (memory) std::memset(memory.get(), kPoison, size + 2 * kZone);
  }
  [[nodiscard]] void* data() const { return memory ? memory.get() + kZone : nullptr; }
  [[nodiscard]] bool broken() const {
    if (!memory) return false;
    for (std::uint64_t i = 0; i < kZone; ++i) {
      if (memory[i] != kPoison || memory[kZone + bytes + i] != kPoison) return true;
    }
    return false;
  }
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<unsigned char[], Free> memory;
  std::uint64_t bytes;
};

class Worker {
 public:
  Worker(const char* path, int socket, int shared, const char* gpu_model)
      : path_(path), gpu_model_(gpu_model), socket_(socket), memory_(shared) {}

  int serve() {
    load();
    wire::Message message;
    while (transfer(message, [&](void* at, std::size_t n) { return recv(socket_, at, n, 0); })) {
      wire::Reply reply;
      if (!memory_.resize(message.shared_bytes)) {
        reply.status = MXCHECK_NO_MEMORY;
        copy_text(reply.message, "the gate's shared memory cannot be mapped");
      } else {
        answer(message, reply);
      }
      if (!transfer(reply, [&](void* at, std::size_t n) { return send(socket_, at, n, MSG_NOSIGNAL); })) return 1;
      if (reply.device_error[0] != '\0') _exit(1);  // nothing in this process reaches the device any more
    }
    return 0;
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

  void load() {
    void* library = dlopen(path_, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* why = dlerror();
      problem_ = std::string("cannot be loaded: ") + (why == nullptr ? "no reason given" : why);
      return;
    }
    const auto function = reinterpret_cast<mxcheck_candidate_function>(dlsym(library, MXCHECK_CANDIDATE_SYMBOL));
    if (function == nullptr) {
      problem_ = "has no function " MXCHECK_CANDIDATE_SYMBOL "; kernels/candidate.h says what a candidate exports";
      return;
    }
    sources_ = static_cast<const char*>(dlsym(library, MXCHECK_CANDIDATE_SOURCES_SYMBOL));
    table_ = function();
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
      if (sources_ != nullptr) copy_text(reply.message, sources_ + message.byte_offset);
      return;
    }
    const mxcheck_operation& operation = table_->operations[message.operation];
    const PolicyInPlace in_place(message.policy);
    const mxcheck_policy& policy = *in_place.get();
    if (message.request == wire::Request::supports) {
      reply.status = operation.supports(&policy, DLDataType{message.dtype_code, message.dtype_bits, 1});
      return;
    }
    run(operation, policy, message, reply);
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
    }
    copy_text(reply.name, table_->name);
    copy_text(reply.version, table_->version);
    reply.device = table_->device;
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

  void run(const mxcheck_operation& operation, const mxcheck_policy& policy, const wire::Message& message,
           wire::Reply& reply) {
    if (cuda_) return cuda_->run({operation, policy, message, memory_.at(0), reply});
    CandidateCall built(message, policy, reply, kDLCPU, [&](int i) { return memory_.at(message.tensors[i].offset); });
    mxcheck_call& call = built.call;
    std::uint64_t bytes = 0;
    if (operation.workspace != nullptr) reply.status = operation.workspace(&call, &bytes);
    if (reply.status != MXCHECK_OK) return;
    const Workspace workspace(bytes);
    if (bytes != 0 && !workspace.memory) {
      reply.status = MXCHECK_NO_MEMORY;
      return copy_text(reply.message, "the gate could not allocate the workspace");
    }
    if (!built.set_workspace(message, workspace.data(), bytes)) {
      return CandidateCall::refuse_for_want_of_a_workspace(reply);
    }
    {
      const Guards guards(memory_, message);
      reply.status = operation.run(&call);
    }
    reply.message[sizeof(reply.message) - 1] = '\0';
    reply.workspace_broken = workspace.broken() ? 1 : 0;
  }

  const char* path_;
  const char* gpu_model_;
  int socket_;
  SharedMemory memory_;
  const mxcheck_candidate_table* table_ = nullptr;
  const char* sources_ = nullptr;
  std::string problem_;
  bool lacks_device_ = false;
  std::unique_ptr<CudaWorker> cuda_;  // for CUDA candidates
};

}  // namespace

int run_worker(int argc, char** argv) {
  if (argc != 6) return 2;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  dup2(STDERR_FILENO, STDOUT_FILENO);  // whatever a library prints stays out of the gate's own output
  return Worker(argv[2], std::atoi(argv[3]), std::atoi(argv[4]), argv[5]).serve();
}

}  // namespace mxcheck
