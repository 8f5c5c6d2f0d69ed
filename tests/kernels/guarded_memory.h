#pragma once
// Memory whose last byte is the last before a page that may not be touched: a read or write beyond the end crashes.
// The bytes before it in its pages are filled with a pattern, and intact_before() says whether they still are.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

namespace mxcheck {

class GuardedMemory {
 public:
  explicit GuardedMemory(std::size_t bytes, std::uint8_t fill = kPoison) : bytes_(bytes) {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    usable_ = (bytes + page - 1) / page * page + page;  // one more page before, for intact_before()
    mapped_ = usable_ + page;
    void* const map = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) throw std::bad_alloc();
    start_ = static_cast<std::uint8_t*>(map);
    if (mprotect(start_ + usable_, page, PROT_NONE) != 0) throw std::bad_alloc();
    std::memset(start_, kPoison, usable_ - bytes);
    std::memset(data(), fill, bytes);
  }
  GuardedMemory(GuardedMemory&& other) noexcept
      : bytes_(other.bytes_),
        usable_(other.usable_),
        mapped_(other.mapped_),
        start_(std::exchange(other.start_, nullptr)) {}
  GuardedMemory& operator=(GuardedMemory&&) = delete;
  ~GuardedMemory() {
    if (start_ != nullptr) munmap(start_, mapped_);
  }

  [[nodiscard]] std::uint8_t* data() const { return start_ + usable_ - bytes_; }
  [[nodiscard]] std::size_t size() const { return bytes_; }
  [[nodiscard]] bool intact_before() const {
    return std::all_of(start_, data(), [](std::uint8_t b) { return b == kPoison; });
  }
  [[nodiscard]] bool intact() const {  // nothing written at all
    return std::all_of(start_, start_ + usable_, [](std::uint8_t b) { return b == kPoison; });
  }

  static constexpr std::uint8_t kPoison = 0xA5;

 private:
  std::size_t bytes_;
  std::size_t usable_ = 0;
  std::size_t mapped_ = 0;
  std::uint8_t* start_ = nullptr;
};

}  // namespace mxcheck
