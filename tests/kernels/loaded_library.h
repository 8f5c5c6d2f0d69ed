#pragma once
// A kernel library loaded as a third party's would be, for tests and benchmarks:
//
//   const mxcheck_candidate_table& table = load_candidate("./libmxcheck_cpu.so");
//   operation(table, "quantize").run(&call);

#include <dlfcn.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/candidate.h"
#include "numerics/error.h"

namespace mxcheck {

// Throws Error{environment} where it cannot be loaded or is of another version of the interface. It stays loaded.
inline const mxcheck_candidate_table& load_candidate(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error(ErrorKind::environment, std::string("cannot load the library: ") + dlerror());
  void* const symbol = dlsym(library, MXCHECK_CANDIDATE_SYMBOL);
  if (symbol == nullptr) throw Error(ErrorKind::environment, path + " has no symbol " MXCHECK_CANDIDATE_SYMBOL);
  const mxcheck_candidate_table& table = *reinterpret_cast<mxcheck_candidate_function>(symbol)();
  if (table.interface_version != MXCHECK_CANDIDATE_VERSION) {
    throw Error(ErrorKind::environment, path + " is of interface version " + std::to_string(table.interface_version));
  }
  return table;
}

// The first operation of this name and, where one is given, this contract. Throws Error{environment} where there is
// none.
inline const mxcheck_operation& operation(const mxcheck_candidate_table& table, std::string_view name,
                                          std::string_view contract = {}) {
  for (std::int32_t i = 0; i < table.num_operations; ++i) {
    const mxcheck_operation& o = table.operations[i];
    if (o.name == name && (contract.empty() || (o.contract != nullptr && o.contract == contract))) return o;
  }
  throw Error(ErrorKind::environment, std::string(table.name) + " has no operation " + std::string(name) +
                                          (contract.empty() ? "" : " of the contract " + std::string(contract)));
}

}  // namespace mxcheck
