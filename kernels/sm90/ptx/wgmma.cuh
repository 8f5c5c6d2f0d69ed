#pragma once
// wgmma, 64 rows, FP32 accumulators, of every format and width in use: one call an instruction. Operands in shared
// memory are rows of 128 bytes, contiguous along k unless their name says otherwise, with the 128-byte swizzle in
// groups of 8 rows; a step takes 32 bytes of each.

#include <cstdint>

#include <cuda_runtime.h>

namespace mxcheck_kernels::sm90 {

// Formats of operands; for hosts too.
enum class Code : std::uint8_t { e4m3, e5m2, bf16, fp16, tf32 };

__host__ __device__ constexpr int bytes_of(Code code) {
  return code == Code::tf32 ? 4 : code == Code::bf16 || code == Code::fp16 ? 2 : 1;
}

}  // namespace mxcheck_kernels::sm90

#ifdef __CUDACC__

namespace mxcheck_kernels::sm90::ptx {

__device__ __forceinline__ void warpgroup_arrive() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void warpgroup_commit_batch() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
__device__ __forceinline__ void warpgroup_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// Keeps the compiler from moving accumulators across a fence or a wait.
template <int kCount>
__device__ __forceinline__ void warpgroup_fence_operand(float (&d)[kCount]) {
  #pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// The descriptor of an operand with its rows at a multiple of 1024 bytes. Adding 2 moves by 32 bytes along k.
__device__ __forceinline__ std::uint64_t make_smem_desc(std::uint32_t address) {
  constexpr std::uint64_t kGroupOfRows = 1024 >> 4;
  constexpr std::uint64_t kSwizzle128 = 1;
  return kSwizzle128 << 62 | kGroupOfRows << 32 | std::uint64_t{1} << 16 | (address & 0x3FFFF) >> 4;
}

// An operand, `chunks` of 16 bytes further on. The lower half alone changes: addresses are below 2^18.
__device__ __forceinline__ std::uint64_t advance_smem_desc(std::uint64_t operand, std::uint32_t chunks) {
  return operand >> 32 << 32 | (static_cast<std::uint32_t>(operand) + chunks);
}

// The descriptor of an operand of columns, 64 of 2 bytes in each row of 128 bytes, rows along k with the 128-byte
// swizzle in groups of 8; the next 64 columns are `block` bytes further on. Adding 128 moves by 16 rows of k.
__device__ __forceinline__ std::uint64_t make_smem_desc_mn_major(std::uint32_t address, std::uint32_t block) {
  constexpr std::uint64_t kGroupOfRows = 1024 >> 4;
  constexpr std::uint64_t kSwizzle128 = 1;
  return kSwizzle128 << 62 | kGroupOfRows << 32 | std::uint64_t{block >> 4} << 16 | (address & 0x3FFFF) >> 4;
}

}  // namespace mxcheck_kernels::sm90::ptx

#endif

// clang-format off

// A thread's accumulators: half as many as the instruction has columns. Their names, and the operands d[0] ..
#define MXCHECK_NAMES_4 "%0, %1, %2, %3"
#define MXCHECK_NAMES_16 MXCHECK_NAMES_4 \
  ", %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define MXCHECK_NAMES_32 MXCHECK_NAMES_16 \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define MXCHECK_NAMES_48 MXCHECK_NAMES_32 \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define MXCHECK_NAMES_64 MXCHECK_NAMES_48 \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define MXCHECK_NAMES_96 MXCHECK_NAMES_64 \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define MXCHECK_NAMES_128 MXCHECK_NAMES_96 \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
// NOLINTBEGIN(bugprone-macro-parentheses): i is a literal or a literal plus one.
#define MXCHECK_D(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define MXCHECK_D16(i) MXCHECK_D(i), MXCHECK_D(i + 4), MXCHECK_D(i + 8), MXCHECK_D(i + 12)
// NOLINTEND(bugprone-macro-parentheses)
#define MXCHECK_D_4 MXCHECK_D(0)
#define MXCHECK_D_16 MXCHECK_D16(0)
#define MXCHECK_D_32 MXCHECK_D_16, MXCHECK_D16(16)
#define MXCHECK_D_48 MXCHECK_D_32, MXCHECK_D16(32)
#define MXCHECK_D_64 MXCHECK_D_48, MXCHECK_D16(48)
#define MXCHECK_D_96 MXCHECK_D_64, MXCHECK_D16(64), MXCHECK_D16(80)
#define MXCHECK_D_128 MXCHECK_D_96, MXCHECK_D16(96), MXCHECK_D16(112)

// format: from the instruction's name; flags: what follows the signs of A and B.
#define MXCHECK_WGMMA(columns, count, format, flags, sources, predicate, ...)                               \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " predicate ", 0;\n"                                   \
               "wgmma.mma_async.sync.aligned.m64n" columns format " {" MXCHECK_NAMES_##count "}, " sources  \
               ", add, 1, 1" flags ";\n}"                                                                   \
               : MXCHECK_D_##count : __VA_ARGS__, "l"(b), "r"(add) : "memory")

#define MXCHECK_SHARED(format, flags)                                                \
  if constexpr (kCount == 4) {                                                       \
    MXCHECK_WGMMA("8", 4, format, flags, "%4, %5", "%6", "l"(a));                    \
  } else if constexpr (kCount == 16) {                                               \
    MXCHECK_WGMMA("32", 16, format, flags, "%16, %17", "%18", "l"(a));               \
  } else if constexpr (kCount == 32) {                                               \
    MXCHECK_WGMMA("64", 32, format, flags, "%32, %33", "%34", "l"(a));               \
  } else if constexpr (kCount == 48) {                                               \
    MXCHECK_WGMMA("96", 48, format, flags, "%48, %49", "%50", "l"(a));               \
  } else if constexpr (kCount == 64) {                                               \
    MXCHECK_WGMMA("128", 64, format, flags, "%64, %65", "%66", "l"(a));              \
  } else if constexpr (kCount == 96) {                                               \
    MXCHECK_WGMMA("192", 96, format, flags, "%96, %97", "%98", "l"(a));              \
  } else {                                                                           \
    static_assert(kCount == 128);                                                    \
    MXCHECK_WGMMA("256", 128, format, flags, "%128, %129", "%130", "l"(a));          \
  }
#define MXCHECK_REGISTERS "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])

// clang-format on

#ifdef __CUDACC__

namespace mxcheck_kernels::sm90::ptx {

// d += a b^T, or d = a b^T where add is 0. kAByK, kBByK: the operand lies with k from row to row (wgmma_operand_by_k),
// which BF16 alone can.
template <Code kA, Code kB, bool kAByK = false, bool kBByK = false, int kCount>
__device__ __forceinline__ void wgmma(float (&d)[kCount], std::uint64_t a, std::uint64_t b, int add) {
  static_assert(kA == kB || (bytes_of(kA) == 1 && bytes_of(kB) == 1));
  static_assert(kA == Code::bf16 || (!kAByK && !kBByK));
  if constexpr (kA == Code::e4m3 && kB == Code::e4m3) {
    MXCHECK_SHARED("k32.f32.e4m3.e4m3", "")
  } else if constexpr (kA == Code::e4m3) {
    MXCHECK_SHARED("k32.f32.e4m3.e5m2", "")
  } else if constexpr (kB == Code::e4m3) {
    MXCHECK_SHARED("k32.f32.e5m2.e4m3", "")
  } else if constexpr (kA == Code::e5m2) {
    MXCHECK_SHARED("k32.f32.e5m2.e5m2", "")
  } else if constexpr (kA == Code::bf16 && kAByK && kBByK) {
    MXCHECK_SHARED("k16.f32.bf16.bf16", ", 1, 1")
  } else if constexpr (kA == Code::bf16 && kAByK) {
    MXCHECK_SHARED("k16.f32.bf16.bf16", ", 1, 0")
  } else if constexpr (kA == Code::bf16 && kBByK) {
    MXCHECK_SHARED("k16.f32.bf16.bf16", ", 0, 1")
  } else if constexpr (kA == Code::bf16) {
    MXCHECK_SHARED("k16.f32.bf16.bf16", ", 0, 0")
  } else if constexpr (kA == Code::fp16) {
    MXCHECK_SHARED("k16.f32.f16.f16", ", 0, 0")
  } else {
    MXCHECK_SHARED("k8.f32.tf32.tf32", "")
  }
}

// The same with A in registers: BF16 by 64, 128 or 256.
template <int kCount>
__device__ __forceinline__ void wgmma_bf16(float (&d)[kCount], const std::uint32_t (&a)[4], std::uint64_t b, int add) {
  if constexpr (kCount == 32) {
    MXCHECK_WGMMA("64", 32, "k16.f32.bf16.bf16", ", 0", "{%32, %33, %34, %35}, %36", "%37", MXCHECK_REGISTERS);
  } else if constexpr (kCount == 64) {
    MXCHECK_WGMMA("128", 64, "k16.f32.bf16.bf16", ", 0", "{%64, %65, %66, %67}, %68", "%69", MXCHECK_REGISTERS);
  } else {
    static_assert(kCount == 128);
    MXCHECK_WGMMA("256", 128, "k16.f32.bf16.bf16", ", 0", "{%128, %129, %130, %131}, %132", "%133", MXCHECK_REGISTERS);
  }
}

  #undef MXCHECK_REGISTERS
  #undef MXCHECK_SHARED
  #undef MXCHECK_WGMMA
  #undef MXCHECK_D
  #undef MXCHECK_D16
  #undef MXCHECK_D_4
  #undef MXCHECK_NAMES_4
  #undef MXCHECK_D_32
  #undef MXCHECK_NAMES_16
  #undef MXCHECK_D_16
  #undef MXCHECK_NAMES_32
  #undef MXCHECK_D_64
  #undef MXCHECK_NAMES_48
  #undef MXCHECK_D_48
  #undef MXCHECK_NAMES_64
  #undef MXCHECK_D_96
  #undef MXCHECK_NAMES_96
  #undef MXCHECK_D_128
  #undef MXCHECK_NAMES_128

}  // namespace mxcheck_kernels::sm90::ptx

#endif
