#pragma once
// Host stand-in: one block at a time, a fiber a thread.
#include <ucontext.h>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>
#define __device__
#define __host__
#define __global__ static
#define __forceinline__ inline
#define __noinline__
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(...)
#define __restrict__
struct uint2 { unsigned x, y; }; struct uint4 { unsigned x, y, z, w; };
struct float2 { float x, y; }; struct float4 { float x, y, z, w; };
struct dim3 { unsigned x = 1, y = 1, z = 1; };
using std::min; using std::max;
inline int min(int a, int b){return a<b?a:b;}
inline int max(int a, int b){return a>b?a:b;}
typedef int cudaError_t; typedef void* cudaStream_t; constexpr int cudaSuccess = 0;
struct cudaLaunchAttribute { int id; struct { int programmaticStreamSerializationAllowed; } val; };
constexpr int cudaLaunchAttributeProgrammaticStreamSerialization = 1;
struct cudaLaunchConfig_t { dim3 gridDim, blockDim; cudaStream_t stream; cudaLaunchAttribute* attrs; int numAttrs; };
inline cudaError_t cudaGetLastError() { return 0; }
namespace emu {
struct Warp { std::uint64_t val[32], res[32]; int arrived = 0; unsigned gen = 0; };
inline std::vector<Warp> warps; inline int block_arrived, block_threads; inline unsigned block_gen;
inline std::vector<ucontext_t> ctx; inline ucontext_t main_ctx; inline std::vector<char> done; inline int current;
inline std::vector<std::unique_ptr<char[]>> stacks;
inline std::function<void()> body; inline dim3 bidx, bdim_, gdim;
inline void yield() { swapcontext(&ctx[current], &main_ctx); }
inline const std::uint64_t* gather(std::uint64_t v) {
  Warp& w = warps[current / 32]; int lane = current % 32; w.val[lane] = v; unsigned g = w.gen;
  if (++w.arrived == 32) { memcpy(w.res, w.val, sizeof w.res); w.arrived = 0; ++w.gen; }
  else while (w.gen == g) yield();
  return w.res;
}
inline void entry() { body(); done[current] = 1; swapcontext(&ctx[current], &main_ctx); }
inline void run(dim3 grid, dim3 block, std::function<void()> f) {
  body = f; bdim_ = block; gdim = grid; int n = block.x; block_threads = n;
  if ((int)stacks.size() < n) { stacks.resize(n); for (auto& s : stacks) if (!s) s.reset(new char[65536]); }
  for (unsigned b = 0; b < grid.x; ++b) {
    bidx = {b, 0, 0}; ctx.assign(n, {}); done.assign(n, 0); warps.assign((n + 31) / 32, {}); block_arrived = 0;
    for (int t = 0; t < n; ++t) { getcontext(&ctx[t]); ctx[t].uc_stack.ss_sp = stacks[t].get(); ctx[t].uc_stack.ss_size = 65536; ctx[t].uc_link = nullptr; makecontext(&ctx[t], entry, 0); }
    int left = n; long spins = 0;
    while (left) { left = 0; for (int t = 0; t < n; ++t) if (!done[t]) { current = t; swapcontext(&main_ctx, &ctx[t]); left += !done[t]; }
      if (++spins > 100000) { fprintf(stderr, "deadlock\n"); abort(); } }
  }
}
struct Idx { operator dim3() const { return {}; } };
struct TX { unsigned operator*() const { return current; } };
}
struct ThreadIdx { struct X { operator unsigned() const { return emu::current; } } x; };
inline ThreadIdx threadIdx;
#define blockIdx emu::bidx
template <class... P, class... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* c, void (*k)(P...), const A&... a) {
  emu::run(c->gridDim, c->blockDim, [&] { k(a...); }); return 0;
}
inline unsigned __shfl_sync(unsigned, unsigned v, int l) { return emu::gather(v)[l & 31]; }
inline int __shfl_sync(unsigned, int v, int l) { return (int)(unsigned)emu::gather((unsigned)v)[l & 31]; }
inline float __shfl_sync(unsigned, float v, int l) { return std::bit_cast<float>((unsigned)emu::gather(std::bit_cast<unsigned>(v))[l & 31]); }
inline unsigned __shfl_xor_sync(unsigned, unsigned v, int m) { return emu::gather(v)[(emu::current % 32) ^ m]; }
inline unsigned __shfl_down_sync(unsigned, unsigned v, int d) { auto r = emu::gather(v); int l = emu::current % 32 + d; return r[l > 31 ? emu::current % 32 : l]; }
inline bool __any_sync(unsigned, bool p) { auto r = emu::gather(p); bool a = false; for (int i = 0; i < 32; ++i) a |= r[i] != 0; return a; }
inline unsigned __reduce_max_sync(unsigned, unsigned v) { auto r = emu::gather(v); unsigned a = 0; for (int i = 0; i < 32; ++i) a = std::max(a, (unsigned)r[i]); return a; }
inline void __syncwarp() { emu::gather(0); }
inline void __syncthreads() { unsigned g = emu::block_gen; if (++emu::block_arrived == emu::block_threads) { emu::block_arrived = 0; ++emu::block_gen; } else while (emu::block_gen == g) emu::yield(); }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) { std::uint64_t w = (std::uint64_t)b << 32 | a; unsigned r = 0; for (int i = 0; i < 4; ++i) r |= (unsigned)(w >> 8 * (s >> 4 * i & 7) & 0xFF) << 8 * i; return r; }
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned n) { return (unsigned)(((std::uint64_t)hi << 32 | lo) >> (n & 31)); }
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned n) { return (unsigned)(((std::uint64_t)hi << 32 | lo) << (n & 31) >> 32); }
inline unsigned __vmaxu2(unsigned a, unsigned b) { return std::max(a & 0xFFFF, b & 0xFFFF) | std::max(a >> 16, b >> 16) << 16; }
inline float __uint_as_float(unsigned v) { return std::bit_cast<float>(v); }
inline unsigned __float_as_uint(float v) { return std::bit_cast<unsigned>(v); }
