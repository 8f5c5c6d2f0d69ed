#pragma once
// Work in a process of its own, with a time limit: what it breaks, a CUDA context too, ends with it.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "kernels/sm100/probe/launcher.h"

namespace mxcheck::sm100::probe {

// The state and the message that a child leaves for its parent, beside the words.
struct Left {
  Outcome::State state;
  char text[496];
};
void leave(Left& left, Outcome::State state, const std::string& text);

// `work` leaves a state and, with `ran`, `words` words. A child that takes longer than `limit` is killed: hung. One
// that ends by a signal, or leaves nothing, has failed. By a process with one thread that has not called CUDA.
Outcome in_a_child(std::chrono::milliseconds limit, std::size_t words,
                   const std::function<void(Left&, std::uint32_t*)>& work);

}  // namespace mxcheck::sm100::probe
