#pragma once
// The choice of body for the functions of this folder. There are three, and a kernel written on top of them compiles
// with each, unchanged:
//
//   nvcc for sm_100a       inline PTX. One function is one instruction, or a loop around one.
//   a plain C++ compiler   a call into emulation/sm100/instructions.h, by the fibre of one CUDA thread:
//                          MXCHECK_SM100_EMULATED is 1.
//   nvcc for sm_90a        where the build defines MXCHECK_SM100_FOR_SM90, and there alone: the same PTX for what
//   Hopper
//                          has (mbarriers, TMA, clusters), a call into emulation/on_sm90/instructions.cuh for what it
//                          has not: MXCHECK_SM100_ON_SM90 is 1.
//
// nvcc's host pass parses the PTX bodies and drops them: they belong to __device__ functions. Host code that uses these
// headers with CUDA is compiled by nvcc too (a .cu file); in a .cc file it would get the emulation's types.
//
// Any other device target is an error, never another body. sm_100f is the trap: it defines the family macro of sm_100a
// and lacks some of its instructions (PTX ISA 9.0, "Target ISA", family-specific features), so a guard on
// __CUDA_ARCH_FEAT_SM100_ALL that chose between two bodies would put the emulation's into its binary without a word.
//
// Example:
//   MXCHECK_SM100_KERNEL void scale_tiles(const MXCHECK_SM100_GRID_CONSTANT TensorMap map, float* out) { ... }

#if !defined(__CUDACC__)

  #define MXCHECK_SM100_EMULATED 1
  #define MXCHECK_SM100_ON_SM90 0
  #define MXCHECK_SM100_DEVICE inline
  #define MXCHECK_SM100_ANYWHERE inline
  #define MXCHECK_SM100_KERNEL inline
  #define MXCHECK_SM100_GRID_CONSTANT
  #define MXCHECK_SM100_LAUNCH_BOUNDS(threads)
  #define MXCHECK_SM100_UNROLL

#else

  #define MXCHECK_SM100_EMULATED 0
  #if defined(MXCHECK_SM100_FOR_SM90)
    #define MXCHECK_SM100_ON_SM90 1
  #else
    #define MXCHECK_SM100_ON_SM90 0
  #endif
  #define MXCHECK_SM100_DEVICE __device__ __forceinline__
  #define MXCHECK_SM100_ANYWHERE __host__ __device__ __forceinline__
  #define MXCHECK_SM100_KERNEL __global__
  #define MXCHECK_SM100_GRID_CONSTANT __grid_constant__
  // 1: one CTA may have all of an SM's registers. Without it ptxas ignores setmaxnreg.
  #define MXCHECK_SM100_LAUNCH_BOUNDS(threads) __launch_bounds__(threads, 1)
  #define MXCHECK_SM100_UNROLL _Pragma("unroll")

  #if defined(__CUDA_ARCH__) && MXCHECK_SM100_ON_SM90
    #if !defined(__CUDA_ARCH_SPECIFIC__) || __CUDA_ARCH_SPECIFIC__ != 900
      #error \
          "kernels/sm100/tcgen05: MXCHECK_SM100_FOR_SM90 is for sm_90a alone; compile for sm_90a, or without it for sm_100a"
    #endif
  #elif defined(__CUDA_ARCH__)
    #if defined(__CUDA_ARCH_SPECIFIC__) && __CUDA_ARCH_SPECIFIC__ == 1000
      #if !defined(__CUDA_ARCH_FEAT_SM100_ALL)
        #error "kernels/sm100/tcgen05: sm_100a without all of its features; use nvcc 12.8 or later"
      #endif
    #elif defined(__CUDA_ARCH_SPECIFIC__) && __CUDA_ARCH_SPECIFIC__ == 900
      #error "kernels/sm100/tcgen05: compiled for sm_90a, which has no tensor memory; compile for sm_100a"
    #elif defined(__CUDA_ARCH_SPECIFIC__) && __CUDA_ARCH_SPECIFIC__ == 1030
      #error "kernels/sm100/tcgen05: compiled for sm_103a, for which nothing here was checked; compile for sm_100a"
    #elif defined(__CUDA_ARCH_SPECIFIC__) && __CUDA_ARCH_SPECIFIC__ >= 1200
      #error "kernels/sm100/tcgen05: compiled for sm_120a or later, which has no tensor memory; compile for sm_100a"
    #elif defined(__CUDA_ARCH_SPECIFIC__)
      #error "kernels/sm100/tcgen05: compiled for another architecture's own features; compile for sm_100a"
    #elif defined(__CUDA_ARCH_FAMILY_SPECIFIC__) && __CUDA_ARCH_FAMILY_SPECIFIC__ == 1000
      #error "kernels/sm100/tcgen05: compiled for the family sm_100f, a subset; compile for sm_100a"
    #elif defined(__CUDA_ARCH_FAMILY_SPECIFIC__)
      #error "kernels/sm100/tcgen05: compiled for another architecture family; compile for sm_100a"
    #else
      #error "kernels/sm100/tcgen05: compiled for an architecture without its own features; compile for sm_100a"
    #endif
  #endif  // __CUDA_ARCH__

#endif  // __CUDACC__

// 1 where the target has no tcgen05, no pairs in TMA and no launch control.
#define MXCHECK_SM100_SOFTWARE (MXCHECK_SM100_EMULATED || MXCHECK_SM100_ON_SM90)
