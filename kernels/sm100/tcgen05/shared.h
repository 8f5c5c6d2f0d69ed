#pragma once
// Shared memory by its 32-bit address, through the generic proxy; and the fence to the async proxy, that of TMA and
// tensor cores.
//
// Addresses of shared::cta are at the same time addresses of shared::cluster, of the CTA that uses them (PTX ISA,
// "State spaces", shared); another CTA's come from map_to_rank (cluster.h). Loads and stores here are of the own CTA's.

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/sm100/tcgen05/target.h"

#if MXCHECK_SM100_EMULATED
  #include "emulation/sm100/instructions.h"
#elif MXCHECK_SM100_ON_SM90
  #include "emulation/on_sm90/instructions.cuh"
#endif

namespace mxcheck::sm100 {

using SharedAddress = std::uint32_t;

inline constexpr unsigned kSharedBytes = 232448;  // what a CTA of sm_100 can opt in to: 227 KiB
inline constexpr unsigned kSharedAlignment =
    1024;  // of the 128-byte swizzle's pattern, the largest that anything here needs

#if !MXCHECK_SM100_EMULATED
extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
#endif

// The address of dynamic shared memory, a multiple of kSharedAlignment: that is the array's alignment, so a launch has
// no bytes to add.
MXCHECK_SM100_DEVICE SharedAddress shared_base() {
#if MXCHECK_SM100_EMULATED
  return emulation::sm100::shared_base();
#else
  return static_cast<SharedAddress>(__cvta_generic_to_shared(dynamic_shared_memory));
#endif
}

template <class T>
concept SharedWord = std::is_trivially_copyable_v<T> &&(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);

// `address` is at a multiple of sizeof(T).
template <SharedWord T>
MXCHECK_SM100_DEVICE T load_shared(SharedAddress address) {
  T value;
#if MXCHECK_SM100_EMULATED
  emulation::sm100::load_shared(address, &value, sizeof(T));
#else
  std::uint32_t w[sizeof(T) / 4];
  if constexpr (sizeof(T) == 4) {
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(w[0]) : "r"(address) : "memory");
  } else if constexpr (sizeof(T) == 8) {
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "r"(address) : "memory");
  } else {
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                 : "r"(address)
                 : "memory");
  }
  std::memcpy(&value, w, sizeof(T));
#endif
  return value;
}

template <SharedWord T>
MXCHECK_SM100_DEVICE void store_shared(SharedAddress address, T value) {
#if MXCHECK_SM100_EMULATED
  emulation::sm100::store_shared(address, &value, sizeof(T));
#else
  std::uint32_t w[sizeof(T) / 4];
  std::memcpy(w, &value, sizeof(T));
  if constexpr (sizeof(T) == 4) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(w[0]) : "memory");
  } else if constexpr (sizeof(T) == 8) {
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(address), "r"(w[0]), "r"(w[1]) : "memory");
  } else {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
                 : "memory");
  }
#endif
}

// By the threads that stored, before they arrive where the reader through TMA, mma or cp waits; and after generic loads
// of a slot that TMA will fill again without a commit in between (PTX ISA, "Async proxy").
MXCHECK_SM100_DEVICE void fence_proxy_async() {
#if MXCHECK_SM100_EMULATED
  emulation::sm100::fence_proxy_async();
#else
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

}  // namespace mxcheck::sm100
