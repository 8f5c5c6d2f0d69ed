#pragma once
// The benchmarks on the host. Each sets bytes_per_second (read plus written) or items_per_second (elements).

#include <string>

namespace mxcheck::bench {

// memcpy of the bytes that quantizing moves, half read and half written, and every operation of the CPU library; each
// on one thread and on all cores.
void register_cpu_benchmarks(const std::string& library);

// reference::quantize, route and round_tokens, one thread's plain code on all cores: elements or tokens a second.
void register_reference_benchmarks();

// Chains of tensor-core steps, by the engine and by the plain model: multiplications a second.
void register_accumulate_benchmarks();

// Making and verifying a golden of 67 M elements, next to plain HDF5 on the same bytes. Files are in the temporary
// folder.
void register_golden_benchmarks(const std::string& tool);

}  // namespace mxcheck::bench
