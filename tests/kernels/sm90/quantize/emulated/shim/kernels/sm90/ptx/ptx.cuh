#pragma once
#include <cuda_runtime.h>
namespace bounds { inline std::vector<std::pair<std::uint64_t, std::uint64_t>> readable, writable; 
inline void check(std::vector<std::pair<std::uint64_t, std::uint64_t>>& v, std::uint64_t at, unsigned n, const char* what) { if (at % n) { fprintf(stderr, "misaligned %s %u\n", what, n); abort(); } for (auto& r : v) if (at >= r.first && at + n <= r.second) return; fprintf(stderr, "out of bounds %s %lx %u\n", what, at, n); abort(); } }
namespace mxcheck_kernels::sm90::ptx {
template <int N> inline void ld_global_nc(const void* at, std::uint32_t (&w)[N]) { bounds::check(bounds::readable, (std::uint64_t)at, 4 * N, "read"); memcpy(w, at, 4 * N); }
template <int N> inline void ld_global_nc_if(std::uint64_t at, bool p, std::uint32_t (&w)[N]) { if (p) { bounds::check(bounds::readable, at, 4 * N, "read"); memcpy(w, (const void*)at, 4 * N); } else memset(w, 0, 4 * N); }
inline void st_global_no_allocate(void* at, std::uint32_t v) { bounds::check(bounds::writable, (std::uint64_t)at, 4, "write"); memcpy(at, &v, 4); }
inline void st_global_no_allocate(void* at, uint2 v) { bounds::check(bounds::writable, (std::uint64_t)at, 8, "write"); memcpy(at, &v, 8); }
inline void griddepcontrol_wait() {}
inline void griddepcontrol_launch_dependents() {}
}
