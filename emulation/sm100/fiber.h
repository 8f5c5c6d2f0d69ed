#pragma once
// A function with a stack of its own that can be left in its middle and entered again: one for each emulated thread.
// glibc's contexts; a switch is two of them and a system call each, some 0.3 us, where an emulated mma takes
// milliseconds.

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace mxcheck::emulation::sm100 {

class Fiber {
 public:
  // `body` must not throw. The stack holds fragments of 128 registers several times over.
  explicit Fiber(std::function<void()> body, std::size_t stack_bytes = std::size_t{64} * 1024);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  Fiber(Fiber&&) = delete;
  Fiber& operator=(Fiber&&) = delete;
  ~Fiber() = default;  // a fibre that has not ended is dropped: kernels own nothing on their stacks

  void enter();  // until it leaves or ends; by its owner
  void leave();  // back to the owner; by the fibre
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  static void run(unsigned high, unsigned low);

  std::function<void()> body_;
  std::unique_ptr<std::byte[]> stack_;
  ucontext_t own_{};
  ucontext_t owner_{};
  std::size_t stack_bytes_;
  // AddressSanitizer is told which stack is used.
  const void* owner_stack_ = nullptr;
  std::size_t owner_bytes_ = 0;
  bool ended_ = false;
};

}  // namespace mxcheck::emulation::sm100
