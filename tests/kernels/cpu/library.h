#pragma once
// libmxcheck_cpu.so, loaded once as a third party's library would be; MXCHECK_CPU_LIBRARY is its path.

#include <dlfcn.h>

#include <stdexcept>

#include "kernels/candidate.h"

namespace mxcheck {

inline const mxcheck_candidate_table& library() {
  static const mxcheck_candidate_table* const table = [] {
    void* const handle = dlopen(MXCHECK_CPU_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) throw std::runtime_error(dlerror());
    void* const symbol = dlsym(handle, MXCHECK_CANDIDATE_SYMBOL);
    if (symbol == nullptr) throw std::runtime_error(dlerror());
    return reinterpret_cast<mxcheck_candidate_function>(symbol)();
  }();
  return *table;
}

}  // namespace mxcheck
