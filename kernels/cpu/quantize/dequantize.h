#pragma once
// Codes and scales back to values, SIMD, dispatched at run time. Arguments are trusted: arguments.cc has checked them.

#include <cstdint>

#include "kernels/cpu/quantize/element.h"
#include "kernels/cpu/quantize/scale_map.h"

namespace mxcheck_kernels::cpu {

struct DequantizeJob {
  Element element = Element::e4m3;
  Dtype dtype = Dtype::fp32;
  const std::uint8_t* codes = nullptr;
  const std::uint8_t* scales = nullptr;
  const ScaleMap* map = nullptr;
  std::int64_t cols = 0;
  Shape block;  // cols 0: whole rows
  void* y = nullptr;
  bool stream = false;  // y bypasses the cache
};

// The bands [begin, end) of job.map. Does not throw.
void dequantize_bands(const DequantizeJob& job, std::int64_t begin, std::int64_t end);

}  // namespace mxcheck_kernels::cpu
