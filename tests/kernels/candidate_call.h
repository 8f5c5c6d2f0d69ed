#pragma once
// A call of a candidate's operation, put together as a third party would: tensors in guarded memory, a policy, a
// message.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "kernels/candidate.h"
#include "tests/kernels/loaded_library.h"

namespace mxcheck {

// Memory whose last byte is the last before a page that may not be touched: a read or write beyond the end crashes.
// The bytes before it in its pages are filled with a pattern, and intact_before() says whether they still are.
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
  std::size_t bytes_, usable_ = 0, mapped_ = 0;
  std::uint8_t* start_ = nullptr;
};

inline constexpr DLDataType kBf16Type{kDLBfloat, 16, 1};
inline constexpr DLDataType kFp32Type{kDLFloat, 32, 1};
inline constexpr DLDataType kU8Type{kDLUInt, 8, 1};
inline constexpr DLDataType kI64Type{kDLInt, 64, 1};

inline mxcheck_policy make_policy(const char* format, const char* recipe, std::int64_t block_rows,
                                  std::int64_t block_cols, mxcheck_layout layout = MXCHECK_COMPACT) {
  mxcheck_policy policy{};
  policy.size = sizeof policy, policy.layout = layout, policy.format = format, policy.recipe = recipe;
  policy.block_rows = block_rows, policy.block_cols = block_cols, policy.threads = 1, policy.pad_byte = 0x5A;
  return policy;
}

struct TestTensor {
  GuardedMemory memory;
  std::array<std::int64_t, 2> shape{};
  std::array<std::int64_t, 2> strides{};
  DLTensor dl{};

  std::vector<std::uint8_t> bytes() const { return {memory.data(), memory.data() + memory.size()}; }
  template <class T>
  std::vector<T> values() const {
    std::vector<T> v(memory.size() / sizeof(T));
    if (!v.empty()) std::memcpy(v.data(), memory.data(), memory.size());
    return v;
  }
};

// Pointers to all of these.
inline mxcheck_call call_of(const mxcheck_policy& policy, std::span<const DLTensor> inputs,
                            std::span<const DLTensor> outputs, std::span<char> message) {
  mxcheck_call call{};
  call.size = sizeof call, call.num_inputs = static_cast<std::int32_t>(inputs.size());
  call.num_outputs = static_cast<std::int32_t>(outputs.size()), call.policy = &policy, call.inputs = inputs.data();
  call.outputs = outputs.data(), call.message = message.data(), call.message_bytes = message.size();
  return call;
}

class CandidateCall {
 public:
  explicit CandidateCall(mxcheck_policy policy) : policy(policy) {}

  // A matrix of rows x cols with this row stride (0: contiguous) and these bytes; without bytes, poison.
  TestTensor& matrix(DLDataType type, std::int64_t rows, std::int64_t cols, std::int64_t stride = 0,
                     std::span<const std::byte> content = {}) {
    const std::int64_t step = stride == 0 ? cols : stride;
    const std::int64_t elements = rows == 0 || cols == 0 ? 0 : (rows - 1) * step + cols;
    TestTensor& t = add(static_cast<std::size_t>(elements * type.bits / 8), content);
    t.shape = {rows, cols};
    t.strides = {step, 1};
    t.dl = {t.memory.data(), {kDLCPU, 0}, 2, type, t.shape.data(), stride == 0 ? nullptr : t.strides.data(), 0};
    return t;
  }
  TestTensor& flat(DLDataType type, std::int64_t count, std::span<const std::byte> content = {}) {
    TestTensor& t = add(static_cast<std::size_t>(count * type.bits / 8), content);
    t.shape = {count, 1};
    t.dl = {t.memory.data(), {kDLCPU, 0}, 1, type, t.shape.data(), nullptr, 0};
    return t;
  }
  TestTensor& offsets(std::span<const std::int64_t> values) {
    return flat(kI64Type, static_cast<std::int64_t>(values.size()), std::as_bytes(values));
  }

  mxcheck_status run(const mxcheck_operation& op, const std::vector<const TestTensor*>& in,
                     const std::vector<const TestTensor*>& out) {
    std::vector<DLTensor> inputs, outputs;
    for (const TestTensor* t : in) inputs.push_back(t->dl);
    for (const TestTensor* t : out) outputs.push_back(t->dl);
    mxcheck_call call = call_of(policy, inputs, outputs, message);
    message.fill('\0');
    return op.run(&call);
  }

  // No byte before an output or an input's start was written; what lies beyond their ends cannot have been.
  [[nodiscard]] bool kept_inside() const {
    return std::all_of(tensors_.begin(), tensors_.end(), [](const TestTensor& t) { return t.memory.intact_before(); });
  }

  mxcheck_policy policy;
  std::array<char, 512> message{};

 private:
  TestTensor& add(std::size_t bytes, std::span<const std::byte> content) {
    tensors_.push_back(TestTensor{GuardedMemory(bytes)});
    if (!content.empty()) std::memcpy(tensors_.back().memory.data(), content.data(), content.size());
    return tensors_.back();
  }

  std::deque<TestTensor> tensors_;  // addresses stay
};

}  // namespace mxcheck
