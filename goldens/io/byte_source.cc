#include "goldens/io/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "numerics/error.h"

namespace mxcheck {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorKind::input, text); }

void check_range(const ByteSource& source, std::uint64_t offset, std::size_t count) {
  if (offset > source.size() || count > source.size() - offset) {
    refuse(source.name() + ": truncated: bytes " + std::to_string(offset) + " to " + std::to_string(offset + count) +
           " are needed, the file has " + std::to_string(source.size()));
  }
}

}  // namespace

const char* kind_of_file(unsigned mode) {
  switch (mode & S_IFMT) {
    case S_IFREG: return "a regular file";
    case S_IFDIR: return "a directory";
    case S_IFIFO: return "a FIFO";
    case S_IFCHR: return "a character device";
    case S_IFBLK: return "a block device";
    case S_IFSOCK: return "a socket";
    default: return "no file of a known kind";
  }
}

std::string ByteSource::text() const {
  std::string text(size(), ' ');
  read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void SpanSource::read(std::uint64_t offset, std::span<std::byte> to) const {
  check_range(*this, offset, to.size());
  std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), to.size(), to.begin());
}

FileSource::FileSource(const std::string& path) : ByteSource(path) {
  // O_NONBLOCK: opening a pipe must fail below, not wait for a writer.
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) refuse(path + ": cannot be opened: " + std::strerror(errno));
  struct stat status {};
  if (::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd_);
    refuse(path + ": not a regular file but " + kind_of_file(status.st_mode));
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

FileSource::~FileSource() { ::close(fd_); }

void FileSource::read(std::uint64_t offset, std::span<std::byte> to) const {
  check_range(*this, offset, to.size());
  while (!to.empty()) {
    const ssize_t got = ::pread(fd_, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(name() + ": cannot be read: " + std::strerror(errno));
    if (got == 0) refuse(name() + ": truncated while it was being read");
    offset += static_cast<std::uint64_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
}

bool checked_multiply(std::uint64_t a, std::uint64_t b, std::uint64_t& product) {
  constexpr auto kLimit = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (a != 0 && b > kLimit / a) return false;
  product = a * b;
  return product <= kLimit;
}

std::vector<std::byte> room_for(std::uint64_t bytes, const std::string& where) {
  try {
    return std::vector<std::byte>(bytes);
  } catch (const std::exception&) {  // std::bad_alloc, or std::length_error beyond the vector's own limit
    throw Error(ErrorKind::environment, where + ": out of memory: " + std::to_string(bytes) + " bytes are needed");
  }
}

std::uint64_t checked_bytes(std::span<const std::int64_t> shape, std::size_t element_bytes, const std::string& where) {
  std::uint64_t bytes = element_bytes;
  // Zeros first: a shape of 0 x huge is empty, whatever the order of its factors.
  for (const std::int64_t extent : shape) {
    if (extent == 0) bytes = 0;
  }
  for (const std::int64_t extent : shape) {
    if (extent < 0) refuse(where + ": a dimension is negative");
    if (!checked_multiply(bytes, static_cast<std::uint64_t>(extent), bytes)) {
      refuse(where + ": the shape's size overflows 63 bits");
    }
  }
  return bytes;
}

}  // namespace mxcheck
