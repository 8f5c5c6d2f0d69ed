#pragma once
// A workspace handed out part by part, each aligned to 256 bytes. Without memory it only counts.

#include <cstdint>

#include "kernels/common/refusal.h"

namespace mxcheck_kernels::sm90 {

class Space {
 public:
  explicit Space(void* base) : base_(static_cast<std::uint8_t*>(base)) {}

  // INVALID where the sum is beyond what an address can be. Null for no bytes, and without memory.
  template <class T>
  T* take(std::uint64_t bytes) {
    if (bytes > kMost - bytes_) invalid("the tensors are so large that no workspace would do");
    auto* const at = base_ == nullptr || bytes == 0 ? nullptr : reinterpret_cast<T*>(base_ + bytes_);
    bytes_ += (bytes + 255) / 256 * 256;
    return at;
  }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  static constexpr std::uint64_t kMost = std::uint64_t{1} << 60;
  std::uint8_t* base_;
  std::uint64_t bytes_ = 0;
};

}  // namespace mxcheck_kernels::sm90
