// Runs the HDF5 library in a child process: a crash, a runaway allocation or an endless loop over a damaged file is an
// Error{input} about that file and leaves this process as it was.
//
// The child sends one status byte, then either a message, or dtype, rank, extents and the data. The parent checks all
// of it again: the child may have been led astray.
//
// Does not promise a sandbox: the child keeps the user's rights. The limits are against accidents and damage.

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

#include "goldens/readers.h"
#include "numerics/error.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  #define MXCHECK_SANITIZED
#elif defined(__has_feature)
  #if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
    #define MXCHECK_SANITIZED
  #endif
#endif

namespace mxcheck {
namespace {

constexpr char kTensor = 'T';
constexpr char kRefused = 'R';
constexpr char kNoMemory = 'M';
constexpr std::uint64_t kMaxMessage = 4096;
constexpr std::uint64_t kMaxExpansion = 1032;        // as in hdf5_dataset.cc
constexpr rlim_t kBaseMemory = rlim_t{1} << 30;      // for the library's own structures
constexpr rlim_t kBaseSeconds = 30;                  // of processor time, and one more for every
constexpr std::uint64_t kBytesPerSecond = 10 << 20;  // bytes of the file

struct Pipe {
  int read_end = -1;
  int write_end = -1;
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw Error(ErrorKind::environment, std::string("no pipe for the HDF5 reader: ") + std::strerror(errno));
    }
    read_end = ends[0];
    write_end = ends[1];
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    ::close(read_end);
    if (write_end >= 0) ::close(write_end);
  }
};

bool send(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

bool send(int fd, char status, const std::string& text) {
  return send(fd, std::as_bytes(std::span(&status, 1))) && send(fd, std::as_bytes(std::span(text)));
}

// How much of `to` the child filled before it closed its end.
std::size_t receive(int fd, std::span<std::byte> to) {
  std::size_t have = 0;
  while (have < to.size()) {
    const ssize_t got = ::read(fd, to.data() + have, to.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  return have;
}

void limit(decltype(RLIMIT_AS) what, rlim_t value) {
  rlimit old{};
  if (::getrlimit(what, &old) != 0) return;
  if (old.rlim_max != RLIM_INFINITY && value > old.rlim_max) value = old.rlim_max;
  const rlimit now{value, old.rlim_max};
  ::setrlimit(what, &now);
}

[[maybe_unused]] rlim_t address_space() {  // not by a build with sanitizers
  unsigned long pages = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  if (std::fscanf(file, "%lu", &pages) != 1) pages = 0;
  std::fclose(file);
  return static_cast<rlim_t>(pages) * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

void limit_child(std::uint64_t file_bytes) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) ::signal(signal, SIG_DFL);
  ::signal(SIGPIPE, SIG_IGN);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, kBaseSeconds + file_bytes / kBytesPerSecond);
#if !defined(MXCHECK_SANITIZED)  // a sanitizer's shadow memory alone is terabytes
  const std::uint64_t most =
      file_bytes > (RLIM_INFINITY >> 12) / kMaxExpansion ? RLIM_INFINITY >> 12 : file_bytes * kMaxExpansion;
  if (const rlim_t now = address_space(); now != 0) limit(RLIMIT_AS, now + kBaseMemory + most);
#endif
  const int null = ::open("/dev/null", O_WRONLY);  // the C library's own last words
  if (null >= 0) ::dup2(null, STDERR_FILENO);
}

[[noreturn]] void run_child(int fd, const std::string& path, const std::string& dataset, std::uint64_t file_bytes) {
  bool sent = false;
  try {
    limit_child(file_bytes);
    const Tensor tensor = read_hdf5_in_this_process(path, dataset);
    const std::array<std::byte, 2> head{static_cast<std::byte>(tensor.dtype),
                                        static_cast<std::byte>(tensor.shape.size())};
    sent = send(fd, kTensor, "") && send(fd, head) && send(fd, std::as_bytes(std::span(tensor.shape))) &&
           send(fd, tensor.data);
  } catch (const std::bad_alloc&) {
    sent = send(fd, kNoMemory, "");
  } catch (const std::exception& e) {
    sent = send(fd, kRefused, std::string(e.what()).substr(0, kMaxMessage));
  } catch (...) {
  }
  ::_exit(sent ? 0 : 1);  // no destructors, no handlers: they are the parent's
}

// The child's tensor; an empty string on success, otherwise what is wrong.
std::string receive_tensor(int fd, std::uint64_t file_bytes, Tensor& tensor) {
  std::array<std::byte, 2> head{};
  if (receive(fd, head) != head.size()) return "the reader ended early";
  const auto dtype = std::to_integer<std::uint8_t>(head[0]);
  const auto rank = std::to_integer<std::size_t>(head[1]);
  if (dtype > static_cast<std::uint8_t>(Dtype::f64) || rank > kMaxRank) return "the reader lost its way";
  tensor.dtype = static_cast<Dtype>(dtype);
  tensor.shape.resize(rank);
  const auto extents = std::as_writable_bytes(std::span(tensor.shape));
  if (receive(fd, extents) != extents.size()) return "the reader ended early";
  const std::uint64_t bytes = checked_bytes(tensor.shape, size_of(tensor.dtype), "the reader's shape");
  if (bytes / kMaxExpansion > file_bytes) return "the reader lost its way";
  tensor.data.resize(bytes);
  return receive(fd, tensor.data) == bytes ? "" : "the reader ended early";
}

struct Child {
  pid_t id;
  explicit Child(pid_t i) : id(i) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (id <= 0) return;
    ::kill(id, SIGKILL);
    wait();
  }
  int wait() {
    int status = 0;
    while (::waitpid(id, &status, 0) < 0 && errno == EINTR) {
    }
    id = -1;
    return status;
  }
};

}  // namespace

Tensor read_hdf5(const std::string& path, const std::string& dataset) {
  const std::uint64_t file_bytes = FileSource(path).size();  // the plain refusals need no child
  Pipe pipe;
  Child child(::fork());
  if (child.id < 0)
    throw Error(ErrorKind::environment, std::string("no process for the HDF5 reader: ") + std::strerror(errno));
  if (child.id == 0) run_child(pipe.write_end, path, dataset, file_bytes);
  ::close(pipe.write_end);
  pipe.write_end = -1;

  char status = 0;
  Tensor tensor;
  std::string wrong;
  if (receive(pipe.read_end, std::as_writable_bytes(std::span(&status, 1))) == 0) {
    wrong = "the reader ended early";
  } else if (status == kTensor) {
    wrong = receive_tensor(pipe.read_end, file_bytes, tensor);
  } else if (status == kNoMemory) {
    throw std::bad_alloc();
  } else {
    std::string message(kMaxMessage, '\0');
    message.resize(receive(pipe.read_end, std::as_writable_bytes(std::span(message))));
    throw Error(ErrorKind::input, message);
  }
  const int ended = child.wait();
  if (WIFSIGNALED(ended)) {
    const int signal = WTERMSIG(ended);
    wrong = signal == SIGXCPU || signal == SIGKILL ? "it took too long"
                                                   : "the library crashed, signal " + std::to_string(signal);
  }
  if (!wrong.empty()) throw Error(ErrorKind::input, path + ": damaged: HDF5 could not read it: " + wrong);
  return tensor;
}

}  // namespace mxcheck
