#include "kernels/sm100/candidate/arguments.h"

#include <span>
#include <string>

namespace mxcheck_kernels::sm100 {
namespace {

std::string text(std::int64_t value) { return std::to_string(value); }

}  // namespace

Checked check_tensor(const char* name, const DLTensor& tensor, DLDataType type, int rank) {
  if (tensor.device.device_type != kDLCPU) {
    invalid(std::string(name) + " is on DLPack device " + text(tensor.device.device_type) + ": must be on the host, 1");
  }
  if (tensor.device.device_id != 0) {
    invalid(std::string(name) + " is on host number " + text(tensor.device.device_id) + ": must be on 0");
  }
  return check_layout(name, tensor, type, rank, Strides::contiguous);
}

Extras find_extras(const mxcheck_call& call, int inputs) {
  Extras extras;
  for (int i = inputs; i < call.num_inputs; ++i) {
    const DLTensor& tensor = call.inputs[i];
    const DLTensor** slot = same(tensor.dtype, kInt64Type)   ? &extras.offsets
                            : same(tensor.dtype, kInt32Type) ? &extras.index
                                                             : nullptr;
    if (slot == nullptr) {
      invalid("input " + text(i) + " has DLPack type code " + text(tensor.dtype.code) + ", " + text(tensor.dtype.bits) +
              " bits: must be offsets (int64) or a row index (int32)");
    }
    if (*slot != nullptr) invalid("input " + text(i) + " is a second tensor of offsets or of row indices");
    *slot = &tensor;
  }
  return extras;
}

bool is_aligned(const void* data, std::uintptr_t to) { return reinterpret_cast<std::uintptr_t>(data) % to == 0; }

void require_workspace(const mxcheck_call& call, std::uint64_t bytes) {
  if (bytes == 0) return;
  if (call.workspace == nullptr || call.workspace_bytes < bytes) {
    invalid("the workspace has " + std::to_string(call.workspace_bytes) + " bytes: must have " + std::to_string(bytes));
  }
  if (!is_aligned(call.workspace, 256)) invalid("the workspace must be aligned to 256 bytes");
}

void require_offsets(const Checked& offsets, std::int64_t end) {
  const std::span values(static_cast<const std::int64_t*>(offsets.data), static_cast<std::size_t>(offsets.cols));
  if (values.front() != 0) invalid("offsets[0] is " + text(values.front()) + ": must be 0");
  for (std::size_t e = 1; e < values.size(); ++e) {
    if (values[e] >= values[e - 1]) continue;
    invalid("offsets[" + std::to_string(e) + "] is " + text(values[e]) + ": must be at least the one before it, " +
            text(values[e - 1]));
  }
  if (values.back() != end) {
    invalid("the last of the offsets is " + text(values.back()) + ": must be the end of what they divide, " +
            text(end));
  }
}

void require_rows(const Checked& index, std::int64_t rows) {
  const auto* const values = static_cast<const std::int32_t*>(index.data);
  for (std::int64_t i = 0; i < index.cols; ++i) {
    if (values[i] >= 0 && values[i] < rows) continue;
    invalid("row index[" + text(i) + "] is " + text(values[i]) + ": must be a row of a, 0 to " + text(rows - 1));
  }
}

}  // namespace mxcheck_kernels::sm100
