#pragma once
// Probes on a card. Every launch is in a process of its own: an illegal instruction ends a CUDA context, a wait without
// end is killed, and the next launch sees neither. The program's own process never calls CUDA, as a process that has
// cannot fork another that does.

#include <cstdint>
#include <memory>

#include "kernels/sm100/probe/program.h"

namespace mxcheck::sm100::probe {

CardState card_state();  // of the first card
std::unique_ptr<Launcher> card_launcher(unsigned timeout_seconds, std::uint32_t repeat);

}  // namespace mxcheck::sm100::probe
