// The library: a right one, whose calls pass through the fault.

#include <dlfcn.h>
#include <fnmatch.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "tests/libraries/right/right_call.h"
#include "tests/libraries/wrong/narrow/narrow.h"

namespace narrow {
namespace {

constexpr std::uint32_t kLargestPolicy = 256;

using right::variable;  // what it gives ends with a NUL

// Ends the process for a name that no fault has: a test that misspells one must not pass.
const Fault& fault() {
  static const Fault& chosen = []() -> const Fault& {
    for (const auto table : {faults_of_blocks_gemms_and_routers, faults_of_routed_rows,
                             faults_of_random_words_and_routes, faults_of_scales_words_and_sizes, faults_of_edges}) {
      for (const Fault& one : table()) {
        if (one.name == variable("NARROW")) return one;
      }
    }
    std::fprintf(stderr, "no fault %s\n", variable("NARROW").data());
    std::abort();
  }();
  return chosen;
}

const mxcheck_candidate_table& right_table() {
  static const mxcheck_candidate_table& table = []() -> const mxcheck_candidate_table& {
    void* library = dlopen(variable("NARROW_OF").data(), RTLD_NOW);
    if (library == nullptr) std::abort();
    return *reinterpret_cast<mxcheck_candidate_function>(dlsym(library, MXCHECK_CANDIDATE_SYMBOL))();
  }();
  return table;
}

template <std::size_t kOperation>
mxcheck_status run(const mxcheck_call* call) {
  const mxcheck_operation& right = right_table().operations[kOperation];
  const bool spoils = right::has_fields(call) && fnmatch(fault().operation.data(), right.name, 0) == 0;
  const bool has_policy = spoils && call->policy != nullptr && call->policy->size >= sizeof(mxcheck_policy) &&
                          call->policy->size <= kLargestPolicy && call->inputs != nullptr;
  mxcheck_status status = MXCHECK_OK;
  if (has_policy && fault().before != nullptr) {
    Asked asked(*call);
    fault().before(asked);
    status = right.run(&asked.call());
  } else {
    status = right.run(call);
  }
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
}  // namespace narrow

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate() {
  using namespace narrow;
  static const std::vector<mxcheck_operation> operations = wrapped(std::make_index_sequence<24>());
  static mxcheck_candidate_table table = right_table();
  fault();
  table.name = "narrow", table.operations = operations.data();
  return &table;
}
