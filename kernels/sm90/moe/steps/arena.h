#pragma once
// The workspace of a plan. Steps run one after the other, so memory of what no later step reads is handed out again:
// each part lies at the first gap that holds it. Without memory it only counts.
//
//   const Part p = arena.take(rows, 4 * n);   // bytes: rows * 4 * n
//   ... steps that write and read arena.at<float>(p) ...
//   arena.drop(p);                            // after the last of them was added

#include <cstdint>
#include <vector>

namespace mxcheck_kernels::sm90 {

struct Part {
  std::uint64_t at = 0;
  std::uint64_t bytes = 0;
};

class Arena {
 public:
  explicit Arena(void* base) : base_(static_cast<std::uint8_t*>(base)) {}

  // Aligned to 256 bytes. INVALID where it ends beyond what an address can be.
  Part take(std::int64_t rows, std::int64_t row_bytes);
  void drop(const Part& part);

  // Null without memory, and for no bytes.
  template <class T>
  [[nodiscard]] T* at(const Part& part) const {
    return base_ == nullptr || part.bytes == 0 ? nullptr : reinterpret_cast<T*>(base_ + part.at);
  }
  // That all parts together need.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  std::uint8_t* base_;
  std::uint64_t bytes_ = 0;
  std::vector<Part> taken_;  // ascending
};

}  // namespace mxcheck_kernels::sm90
