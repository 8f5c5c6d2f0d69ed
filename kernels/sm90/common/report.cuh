#pragma once
// The report of what only the device can find wrong with a call.

#include <cstdint>

#include "kernels/candidate.h"

namespace mxcheck_kernels::sm90 {

// By one thread. status: a mxcheck_status. Null: there is no report.
__device__ __forceinline__ void report_error(mxcheck_device_report* report, std::int32_t status, const char* message,
                                             std::int64_t index, std::int64_t value) {
  if (report == nullptr) return;
  report->status = status;
  report->index = index, report->value = value;
  int i = 0;
  for (; message[i] != '\0' && i < static_cast<int>(sizeof(report->message)) - 1; ++i) report->message[i] = message[i];
  report->message[i] = '\0';
}
__device__ __forceinline__ void report_invalid(mxcheck_device_report* report, const char* message, std::int64_t index,
                                               std::int64_t value) {
  report_error(report, MXCHECK_INVALID, message, index, value);
}

}  // namespace mxcheck_kernels::sm90
