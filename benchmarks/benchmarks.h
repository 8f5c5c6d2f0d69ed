#pragma once
// What is measured. Every benchmark sets bytes_per_second (read plus written) or items_per_second (elements).

#include <string>

namespace mxcheck::bench {

// memcpy of the bytes that quantizing moves, half read and half written, and every operation of the CPU library; each
// on one thread and on all cores.
void register_cpu_benchmarks(const std::string& library);

// reference::quantize, one thread's plain code on all cores.
void register_reference_benchmarks();

}  // namespace mxcheck::bench
