#include "emulation/sm100/fiber.h"

#include <bit>
#include <cstdint>
#include <utility>

namespace mxcheck::emulation::sm100 {

// makecontext passes ints: a pointer goes in two halves.
Fiber::Fiber(std::function<void()> body, std::size_t stack_bytes)
    : body_(std::move(body)), stack_(std::make_unique_for_overwrite<std::byte[]>(stack_bytes)) {
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
  self->body_();
  self->ended_ = true;
  self->leave();
}

void Fiber::enter() { swapcontext(&owner_, &own_); }

void Fiber::leave() { swapcontext(&own_, &owner_); }

}  // namespace mxcheck::emulation::sm100
