#pragma once
// is(Fault::NAME): whether this copy of the library has the fault. The sources of a family see this header by -include;
// fault_names.inc is generated from the catalogue, the control first.

#include <type_traits>

#include "tests/faults/stamp.h"

namespace mxcheck_faults {

enum class Fault : int {
#define MXCHECK_FAULT(name) name,
#include "fault_names.inc"
#undef MXCHECK_FAULT
};

#ifdef __CUDACC__
// The stamp of this source's device code.
static __constant__ Stamp device_stamp = kUnstamped;
  #define MXCHECK_FAULT_HOST __host__ __device__
#else
  #define MXCHECK_FAULT_HOST
#endif

#ifdef __CUDA_ARCH__
// Not constexpr: nvcc then takes every call for a constant, and the stamp is never read.
__device__ __forceinline__ bool is(Fault fault) { return device_stamp.number == static_cast<int>(fault); }
#else
// No fault in constant expressions: static assertions and tables see the unchanged code.
MXCHECK_FAULT_HOST constexpr bool is(Fault fault) {
  return !std::is_constant_evaluated() && stamp.number == static_cast<int>(fault);
}
#endif

}  // namespace mxcheck_faults
