#pragma once
// Bytes of an untrusted file behind bounds checks, so that the parsers need not hold a whole file to read one tensor.
// Every read is checked against the length; nothing is mapped, so a file that shrinks is an error and not a signal.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mxcheck {

class ByteSource {
 public:
  explicit ByteSource(std::string name) : name_(std::move(name)) {}
  virtual ~ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }  // for messages
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  // Fills `to` from `offset`; Error{input} when that is beyond the end.
  virtual void read(std::uint64_t offset, std::span<std::byte> to) const = 0;
  [[nodiscard]] std::string text() const;  // all of it, for files whose size the caller has bounded

 private:
  std::string name_;
};

class SpanSource final : public ByteSource {
 public:
  SpanSource(std::span<const std::byte> bytes, std::string name) : ByteSource(std::move(name)), bytes_(bytes) {}
  [[nodiscard]] std::uint64_t size() const override { return bytes_.size(); }
  void read(std::uint64_t offset, std::span<std::byte> to) const override;

 private:
  std::span<const std::byte> bytes_;
};

// "a directory", "a FIFO", ... from the st_mode of stat.
const char* kind_of_file(unsigned mode);

// A regular file, opened read-only. Error{input} when there is none, or when it is a directory, pipe or device.
class FileSource final : public ByteSource {
 public:
  explicit FileSource(const std::string& path);
  ~FileSource() override;
  [[nodiscard]] std::uint64_t size() const override { return size_; }
  void read(std::uint64_t offset, std::span<std::byte> to) const override;
  // Opens the file behind the descriptor, even if its path has changed.
  [[nodiscard]] std::string open_name() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

// a * b, or nothing on overflow of 63 bits: sizes read from files are multiplied only through this.
bool checked_multiply(std::uint64_t a, std::uint64_t b, std::uint64_t& product);

// Elements of a shape times bytes an element; Error{input} on overflow. Every dimension must be at least 0.
std::uint64_t checked_bytes(std::span<const std::int64_t> shape, std::size_t element_bytes, const std::string& where);

// Room for so many bytes, zeros; Error{environment} where the machine has not that much memory.
std::vector<std::byte> room_for(std::uint64_t bytes, const std::string& where);

// NumPy's and HDF5's own limit; longer shapes are refused in every file format.
inline constexpr std::size_t kMaxRank = 32;

}  // namespace mxcheck
