// A right library (NARROW_OF names its file) with one fault in a narrow part of its domain, named by NARROW.

#include <dlfcn.h>
#include <fnmatch.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/narrow/faults.h"
#include "tests/right_call.h"

namespace {

using narrow::Fault;
using narrow::View;

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Ends the process for a name that no fault has: a test that misspells one must not pass.
const Fault& fault() {
  static const Fault& chosen = []() -> const Fault& {
    for (const auto& all :
         {narrow::quantize_faults(), narrow::matmul_faults(), narrow::route_faults(), narrow::own_faults()}) {
      for (const Fault& one : all) {
        if (one.name == variable("NARROW")) return one;
      }
    }
    std::fprintf(stderr, "no fault %s\n", variable("NARROW"));
    std::abort();
  }();
  return chosen;
}

const mxcheck_candidate_table& right_table() {
  static const mxcheck_candidate_table& table = []() -> const mxcheck_candidate_table& {
    void* library = dlopen(variable("NARROW_OF"), RTLD_NOW);
    if (library == nullptr) std::abort();
    return *reinterpret_cast<mxcheck_candidate_function>(dlsym(library, MXCHECK_CANDIDATE_SYMBOL))();
  }();
  return table;
}

template <std::size_t kOperation>
mxcheck_status run(const mxcheck_call* call) {
  const mxcheck_operation& right = right_table().operations[kOperation];
  const bool spoils = right::has_fields(call) && fnmatch(fault().operation.data(), right.name, 0) == 0;
  mxcheck_call changed{};
  mxcheck_route_policy policy{};
  const mxcheck_call* given = call;
  if (spoils && fault().before != nullptr && call->policy != nullptr && call->policy->size >= sizeof(policy)) {
    changed = *call;
    std::memcpy(static_cast<void*>(&policy), call->policy, sizeof(policy));
    changed.policy = &policy.policy;
    View view{changed};
    fault().before(view, policy);
    given = &changed;
  }
  const mxcheck_status status = right.run(given);
  if (status == MXCHECK_OK && spoils && fault().after != nullptr) fault().after(View{*call});
  return status;
}

template <std::size_t... kAll>
std::vector<mxcheck_operation> wrapped(std::index_sequence<kAll...>) {
  constexpr std::array<mxcheck_status (*)(const mxcheck_call*), sizeof...(kAll)> runs{run<kAll>...};
  std::vector<mxcheck_operation> operations;
  for (int i = 0; i < right_table().num_operations; ++i) {
    if (static_cast<std::size_t>(i) >= runs.size()) std::abort();
    operations.push_back(right_table().operations[i]);
    operations.back().run = runs[static_cast<std::size_t>(i)];
  }
  return operations;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate() {
  static const std::vector<mxcheck_operation> operations = wrapped(std::make_index_sequence<24>());
  static mxcheck_candidate_table table = right_table();
  fault();
  table.name = "narrow", table.operations = operations.data();
  return &table;
}
