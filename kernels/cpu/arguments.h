#pragma once
// A call's tensors on the host: kernels/common/arguments.h, and that the tensor lies there.

#include "kernels/common/arguments.h"

namespace mxcheck_kernels::cpu {

inline Checked check_tensor(const char* name, const DLTensor& tensor, DLDataType type, int rank, Strides strides) {
  if (tensor.device.device_type != kDLCPU) {
    invalid(std::string(name) + " is on DLPack device " + std::to_string(tensor.device.device_type) +
            ": must be on the host, 1");
  }
  if (tensor.device.device_id != 0) {
    invalid(std::string(name) + " is on host number " + std::to_string(tensor.device.device_id) + ": must be on 0");
  }
  return check_layout(name, tensor, type, rank, strides);
}

}  // namespace mxcheck_kernels::cpu
