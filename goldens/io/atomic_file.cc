#include "goldens/io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "goldens/io/byte_source.h"
#include "goldens/io/temporary_names.h"
#include "numerics/error.h"

namespace mxcheck {
namespace {

namespace fs = std::filesystem;

constexpr int kNameAttempts = 100;

[[noreturn]] void fail(const std::string& path, const char* what, int error) {
  constexpr std::array kMachine{ENOSPC, EDQUOT, EFBIG, EIO, ENOMEM, EMFILE, ENFILE};
  const bool machine = std::find(kMachine.begin(), kMachine.end(), error) != kMachine.end();
  throw Error(
      machine ? ErrorKind::environment : ErrorKind::usage,
      path + ": " + what + ": " + std::strerror(error) + (machine ? "" : "; choose a path that can be written"));
}

// A name that no other process or thread of this one tries first; exclusive creation settles the rest.
std::string temporary_name(const std::string& path, int attempt) {
  const fs::path target(path);
  const std::string name =
      "." + target.filename().string() + ".mxcheck-" + std::to_string(::getpid()) + "-" + std::to_string(attempt);
  return (target.parent_path() / name).string();
}

// Where the file is to be: links are followed to their end, where there may be nothing yet.
std::string end_of_links(const std::string& path) {
  constexpr int kMostLinks = 40;  // as many as the kernel follows
  fs::path at(path);
  for (int links = 0; links <= kMostLinks; ++links) {
    std::error_code no_link;
    const fs::path target = fs::read_symlink(at, no_link);
    if (no_link) return at.string();
    at = at.parent_path() / target;  // an absolute target stands alone
  }
  fail(path, "cannot be written", ELOOP);
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path, Naming naming) : path_(end_of_links(path)) {
  struct stat status {};
  if (::stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    throw Error(ErrorKind::usage,
                path + ": cannot be written: it is " + kind_of_file(status.st_mode) + "; choose a file name");
  }
  directory_ = fs::path(path_).parent_path().string();
  if (directory_.empty()) directory_ = ".";
  if (path_.empty() || fs::path(path_).filename().empty()) fail(path_, "cannot be written", ENOENT);
  if (naming == Naming::late) fd_ = ::open(directory_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (fd_ >= 0 && ::access(("/proc/self/fd/" + std::to_string(fd_)).c_str(), F_OK) != 0) {  // link_unnamed needs it
    ::close(fd_);
    fd_ = -1;
  }
  if (fd_ < 0) create_named();
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (temporary_.empty()) return;
  ::unlink(temporary_.c_str());
  forget_temporary(temporary_);
}

void AtomicFile::create_named() {
  for (int attempt = 0; attempt < kNameAttempts; ++attempt) {
    const std::string name = temporary_name(path_, attempt);
    const Undisturbed now;
    fd_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ >= 0) {
      temporary_ = name;
      remember_temporary(name);
      return;
    }
    if (errno != EEXIST) break;
  }
  fail(path_, "cannot be written", errno);
}

void AtomicFile::link_unnamed() {
  const std::string self = "/proc/self/fd/" + std::to_string(fd_);
  for (int attempt = 0; attempt < kNameAttempts; ++attempt) {
    const std::string name = temporary_name(path_, attempt);
    const Undisturbed now;
    if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      temporary_ = name;
      remember_temporary(name);
      return;
    }
    if (errno != EEXIST) break;
  }
  fail(path_, "cannot be written", errno);
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, "writing failed", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, "writing failed", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
}

void AtomicFile::write(const std::string& text) { write(std::as_bytes(std::span(text))); }

void AtomicFile::sync() {
  if (::fsync(fd_) != 0) fail(path_, "writing failed", errno);
}

void AtomicFile::complete() {
  if (fd_ < 0) return;
  sync();
  if (temporary_.empty()) link_unnamed();
  const int closed = ::close(fd_);
  fd_ = -1;
  if (closed != 0) fail(path_, "writing failed", errno);
}

void AtomicFile::commit(const std::function<void()>& before_it_appears) {
  if (before_it_appears) {
    if (fd_ >= 0) sync();
    before_it_appears();  // before link_unnamed: a file without a name vanishes even where a signal ends the process
  }
  complete();
  {
    const Undisturbed now;
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, "cannot be written", errno);
    forget_temporary(temporary_);
    temporary_.clear();
  }
  const int directory = ::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory >= 0) {
    ::fsync(directory);  // some file systems refuse this; the content is on disk either way
    ::close(directory);
  }
}

}  // namespace mxcheck
