#include "goldens/io/spill_buffer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "numerics/error.h"

namespace mxcheck {
namespace {

constexpr std::size_t kInMemory = 1 << 20;

}  // namespace

SpillBuffer::~SpillBuffer() {
  if (fd_ >= 0) ::close(fd_);
}

void SpillBuffer::fail(const char* what) const {
  throw Error(ErrorKind::environment, directory_ + ": temporary file: " + what + ": " + std::strerror(errno));
}

void SpillBuffer::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t part = std::min(bytes.size(), kInMemory - recent_.size());
    recent_.insert(recent_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(part));
    bytes = bytes.subspan(part);
    if (recent_.size() == kInMemory) write_out();
  }
}

void SpillBuffer::write_out() {
  if (fd_ < 0) fd_ = ::open(directory_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd_ < 0) {  // a file system without unnamed files
    std::string name = directory_ + "/.mxcheck-spill-XXXXXX";
    fd_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (fd_ < 0) fail("cannot be created");
    ::unlink(name.c_str());
  }
  for (std::span<const std::byte> rest = recent_; !rest.empty();) {
    const ssize_t done = ::pwrite(fd_, rest.data(), rest.size(), static_cast<off_t>(written_));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("writing failed");
    written_ += static_cast<std::uint64_t>(done);
    rest = rest.subspan(static_cast<std::size_t>(done));
  }
  recent_.clear();
}

void SpillBuffer::drain(const std::function<void(std::span<const std::byte>)>& take) {
  std::vector<std::byte> piece(std::min<std::uint64_t>(written_, kInMemory));
  for (std::uint64_t at = 0; at < written_;) {
    const ssize_t got = ::pread(fd_, piece.data(), piece.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail("reading failed");
    take(std::span(piece).first(static_cast<std::size_t>(got)));
    at += static_cast<std::uint64_t>(got);
  }
  take(recent_);
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  written_ = 0;
  recent_ = {};
}

}  // namespace mxcheck
