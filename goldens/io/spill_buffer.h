#pragma once
// Private to goldens/: bytes that come before their turn. Up to 1 MiB stays in memory; more goes to a file without a
// name.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace mxcheck {

class SpillBuffer {
 public:
  explicit SpillBuffer(std::string directory) : directory_(std::move(directory)) {}
  ~SpillBuffer();
  SpillBuffer(const SpillBuffer&) = delete;
  SpillBuffer& operator=(const SpillBuffer&) = delete;

  // Error{environment} when the machine fails: disk full and the like.
  void append(std::span<const std::byte> bytes);
  // Hands everything over in order, then is empty.
  void drain(const std::function<void(std::span<const std::byte>)>& take);

 private:
  void write_out();
  [[noreturn]] void fail(const char* what) const;

  std::string directory_;
  std::vector<std::byte> recent_;
  std::uint64_t written_ = 0;
  int fd_ = -1;
};

}  // namespace mxcheck
