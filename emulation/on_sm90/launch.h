#pragma once
// A Blackwell kernel's launch on a Hopper card: the host's part. The kernel is one that run.cuh has wrapped.
//
//   const sm100::LaunchResult r = launch({.function = entry, .blocks = 2, .threads = 192, .cluster = 2,
//                                         .shared_bytes = 100'000}, &params, {.schedule = Schedule::lazy});
//
// The result says what that of emulation/sm100/launch.h says, with fewer checks (control.h) and one field more: the
// kernel's seconds. A kernel that is stopped for what it did leaves the process without a CUDA context, as any trap
// does: the next launch fails.
//
// One thread at a time may launch: launches share tensor memory.

#include <cstddef>
#include <string>

#include "emulation/sm100/launch.h"

namespace mxcheck::emulation::on_sm90 {

struct KernelShape {
  const void* function = nullptr;  // (Params, on_sm90::Launch)
  unsigned blocks = 1;
  unsigned threads = 128;  // of the kernel: a multiple of 32 up to 256
  unsigned cluster = 1;
  std::size_t shared_bytes = 0;  // of the kernel
};

// Why nothing can run here; empty where the first card is a Hopper.
std::string card_refusal();

// Error{environment} with CUDA's text where a call of the runtime gave an error (a cudaError_t).
void require_success(int cuda_error, const char* what);

// Where the card reads the Launch of the launch that comes: for a kernel that begins with enter() (run.cuh) and has no
// second argument.
const void* launch_in_memory();

// `params` is the kernel's first argument, on the host. Error{usage} for a shape that no launch has, Error{io} without
// a Hopper or where CUDA fails before the kernel.
sm100::LaunchResult launch(const KernelShape& shape, void* params, const sm100::LaunchOptions& options);

}  // namespace mxcheck::emulation::on_sm90
