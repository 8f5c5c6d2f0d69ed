#pragma once
// Cluster launch control without the hardware's: a word of device memory for each cluster of the grid, which the first
// to ask has. A cluster that starts asks for itself, and ends where another was first.

#include "emulation/on_sm90/device.cuh"

namespace mxcheck::emulation::on_sm90 {

__device__ __forceinline__ std::uint32_t clusters() { return gridDim.x / ranks(); }

// Whether nobody had it.
__device__ __forceinline__ bool claim(const Launch& launch, std::uint32_t cluster) {
  return atomicCAS(&launch.claims[cluster], 0, 1) == 0;
}

// The first cluster that nobody has, from `from` on and round; clusters() where there is none. The random schedule
// begins anywhere: which one the hardware gives is not said.
__device__ __forceinline__ std::uint32_t claim_any(const Launch& launch, std::uint32_t from) {
  const std::uint32_t all = clusters();
  for (std::uint32_t i = 0; i < all; ++i) {
    const std::uint32_t cluster = (from + i) % all;
    if (claim(launch, cluster)) return cluster;
  }
  return all;
}

}  // namespace mxcheck::emulation::on_sm90
