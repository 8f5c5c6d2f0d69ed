#pragma once
// A call of a library's operation on tensors of a device, with a workspace and a report that are kept between calls.
//
//   LibraryCall call(device, libraries.named("aggregate"), &policy.policy);
//   call.in(y, kBf16, {rows, cols}).out(o, kBf16, {tokens, cols}).run(scratch);

#include <cstdint>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <vector>

#include "kernels/candidate.h"
#include "kernels/parallel/device.h"

namespace mxcheck_kernels::parallel {

inline constexpr DLDataType kBf16{kDLBfloat, 16, 1};
inline constexpr DLDataType kFp32{kDLFloat, 32, 1};
inline constexpr DLDataType kBytes{kDLUInt, 8, 1};
inline constexpr DLDataType kInt32{kDLInt, 32, 1};
inline constexpr DLDataType kInt64{kDLInt, 64, 1};

// A policy of zeros, the bytes between its members too: some libraries compare whole policies.
template <class PolicyOf>
PolicyOf empty_policy() {
  PolicyOf policy;
  std::memset(static_cast<void*>(&policy), 0, sizeof(policy));
  return policy;
}

// Of all calls of a rank, which run one after the other.
struct Scratch {
  Memory workspace;
  Memory report;
};

class LibraryCall {
 public:
  LibraryCall(Device& device, const mxcheck_operation& operation, const mxcheck_policy* policy)
      : device_(device), operation_(operation), policy_(policy) {}
  LibraryCall& in(const void* data, DLDataType type, std::initializer_list<std::int64_t> shape);
  LibraryCall& out(void* data, DLDataType type, std::initializer_list<std::int64_t> shape);
  void run(Scratch& scratch);

 private:
  DLTensor tensor(void* data, DLDataType type, std::initializer_list<std::int64_t> shape);
  Device& device_;
  const mxcheck_operation& operation_;
  const mxcheck_policy* policy_;
  std::deque<std::vector<std::int64_t>> shapes_;
  std::vector<DLTensor> inputs_, outputs_;
};

// Throws what a kernel found wrong in its arguments; waits for the compute lane.
void check_report(Device& device, const Scratch& scratch);

}  // namespace mxcheck_kernels::parallel
