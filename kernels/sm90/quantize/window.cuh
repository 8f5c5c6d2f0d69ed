#pragma once
// Rows of BF16 that start anywhere, without a shift. Rows that are 8 apart begin alike in a vector of 16 bytes,
// whatever the width, and a warp takes 8 of these. Its lanes have the vectors that cover 256 columns: lane l the
// columns from 8 l - before on. Of the first vector `before` elements are left of the columns; in their place the first
// lane has those of the vector after the last lane's, so that a window goes round: position q of 256 has column (q -
// before) mod 256, each once. Codes are stored as they lie, since those of 8 elements of a vector are 8 aligned bytes
// too.

#include "kernels/sm90/ptx/ptx.cuh"
#include "kernels/sm90/quantize/shift.cuh"
#include "kernels/sm90/quantize/wide.cuh"

namespace mxcheck_kernels::sm90 {

using WindowEdge = Edges<kLineRows, 4, 2>;

// 8 rows of a matrix, 8 apart, from a column on that is a multiple of 8.
struct Window {
  std::uint64_t start = 0;  // address of the first row's first vector
  std::int64_t step = 0;    // bytes from one of the rows to the next
  int before = 0;           // 0 to 7
  int rows = 0;             // that are there
  int cols = 0;             // likewise, 1 to 256
};

// Elements of a vector's words that are from `before` on.
__device__ __forceinline__ std::uint32_t from_element(int before, int word) {
  return before <= 2 * word ? 0xFFFFFFFFU : before == 2 * word + 1 ? 0xFFFF0000U : 0;
}

__device__ __forceinline__ void load_window(const Matrix& x, const Window& w, Bf16Lines& a, WindowEdge& edge) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const auto data = reinterpret_cast<std::uint64_t>(x.data);
  const int vectors = static_cast<int>(static_cast<unsigned>(w.before + w.cols + 7) / 8);
  const std::uint64_t mine = w.start + static_cast<std::uint64_t>(lane * w.step);  // where row `lane` begins
  const std::uint64_t end = mine + static_cast<std::uint64_t>(vectors * 16);
  const bool crosses = lane < w.rows && (mine < data || end > data + static_cast<std::uint64_t>(x.bytes));
  const int rows = lane < vectors ? w.rows : 0;
  const bool has_tail = lane < w.rows && vectors > 32;
  std::uint32_t tail[4];
  const auto load_all = [&](const auto& load) {
    std::uint64_t at = w.start + static_cast<std::uint64_t>(lane * 16);
#pragma unroll
    for (int r = 0; r < kLineRows; ++r, at += static_cast<std::uint64_t>(w.step)) load(at, r < rows, a[r].w);
    load(mine + 512, has_tail, tail);
  };
  if (__any_sync(kAll, crosses)) {  // the first and the last rows of a call
    load_all([&](std::uint64_t at, bool wanted, std::uint32_t(&v)[4]) {
#pragma unroll
      for (int i = 0; i < 4; ++i) v[i] = 0;
      if (wanted) load_inside<__nv_bfloat16, 4>(x, static_cast<std::int64_t>(at - data), v);
    });
  } else {
    load_all([](std::uint64_t at, bool wanted, std::uint32_t(&v)[4]) { ptx::ld_global_nc_if(at, wanted, v); });
  }
  if (w.before == 0) return;
  if (lane < kLineRows) *reinterpret_cast<uint4*>(edge.tail[lane]) = {tail[0], tail[1], tail[2], tail[3]};
  __syncwarp();
  std::uint32_t kept[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) kept[i] = lane == 0 ? from_element(w.before, i) : 0xFFFFFFFFU;
#pragma unroll
  for (int r = 0; r < kLineRows; ++r) {
    const uint4 t = *reinterpret_cast<const uint4*>(edge.tail[r]);
    const std::uint32_t others[4] = {t.x, t.y, t.z, t.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) a[r].w[i] = (a[r].w[i] & kept[i]) | (others[i] & ~kept[i]);
  }
}

// The codes of a window's rows, from code(r). to: the first row's first code in the columns; step: bytes to the next.
template <class Code>
__device__ __forceinline__ void store_window(std::uint8_t* to, std::int64_t step, const Window& w, WindowEdge& edge,
                                             const Code& code) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int at = lane * 8 - w.before;
  const bool all = w.rows == kLineRows && w.cols == kLineCols;
  const int rows = at >= 0 && at + 8 <= w.cols ? w.rows : 0;  // that this lane stores
  const bool is_last = lane == static_cast<int>(static_cast<unsigned>(w.before + w.cols) / 8 % 32);
  std::uint8_t* row = to + at;
#pragma unroll
  for (int r = 0; r < kLineRows; ++r, row += step) {
    const uint2 codes = code(r);
    if (r < rows) ptx::st_global_no_allocate(row, codes);
    if (lane == 0) *reinterpret_cast<uint2*>(edge.codes[r][0]) = codes;
    if (!all && is_last) *reinterpret_cast<uint2*>(edge.codes[r][1]) = codes;
  }
  if (all && w.before == 0) return;
  __syncwarp();
  store_edges<uint2, kLineRows>(to, step, w.rows, w.cols, all, edge);
}

}  // namespace mxcheck_kernels::sm90
