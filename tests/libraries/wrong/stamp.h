#pragma once
// Stamp: which fault a copy of a family's library has.
//
// A family is one library with all faults of a library of the catalogue built in, each behind a condition,
// is(Fault::NAME). stamp_faults.cc copies the file once for each fault and writes the fault's number and name over the
// stamp, so that a copy keeps its fault under any file name. A library that nobody stamped aborts when it is loaded: no
// test runs it for the control.

#include <type_traits>

namespace mxcheck_faults {

struct Stamp {
  char mark[32];
  int number;
  char name[92];
};
inline constexpr Stamp kUnstamped{"mxcheck fault stamp, 128 bytes:", -1, "nobody stamped this file"};

// It is not const: the compiler must not take it for unstamped.
extern __attribute__((visibility("hidden"))) Stamp stamp;

// The sources of a family see this header by -include; overlay.cmake writes the names, the control first.
#if __has_include("fault_names.inc")
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
#endif

}  // namespace mxcheck_faults
