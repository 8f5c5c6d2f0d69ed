#pragma once
// The measures of two vectors, which are handed over in parts of so many elements.

#include <algorithm>
#include <span>

#include "numerics/measure/measures.h"

namespace mxcheck::test {

inline ErrorMeasures measured(std::span<const float> originals, std::span<const float> dequantized,
                              std::size_t part_size = std::size_t{1} << 40) {
  ErrorMeter meter;
  do {
    for (std::size_t at = 0; at < originals.size(); at += part_size) {
      const std::size_t count = std::min(part_size, originals.size() - at);
      ErrorMeter::Part part = meter.part(at);
      part.add(originals.subspan(at, count), dequantized.subspan(at, count));
      meter.add(part);
    }
  } while (!meter.finish_pass());
  return meter.measures();
}

}  // namespace mxcheck::test
