#pragma once
// A tensor map, and how the host makes one: CUtensorMap with CUDA, the emulation's readable one otherwise, both from
// the same description and with the same refusals. A kernel takes it as `const MXCHECK_SM100_GRID_CONSTANT TensorMap`
// and knows nothing of it.
//
// Outside of the tensor loads give zeros, and stores write nothing. Elements are bits: nothing is converted.
//
// Example: rows of E4M3, tiles of 128 x 128 bytes:
//   const std::string error = encode({.base = a, .rank = 2, .element_bytes = 1, .extent = {k, m}, .stride = {1, k},
//   .box = {128, 128},
//                                     .swizzle = Swizzle::b128}, map);

#include <cstdint>
#include <string>

#include "kernels/sm100/tcgen05/descriptor.h"

#if MXCHECK_SM100_EMULATED
  #include "emulation/sm100/operations.h"
#else
  #include <cuda.h>
  #include <cuda_runtime.h>
#endif

namespace mxcheck::sm100 {

#if MXCHECK_SM100_EMULATED
using TensorMap = emulation::sm100::TensorMap;
#elif MXCHECK_SM100_ON_SM90
// The software that stands for a pair's loads counts their bytes itself.
struct TensorMap {
  CUtensorMap map;
  std::uint32_t box_bytes;
};
#else
using TensorMap = CUtensorMap;
#endif

struct TensorMapDescription {
  void* base = nullptr;       // at a multiple of 16 bytes; of device memory with CUDA
  int rank = 2;               // 1 to 5
  int element_bytes = 1;      // 1, 2 or 4
  std::uint64_t extent[5]{};  // elements, innermost first: 1 to 2^32
  std::uint64_t stride[5]{};  // bytes; stride[0] is element_bytes, the others are multiples of 16 below 2^40
  std::uint32_t box[5]{};  // elements: 1 to 256, the innermost in bytes a multiple of 16 and at most the swizzle's span
  Swizzle swizzle = Swizzle::none;
};

namespace tensor_map_detail {

// The first rule that `d` breaks, of PTX ISA, "Tensors", and the driver API's cuTensorMapEncodeTiled; empty if none.
inline std::string refusal(const TensorMapDescription& d) {
  const auto dimension = [](const char* what, int i, std::uint64_t value, const char* right) {
    return std::string("tensor map: ") + what + "[" + std::to_string(i) + "] is " + std::to_string(value) + "; " +
           right;
  };
  if (d.rank < 1 || d.rank > 5) return "tensor map: rank is " + std::to_string(d.rank) + "; 1 to 5 are possible";
  if (d.element_bytes != 1 && d.element_bytes != 2 && d.element_bytes != 4)
    return "tensor map: element_bytes is " + std::to_string(d.element_bytes) + "; 1, 2 or 4 are possible";
  if (d.base == nullptr || reinterpret_cast<std::uintptr_t>(d.base) % 16 != 0)
    return "tensor map: base is null or not at a multiple of 16 bytes";
  const std::uint64_t element = static_cast<std::uint64_t>(d.element_bytes);
  if (d.stride[0] != element) return dimension("stride", 0, d.stride[0], "it is element_bytes");
  for (int i = 0; i < d.rank; ++i) {
    if (d.extent[i] < 1 || d.extent[i] > std::uint64_t{1} << 32)
      return dimension("extent", i, d.extent[i], "1 to 2^32 are possible");
    if (d.box[i] < 1 || d.box[i] > 256) return dimension("box", i, d.box[i], "1 to 256 are possible");
    if (i > 0 && (d.stride[i] % 16 != 0 || d.stride[i] == 0 || d.stride[i] >= std::uint64_t{1} << 40))
      return dimension("stride", i, d.stride[i], "multiples of 16 below 2^40 are possible");
  }
  const std::uint64_t row = d.box[0] * element;
  if (row % 16 != 0) return dimension("box", 0, d.box[0], "in bytes it is a multiple of 16");
  if (d.swizzle != Swizzle::none && row > swizzle_span(d.swizzle))
    return dimension("box", 0, d.box[0], "in bytes it is at most the swizzle's span");
  return {};
}

#if !MXCHECK_SM100_EMULATED
inline CUtensorMapSwizzle cuda_swizzle(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::b128: return CU_TENSOR_MAP_SWIZZLE_128B;
    case Swizzle::b128_atom32: return CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B;
    case Swizzle::b64: return CU_TENSOR_MAP_SWIZZLE_64B;
    case Swizzle::b32: return CU_TENSOR_MAP_SWIZZLE_32B;
    case Swizzle::none: break;
  }
  return CU_TENSOR_MAP_SWIZZLE_NONE;
}

// cuTensorMapEncodeTiled of the driver that the runtime has loaded, null if it has none: nothing here links to libcuda.
inline decltype(&cuTensorMapEncodeTiled) encode_tiled() {
  static const auto function = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    const auto e = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
    const bool ok = e == cudaSuccess && found == cudaDriverEntryPointSuccess;
    return ok ? reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry) : nullptr;
  }();
  return function;
}
#endif

}  // namespace tensor_map_detail

// Empty where `map` was made; otherwise one line, and `map` is as it was.
inline std::string encode(const TensorMapDescription& d, TensorMap& map) {
  std::string refused = tensor_map_detail::refusal(d);
  if (!refused.empty()) return refused;
#if MXCHECK_SM100_EMULATED
  TensorMap made;
  made.base = d.base;
  made.rank = d.rank;
  made.element_bytes = d.element_bytes;
  for (std::size_t i = 0; i < 5; ++i) {
    made.extent[i] = d.extent[i];
    made.stride[i] = d.stride[i];
    made.box[i] = d.box[i];
  }
  made.swizzle = static_cast<emulation::sm100::Swizzle>(d.swizzle);
  map = made;
#else
  const auto function = tensor_map_detail::encode_tiled();
  if (function == nullptr) return "tensor map: the CUDA driver has no cuTensorMapEncodeTiled of CUDA 12.0 or later";
  const auto type = d.element_bytes == 1   ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                    : d.element_bytes == 2 ? CU_TENSOR_MAP_DATA_TYPE_UINT16
                                           : CU_TENSOR_MAP_DATA_TYPE_UINT32;
  cuuint64_t extent[5];
  cuuint64_t stride[5];  // of all dimensions but the innermost
  cuuint32_t box[5];
  const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  for (int i = 0; i < d.rank; ++i) {
    extent[i] = d.extent[i];
    stride[i] = i + 1 < d.rank ? d.stride[i + 1] : 0;
    box[i] = d.box[i];
  }
  CUtensorMap made;
  const CUresult result = function(&made, type, static_cast<cuuint32_t>(d.rank), d.base, extent, stride, box, steps,
                                   CU_TENSOR_MAP_INTERLEAVE_NONE, tensor_map_detail::cuda_swizzle(d.swizzle),
                                   CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    return "tensor map: cuTensorMapEncodeTiled gave error " + std::to_string(static_cast<int>(result));
  #if MXCHECK_SM100_ON_SM90
  std::uint32_t box_bytes = static_cast<std::uint32_t>(d.element_bytes);
  for (int i = 0; i < d.rank; ++i) box_bytes *= d.box[i];
  map = {made, box_bytes};
  #else
  map = made;
  #endif
#endif
  return {};
}

}  // namespace mxcheck::sm100
