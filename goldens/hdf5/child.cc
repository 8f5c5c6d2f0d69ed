#include "goldens/hdf5/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "goldens/hdf5/storage.h"
#include "goldens/io/byte_source.h"
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

constexpr char kRefused = 'R';
constexpr char kNoMemory = 'M';
constexpr std::uint32_t kMaxRefusal = 4096;
constexpr rlim_t kBaseSeconds = 30;                  // of processor time, and one more for every
constexpr std::uint64_t kBytesPerSecond = 10 << 20;  // bytes of the file

std::array<int, 2> pipe_ends() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error(ErrorKind::environment, std::string("no pipe for the HDF5 reader: ") + std::strerror(errno));
  }
  constexpr int kRoom = 1 << 20;  // fewer switches between the two; the default stays where the system allows no more
  ::fcntl(ends[1], F_SETPIPE_SZ, kRoom);
  return ends;
}

bool send(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
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
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) ::signal(signal, SIG_DFL);
  ::signal(SIGPIPE, SIG_IGN);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, kBaseSeconds + file_bytes / kBytesPerSecond);
#if !defined(MXCHECK_SANITIZED)                    // a sanitizer's shadow memory alone is terabytes
  constexpr rlim_t kBaseMemory = rlim_t{1} << 30;  // for the library's own structures
  const std::uint64_t most =
      file_bytes > (RLIM_INFINITY >> 12) / kMaxExpansion ? RLIM_INFINITY >> 12 : file_bytes * kMaxExpansion;
  if (const rlim_t now = address_space(); now != 0) limit(RLIMIT_AS, now + kBaseMemory + most);
#endif
  const int null = ::open("/dev/null", O_WRONLY);  // the C library's own last words
  if (null >= 0) ::dup2(null, STDERR_FILENO);
}

[[noreturn]] void run_child(int fd, const std::function<bool(int)>& work, std::uint64_t file_bytes) {
  bool sent = false;
  try {
    limit_child(file_bytes);
    sent = work(fd);
  } catch (const std::bad_alloc&) {
    sent = send_message(fd, kNoMemory, {});
  } catch (const std::exception& e) {
    const std::string text = std::string(e.what()).substr(0, kMaxRefusal);
    sent = send_message(fd, kRefused, std::as_bytes(std::span(text)));
  } catch (...) {
  }
  ::_exit(sent ? 0 : 1);  // no destructors, no handlers: they are the parent's
}

}  // namespace

bool send_message(int fd, char status, std::span<const std::byte> content) {
  const auto length = static_cast<std::uint32_t>(content.size());
  return send(fd, std::as_bytes(std::span(&status, 1))) && send(fd, std::as_bytes(std::span(&length, 1))) &&
         send(fd, content);
}

Hdf5Child::Hdf5Child(const std::string& path, const std::function<bool(int fd)>& work)
    : path_(path), file_bytes_(FileSource(path).size()) {
  const std::array<int, 2> ends = pipe_ends();
  id_ = ::fork();
  if (id_ == 0) {
    ::close(ends[0]);  // so that the child notices when its reader is gone
    run_child(ends[1], work, file_bytes_);
  }
  const int error = errno;
  ::close(ends[1]);
  read_end_ = ends[0];
  if (id_ < 0) {
    ::close(read_end_);
    throw Error(ErrorKind::environment, std::string("no process for the HDF5 reader: ") + std::strerror(error));
  }
}

Hdf5Child::~Hdf5Child() {
  stop();
  if (read_end_ >= 0) ::close(read_end_);
}

std::uint32_t Hdf5Child::next_message(char wanted, std::uint32_t longest) {
  char status = 0;
  std::uint32_t length = 0;
  if (receive(read_end_, std::as_writable_bytes(std::span(&status, 1))) == 0 ||
      receive(read_end_, std::as_writable_bytes(std::span(&length, 1))) != sizeof(length)) {
    damaged("the reader ended early");
  }
  if (status == kNoMemory) throw std::bad_alloc();
  if (status == kRefused && length <= kMaxRefusal) {
    std::string message(length, '\0');
    message.resize(receive(read_end_, std::as_writable_bytes(std::span(message))));
    throw Error(ErrorKind::input, message);
  }
  if (status != wanted || length == 0 || length > longest) damaged("the reader lost its way");
  return length;
}

void Hdf5Child::read(std::span<std::byte> to) {
  if (receive(read_end_, to) != to.size()) damaged("the reader ended early");
}

void Hdf5Child::stop() {
  if (id_ <= 0) return;
  ::kill(id_, SIGKILL);
  wait();
}

int Hdf5Child::wait() {
  int status = 0;
  while (id_ > 0 && ::waitpid(id_, &status, 0) < 0 && errno == EINTR) {
  }
  id_ = -1;
  return status;
}

void Hdf5Child::damaged(const char* what) {
  std::string why = what;
  ::close(std::exchange(read_end_, -1));  // a child that still writes ends
  const int ended = wait();
  if (WIFSIGNALED(ended)) {
    const int signal = WTERMSIG(ended);
    why = signal == SIGXCPU || signal == SIGKILL ? "it took too long"
                                                 : "the library crashed, signal " + std::to_string(signal);
  }
  throw Error(ErrorKind::input, path_ + ": damaged: HDF5 could not read it: " + why);
}

}  // namespace mxcheck
