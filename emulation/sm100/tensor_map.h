#pragma once
// A tensor map of the emulation: what cuTensorMapEncodeTiled puts into a CUtensorMap, readable. The kernels' host code
// makes either of them from the same description (kernels/sm100/tcgen05/tensor_map.h).

#include <array>
#include <cstdint>

namespace mxcheck::emulation::sm100 {

// The swizzle of a shared-memory box: the XOR of address bits [4, 4 + s) with [7, 7 + s). The values are those of a
// matrix descriptor's field.
enum class Swizzle : std::uint8_t { none = 0, b128_atom32 = 1, b128 = 2, b64 = 4, b32 = 6 };

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
