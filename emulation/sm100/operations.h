#pragma once
// Arguments of the instructions of both emulations: plain types, for a C++ compiler and for nvcc. Scope and CpShape are
// the thin layer's too (kernels/sm100/tcgen05), for every target: they name forms and encode nothing.

#include <array>
#include <cstdint>

namespace mxcheck::emulation::sm100 {

// The scope of an mbarrier's arrivals and waits: the threads that they order, of the CTA or of the cluster.
enum class Scope : std::uint8_t { cta, cluster };

// The shape of tcgen05.ld and tcgen05.st: lanes x bits of one access.
enum class TmemShape : std::uint8_t { lanes32x32b, lanes16x64b, lanes16x128b, lanes16x256b, lanes16x32bx2 };

// The kind of tcgen05.mma. Of kind::mxf4nvf4 the size of its scales' blocks too, which PTX says in a qualifier of its
// own: .block32 (.scale_vec::2X) with UE8M0 scales, .block16 (.scale_vec::4X) with UE4M3 scales, which is NVFP4.
enum class MmaKind : std::uint8_t { f16, f8f6f4, mxf8f6f4, mxf4, mxf4nvf4_block32, mxf4nvf4_block16 };
struct Mma {
  MmaKind kind;
  int cta_group;
  std::uint32_t d;
  std::uint64_t a;  // shared-memory descriptor
  std::uint64_t b;
  std::uint32_t instruction;   // descriptor
  std::uint32_t scales_a = 0;  // TMEM addresses, of the kinds with scales
  std::uint32_t scales_b = 0;
  bool accumulate = true;  // enable-input-d
};

// The shape of tcgen05.cp: rows x bits.
enum class CpShape : std::uint8_t {
  rows32x128b_warpx4,
  rows128x128b,
  rows128x256b,
  rows4x256b,
  rows64x128b_02_13,
  rows64x128b_01_23
};

// 16 bytes that cluster launch control answers with.
struct ClcResponse {
  std::uint64_t low;
  std::uint64_t high;
};

// The swizzle of a shared-memory box: the XOR of address bits [4, 4 + s) with [7, 7 + s). The values are those of a
// matrix descriptor's field.
enum class Swizzle : std::uint8_t { none = 0, b128_atom32 = 1, b128 = 2, b64 = 4, b32 = 6 };

// A tensor map of the emulation: what cuTensorMapEncodeTiled puts into a CUtensorMap, readable. The kernels' host code
// makes either of them from the same description (kernels/sm100/tcgen05/tensor_map.h).
struct TensorMap {
  void* base = nullptr;  // at a multiple of 16 bytes
  int rank = 0;          // 1 to 5
  int element_bytes = 1;
  std::array<std::uint64_t, 5> extent{};  // innermost first
  std::array<std::uint64_t, 5> stride{};  // bytes; stride[0] is element_bytes; the others multiples of 16
  std::array<std::uint32_t, 5> box{};     // 1 to 256 elements a dimension
  Swizzle swizzle = Swizzle::none;
};

}  // namespace mxcheck::emulation::sm100
