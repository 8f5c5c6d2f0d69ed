#include "emulation/sm100/fiber.h"

#include <bit>
#include <cstdint>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
  #include <sanitizer/common_interface_defs.h>
#endif

namespace mxcheck::emulation::sm100 {
namespace {

#if defined(__SANITIZE_ADDRESS__)
void switch_to(void** kept, const void* stack, std::size_t bytes) {
  __sanitizer_start_switch_fiber(kept, stack, bytes);
}
void switched(void* kept, const void** stack, std::size_t* bytes) {
  __sanitizer_finish_switch_fiber(kept, stack, bytes);
}
#else
void switch_to(void** /*kept*/, const void* /*stack*/, std::size_t /*bytes*/) {}
void switched(void* /*kept*/, const void** /*stack*/, std::size_t* /*bytes*/) {}
#endif

}  // namespace

// makecontext passes ints: a pointer goes in two halves.
Fiber::Fiber(std::function<void()> body, std::size_t stack_bytes)
    : body_(std::move(body)),
      stack_(std::make_unique_for_overwrite<std::byte[]>(stack_bytes)),
      stack_bytes_(stack_bytes) {
  getcontext(&own_);
  own_.uc_stack.ss_sp = stack_.get();
  own_.uc_stack.ss_size = stack_bytes;
  own_.uc_link = nullptr;
  const auto address = std::bit_cast<std::uintptr_t>(this);
  makecontext(&own_, reinterpret_cast<void (*)()>(&Fiber::run), 2, static_cast<unsigned>(address >> 32),
              static_cast<unsigned>(address & 0xFFFFFFFFU));
}

void Fiber::run(unsigned high, unsigned low) {
  auto* self = std::bit_cast<Fiber*>((static_cast<std::uintptr_t>(high) << 32) | low);
  switched(nullptr, &self->owner_stack_, &self->owner_bytes_);
  self->body_();
  self->ended_ = true;
  self->leave();
}

void Fiber::enter() {
  void* kept = nullptr;
  switch_to(&kept, stack_.get(), stack_bytes_);
  swapcontext(&owner_, &own_);
  switched(kept, nullptr, nullptr);
}

void Fiber::leave() {
  void* kept = nullptr;
  switch_to(ended_ ? nullptr : &kept, owner_stack_, owner_bytes_);
  swapcontext(&own_, &owner_);
  switched(kept, &owner_stack_, &owner_bytes_);
}

}  // namespace mxcheck::emulation::sm100
