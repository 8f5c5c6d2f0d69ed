#pragma once
// wgmma of 8-bit floats, m64nNk32, FP32 accumulators: one function an instruction. The operands' formats are template
// arguments; the long lists are what the instruction wants.

#include <cstdint>

#include "kernels/sm90/geometry.h"

namespace mxcheck_sm90::ptx {

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// Keeps the compiler from moving accumulators across a fence or a wait.
template <int kCount>
__device__ __forceinline__ void wgmma_hold(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// Of rows of 128 bytes, stored with the 128-byte swizzle in groups of 8 rows. Adding 2 moves by 32 bytes along k.
__device__ __forceinline__ std::uint64_t wgmma_operand(std::uint32_t address) {
  constexpr std::uint64_t kGroupOfRows = 1024 >> 4;
  constexpr std::uint64_t kSwizzle128 = 1;
  return kSwizzle128 << 62 | kGroupOfRows << 32 | std::uint64_t{1} << 16 | (address & 0x3FFFF) >> 4;
}

// add: 0 starts from zero, 1 adds to d.

// clang-format off
#define MXCHECK_WGMMA_SS_128(a_format, b_format)                                                                \
  asm volatile(                                                                                                 \
      "{\n"                                                                                                     \
      ".reg .pred add;\n"                                                                                       \
      "setp.ne.b32 add, %66, 0;\n"                                                                              \
      "wgmma.mma_async.sync.aligned.m64n128k32.f32." a_format "." b_format " {"                                 \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                  \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                        \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                        \
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"                          \
      "}, %64, %65, add, 1, 1;\n"                                                                               \
      "}"                                                                                                       \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),         \
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),   \
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), \
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), \
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), \
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), \
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])  \
      : "l"(a), "l"(b), "r"(add)                                                                                \
      : "memory")
// clang-format on

template <Element kA, Element kB>
__device__ __forceinline__ void wgmma(float (&d)[64], std::uint64_t a, std::uint64_t b, int add) {
  if constexpr (kA == Element::e4m3 && kB == Element::e4m3) {
    MXCHECK_WGMMA_SS_128("e4m3", "e4m3");
  } else if constexpr (kA == Element::e4m3) {
    MXCHECK_WGMMA_SS_128("e4m3", "e5m2");
  } else if constexpr (kB == Element::e4m3) {
    MXCHECK_WGMMA_SS_128("e5m2", "e4m3");
  } else {
    MXCHECK_WGMMA_SS_128("e5m2", "e5m2");
  }
}
#undef MXCHECK_WGMMA_SS_128

// clang-format off
#define MXCHECK_WGMMA_RS_128(a_format, b_format)                                                                \
  asm volatile(                                                                                                 \
      "{\n"                                                                                                     \
      ".reg .pred add;\n"                                                                                       \
      "setp.ne.b32 add, %69, 0;\n"                                                                              \
      "wgmma.mma_async.sync.aligned.m64n128k32.f32." a_format "." b_format " {"                                 \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                  \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                        \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                        \
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"                          \
      "}, {%64, %65, %66, %67}, %68, add, 1, 1;\n"                                                              \
      "}"                                                                                                       \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),         \
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),   \
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), \
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), \
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), \
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), \
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])  \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add)                                            \
      : "memory")
// clang-format on

template <Element kA, Element kB>
__device__ __forceinline__ void wgmma(float (&d)[64], const std::uint32_t (&a)[4], std::uint64_t b, int add) {
  if constexpr (kA == Element::e4m3 && kB == Element::e4m3) {
    MXCHECK_WGMMA_RS_128("e4m3", "e4m3");
  } else if constexpr (kA == Element::e4m3) {
    MXCHECK_WGMMA_RS_128("e4m3", "e5m2");
  } else if constexpr (kB == Element::e4m3) {
    MXCHECK_WGMMA_RS_128("e5m2", "e4m3");
  } else {
    MXCHECK_WGMMA_RS_128("e5m2", "e5m2");
  }
}
#undef MXCHECK_WGMMA_RS_128

// clang-format off
#define MXCHECK_WGMMA_SS_192(a_format, b_format)                                                                \
  asm volatile(                                                                                                 \
      "{\n"                                                                                                     \
      ".reg .pred add;\n"                                                                                       \
      "setp.ne.b32 add, %98, 0;\n"                                                                              \
      "wgmma.mma_async.sync.aligned.m64n192k32.f32." a_format "." b_format " {"                                 \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                  \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                        \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                        \
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "                        \
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "                        \
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"                          \
      "}, %96, %97, add, 1, 1;\n"                                                                               \
      "}"                                                                                                       \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),         \
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),   \
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), \
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), \
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), \
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), \
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), \
        "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), \
        "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), \
        "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), \
        "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])  \
      : "l"(a), "l"(b), "r"(add)                                                                                \
      : "memory")
// clang-format on

template <Element kA, Element kB>
__device__ __forceinline__ void wgmma(float (&d)[96], std::uint64_t a, std::uint64_t b, int add) {
  if constexpr (kA == Element::e4m3 && kB == Element::e4m3) {
    MXCHECK_WGMMA_SS_192("e4m3", "e4m3");
  } else if constexpr (kA == Element::e4m3) {
    MXCHECK_WGMMA_SS_192("e4m3", "e5m2");
  } else if constexpr (kB == Element::e4m3) {
    MXCHECK_WGMMA_SS_192("e5m2", "e4m3");
  } else {
    MXCHECK_WGMMA_SS_192("e5m2", "e5m2");
  }
}
#undef MXCHECK_WGMMA_SS_192

}  // namespace mxcheck_sm90::ptx
