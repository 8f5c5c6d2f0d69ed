#pragma once
// Block quantization of bands (rows of blocks), SIMD, dispatched at run time to the best target of the machine.
// Arguments are trusted: arguments.cc has checked them.

#include <cstdint>

#include "kernels/cpu/quantize/element.h"
#include "kernels/cpu/quantize/scale_map.h"

namespace mxcheck_kernels::cpu {

struct ScaleOutput {
  std::uint8_t* codes = nullptr;
  std::uint8_t* scales = nullptr;
  const ScaleMap* map = nullptr;
};

struct QuantizeJob {
  Element element = Element::e4m3;
  ScaleRule rule = ScaleRule::rceil;
  Dtype dtype = Dtype::bf16;
  const void* x = nullptr;
  std::int64_t cols = 0;
  std::int64_t stride = 0;  // of x, in elements
  Shape block;              // cols 0: whole rows
  ScaleOutput out;          // bands are those of out.map
  ScaleOutput rows_out;     // quantize_dual: blocks 1 x block.rows of the same bands; codes null otherwise
  bool stream = false;      // codes bypass the cache
};

// Quantizes the bands [begin, end) of job.out.map. Does not throw. Padding of tiled scales is not written.
void quantize_bands(const QuantizeJob& job, std::int64_t begin, std::int64_t end);

// --- and back
//
// Codes and scales back to values, SIMD, dispatched at run time. Arguments are trusted: arguments.cc has checked them.

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

// --- and scales from one layout to the other

struct ScaleLayoutJob {
  const ScaleMap* from = nullptr;
  const std::uint8_t* in = nullptr;
  const ScaleMap* to = nullptr;
  std::uint8_t* out = nullptr;
  bool to_tiles = false;  // from compact scales; otherwise from tiles to compact scales
  std::uint8_t pad = 0;
};

// The bands [begin, end), which both maps number alike. Does not throw. Padding of tiles has been written before.
void change_layout(const ScaleLayoutJob& job, std::int64_t begin, std::int64_t end);

}  // namespace mxcheck_kernels::cpu
