// The CPU library (WRONG_OF names its file), wrong where several sizes meet and nowhere else: WRONG says where. It has
// the one operation WRONG_OPERATION, with few variants, so that the gate is done with it soon.

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "kernels/candidate_route.h"

namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

const mxcheck_operation& right_one() {
  static const mxcheck_operation operation = [] {
    void* library = dlopen(std::string(variable("WRONG_OF")).c_str(), RTLD_NOW);
    const auto* table = reinterpret_cast<mxcheck_candidate_function>(dlsym(library, MXCHECK_CANDIDATE_SYMBOL))();
    for (int i = 0; i < table->num_operations; ++i) {
      if (table->operations[i].name == variable("WRONG_OPERATION")) return table->operations[i];
    }
    return table->operations[0];
  }();
  return operation;
}

const mxcheck_route_policy& route_policy(const mxcheck_policy& p) {
  return reinterpret_cast<const mxcheck_route_policy&>(p);
}

mxcheck_status supports(const mxcheck_policy* p, DLDataType type) {
  bool few = type.code == kDLBfloat;
  if (variable("WRONG_OPERATION") == "quantize") {
    const std::string_view format = p->format;
    few = few && (format == "e4m3" || format == "e5m2") && std::string_view(p->recipe) == "rceil" &&
          p->block_rows == 1 && p->block_cols == 32 && p->layout == MXCHECK_COMPACT;
  } else {
    const mxcheck_route_policy& r = route_policy(*p);
    few = few && std::string_view(p->recipe) == "sigmoid" && r.nan == 0 && r.bias == 0;
  }
  return few ? right_one().supports(p, type) : MXCHECK_UNSUPPORTED;
}

bool is_wrong_here(const mxcheck_call& call) {
  const mxcheck_policy& p = *call.policy;
  const DLTensor& x = call.inputs[0];
  const std::string_view wrong = variable("WRONG");
  // A width of gpt-oss, where the last rows are no whole block of 32.
  if (wrong == "width") return p.cols == 2880 && p.rows > 32 && p.rows % 32 != 0;
  // Kimi-K2's router.
  if (wrong == "router") return p.cols == 384 && route_policy(p).top_k == 8;
  // One path of four, chosen by three things at once.
  const auto address = reinterpret_cast<std::uintptr_t>(x.data) + x.byte_offset;
  return wrong == "triple" && std::string_view(p.format) == "e5m2" && p.cols >= 4096 && address % 64 == 4;
}

mxcheck_status run(const mxcheck_call* call) {
  const mxcheck_status status = right_one().run(call);
  if (status != MXCHECK_OK || call->policy->rows == 0 || !is_wrong_here(*call)) return status;
  auto* first = static_cast<std::uint8_t*>(call->outputs[0].data) + call->outputs[0].byte_offset;
  *first = static_cast<std::uint8_t>(*first ^ 1U);
  return status;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate() {
  static mxcheck_operation operation = right_one();
  operation.supports = supports, operation.run = run;
  static const mxcheck_candidate_table table{
      MXCHECK_CANDIDATE_VERSION, sizeof(mxcheck_candidate_table), "wrong together", "1", kDLCPU, 1, &operation};
  return &table;
}
