// Runs the HDF5 library in a child process: a crash, a runaway allocation or an endless loop over a damaged file is an
// Error{input} about that file and leaves this process as it was.
//
// The child sends messages: a status byte, the length of what follows, and that: dtype, rank and extents first, then
// pieces of the data until all of it is sent, or instead of any of these a refusal. The parent checks all of it: the
// child may have been led astray. The pipe is small, so that the child is never far ahead of its reader.
//
// Does not promise a sandbox: the child keeps the user's rights. The limits are against accidents and damage. Nor that
// a child comes alive when another thread of this process is inside the HDF5 library at that moment.

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "goldens/hdf5/storage.h"
#include "goldens/io/readers.h"
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

constexpr char kHead = 'T';
constexpr char kData = 'D';
constexpr char kRefused = 'R';
constexpr char kNoMemory = 'M';
constexpr std::uint32_t kMaxMessage = 4096;
constexpr std::uint32_t kPiece = 1 << 20;
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
    constexpr int kRoom = 1 << 20;  // fewer switches between the two; the default stays where the system allows no more
    ::fcntl(write_end, F_SETPIPE_SZ, kRoom);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    if (read_end >= 0) ::close(read_end);
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

bool send(int fd, char status, std::span<const std::byte> content) {
  const auto length = static_cast<std::uint32_t>(content.size());
  return send(fd, std::as_bytes(std::span(&status, 1))) && send(fd, std::as_bytes(std::span(&length, 1))) &&
         send(fd, content);
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

bool send_head(int fd, const TensorHead& head) {
  std::vector<std::int64_t> content{static_cast<std::int64_t>(head.dtype)};
  content.insert(content.end(), head.shape.begin(), head.shape.end());
  return send(fd, kHead, std::as_bytes(std::span(content)));
}

// False when the other end is closed.
bool send_rows(int fd, RowReader& rows) {
  const TensorHead& head = rows.head();
  if (!send_head(fd, head)) return false;
  std::uint64_t left = checked_bytes(head.shape, size_of(head.dtype), "the tensor");
  std::vector<std::byte> piece(std::min<std::uint64_t>(left, kPiece));
  while (left > 0) {
    const auto part = std::span(piece).first(std::min<std::uint64_t>(left, kPiece));
    rows.read(part);
    if (!send(fd, kData, part)) return false;
    left -= part.size();
  }
  return true;
}

[[noreturn]] void run_child(int fd, const std::string& path, const std::string& dataset, std::uint64_t file_bytes) {
  bool sent = false;
  try {
    limit_child(file_bytes);
    sent = send_rows(fd, *open_hdf5_in_this_process(path, dataset));
  } catch (const std::bad_alloc&) {
    sent = send(fd, kNoMemory, {});
  } catch (const std::exception& e) {
    const std::string text = std::string(e.what()).substr(0, kMaxMessage);
    sent = send(fd, kRefused, std::as_bytes(std::span(text)));
  } catch (...) {
  }
  ::_exit(sent ? 0 : 1);  // no destructors, no handlers: they are the parent's
}

struct Child {
  pid_t id = -1;
  Child() = default;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { stop(); }
  void stop() {
    if (id <= 0) return;
    ::kill(id, SIGKILL);
    wait();
  }
  int wait() {
    int status = 0;
    while (id > 0 && ::waitpid(id, &status, 0) < 0 && errno == EINTR) {
    }
    id = -1;
    return status;
  }
};

class ChildRows final : public RowReader {
 public:
  ChildRows(const std::string& path, const std::string& dataset) : path_(path), file_bytes_(FileSource(path).size()) {
    child_.id = ::fork();
    if (child_.id < 0) {
      throw Error(ErrorKind::environment, std::string("no process for the HDF5 reader: ") + std::strerror(errno));
    }
    if (child_.id == 0) {
      ::close(pipe_.read_end);  // so that the child notices when its reader is gone
      run_child(pipe_.write_end, path, dataset, file_bytes_);
    }
    ::close(pipe_.write_end);
    pipe_.write_end = -1;
    receive_head();
  }

  [[nodiscard]] const TensorHead& head() const override { return head_; }

  void read(std::span<std::byte> to) override {
    if (to.empty()) return;
    position_.advance(to.size(), path_);
    while (!to.empty()) {
      if (piece_left_ == 0) piece_left_ = next_message(kData, kPiece);
      const std::size_t part = std::min<std::uint64_t>(piece_left_, to.size());
      if (receive(pipe_.read_end, to.first(part)) != part) damaged("the reader ended early");
      piece_left_ -= static_cast<std::uint32_t>(part);
      to = to.subspan(part);
    }
    if (position_.left() == 0) child_.stop();
  }

 private:
  void receive_head() {
    std::vector<std::int64_t> content(kMaxRank + 1);
    const std::size_t bytes = next_message(kHead, static_cast<std::uint32_t>(content.size() * sizeof(content[0])));
    content.resize(bytes / sizeof(content[0]));
    const auto target = std::as_writable_bytes(std::span(content));
    if (target.size() != bytes || receive(pipe_.read_end, target) != bytes) damaged("the reader ended early");
    if (content[0] < 0 || content[0] > static_cast<std::int64_t>(Dtype::f64)) damaged("the reader lost its way");
    head_.dtype = static_cast<Dtype>(content[0]);
    head_.shape.assign(content.begin() + 1, content.end());
    const std::uint64_t all = checked_bytes(head_.shape, size_of(head_.dtype), path_ + ": the reader's shape");
    if (all / kMaxExpansion > file_bytes_) damaged("the reader lost its way");
    position_ = ReadPosition(all);
    if (all == 0) child_.stop();
  }

  // The length of the next message, which must be of this kind; a refusal is thrown.
  std::uint32_t next_message(char kind, std::uint32_t longest) {
    char status = 0;
    std::uint32_t length = 0;
    if (receive(pipe_.read_end, std::as_writable_bytes(std::span(&status, 1))) == 0 ||
        receive(pipe_.read_end, std::as_writable_bytes(std::span(&length, 1))) != sizeof(length)) {
      damaged("the reader ended early");
    }
    if (status == kNoMemory) throw std::bad_alloc();
    if (status == kRefused && length <= kMaxMessage) {
      std::string message(length, '\0');
      message.resize(receive(pipe_.read_end, std::as_writable_bytes(std::span(message))));
      throw Error(ErrorKind::input, message);
    }
    if (status != kind || length == 0 || length > longest) damaged("the reader lost its way");
    return length;
  }

  [[noreturn]] void damaged(const char* what) {
    std::string why = what;
    ::close(std::exchange(pipe_.read_end, -1));  // a child that still writes ends
    const int ended = child_.wait();
    if (WIFSIGNALED(ended)) {
      const int signal = WTERMSIG(ended);
      why = signal == SIGXCPU || signal == SIGKILL ? "it took too long"
                                                   : "the library crashed, signal " + std::to_string(signal);
    }
    throw Error(ErrorKind::input, path_ + ": damaged: HDF5 could not read it: " + why);
  }

  std::string path_;
  std::uint64_t file_bytes_;
  Pipe pipe_;
  Child child_;
  TensorHead head_;
  ReadPosition position_{0};
  std::uint32_t piece_left_ = 0;
};

}  // namespace

std::unique_ptr<RowReader> open_hdf5(const std::string& path, const std::string& dataset) {
  return std::make_unique<ChildRows>(path, dataset);
}

}  // namespace mxcheck
