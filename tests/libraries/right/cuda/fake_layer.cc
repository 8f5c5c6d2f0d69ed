// Whole layers for the fake driver: the reference's library, whose calls are kernels in a stream. Built with its path,
// MXCHECK_REFERENCE_CANDIDATE.

#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/libraries/right/cuda/fake.h"

namespace {

const mxcheck_candidate_table& host_table() {
  static const mxcheck_candidate_table* const table = [] {
    void* const library = dlopen(MXCHECK_REFERENCE_CANDIDATE, RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<mxcheck_candidate_function>(dlsym(library, MXCHECK_CANDIDATE_SYMBOL))();
  }();
  return *table;
}

struct Launch {
  Launch(const mxcheck_operation& of, const mxcheck_call& from)
      : operation(of),
        kept(from),
        policy(reinterpret_cast<const char*>(from.policy),
               reinterpret_cast<const char*>(from.policy) + from.policy->size) {
    for (DLTensor& t : kept.tensors) t.device = {kDLCPU, 0};
    kept.call.policy = reinterpret_cast<const mxcheck_policy*>(policy.data());
    kept.call.message = message, kept.call.message_bytes = sizeof(message);
  }
  const mxcheck_operation& operation;
  fake::KeptCall kept;
  std::vector<char> policy;
  char message[256] = {};
};

void kernel(void* argument) {
  auto& launch = *static_cast<Launch*>(argument);
  const mxcheck_status status = launch.operation.run(&launch.kept.call);
  mxcheck_device_report& report = *launch.kept.call.report;
  if (status == MXCHECK_OK) return;
  report.status = status;
  std::snprintf(report.message, sizeof(report.message), "%.100s", launch.message);
}

template <std::size_t kEntry>
mxcheck_operation entry() {
  mxcheck_operation o = host_table().operations[kEntry];
  o.workspace = nullptr;
  o.run = [](const mxcheck_call* call) {
    for (int i = 0; i < call->num_inputs; ++i) {
      if (call->inputs[i].device.device_type != kDLCUDA) return MXCHECK_INVALID;
    }
    return fake_launch(call->stream, kernel, new Launch(host_table().operations[kEntry], *call)) == 0
               ? MXCHECK_OK
               : MXCHECK_DEVICE_ERROR;
  };
  return o;
}

constexpr std::size_t kEntries = 5;  // REFERENCE names so many

template <std::size_t... kAll>
std::vector<mxcheck_operation> entries(std::index_sequence<kAll...>) {
  return {entry<kAll>()...};
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  if (host_table().num_operations != static_cast<int>(kEntries)) return nullptr;
  static const std::vector<mxcheck_operation> operations = entries(std::make_index_sequence<kEntries>{});
  static const mxcheck_candidate_table table{
      MXCHECK_CANDIDATE_VERSION, sizeof(mxcheck_candidate_table), "fake_layer", "1", kDLCUDA, kEntries,
      operations.data()};
  return &table;
}
