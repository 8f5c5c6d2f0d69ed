#pragma once
// A rank's GPU: memory and streams by the CUDA driver, rows between ranks by NCCL, or over the ranks' sockets by way of
// the host where several ranks share a GPU. Both are loaded at run time.
//
// Errors: Error{environment} without a driver or a GPU; ParallelError for what ranks and NCCL say; CudaFailure.

#include <chrono>
#include <memory>
#include <string>

#include "kernels/parallel/device.h"
#include "kernels/parallel/nccl.h"

namespace mxcheck {

struct GpuChoice {
  int local_rank = 0;
  bool shares_one = false;  // every rank of a host has its first GPU
};

// Makes the rank's GPU the only one that is visible to this process, before anything of CUDA runs. Returns why it has
// none, or nothing: a library for the host does not need it.
std::string choose_gpu(const GpuChoice& choice);

// nccl: none for sockets.
std::unique_ptr<mxcheck_kernels::parallel::Device> gpu_device(mxcheck_kernels::parallel::Mesh& mesh,
                                                              const mxcheck_kernels::parallel::NcclLibrary* nccl,
                                                              std::chrono::milliseconds timeout);

}  // namespace mxcheck
