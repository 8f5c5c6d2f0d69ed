#pragma once
// Coding (kernels/common/layer/policy.h) as kernels are told it.

#include <cstdint>

#include "kernels/common/layer/policy.h"

namespace mxcheck_kernels::sm90 {

inline constexpr int kEach = 8;  // neighbouring elements of a lane

struct DeviceCoding {
  Element element = Element::e4m3;
  bool fp32 = false;         // scales are RN(amax / largest)
  std::uint32_t addend = 0;  // of E8M0 scales: rounds the exponent of amax up, or not
  int block = 32;
};
inline DeviceCoding device_coding(const Coding& c) {
  return {c.element, c.scale == CodeScale::fp32, c.scale == CodeScale::rceil ? 0x001FFFFFU : 0U, c.block};
}

}  // namespace mxcheck_kernels::sm90
