// mxcheck_sm90_tiles_bench [--samples N] [--fit CSV]: GEMMs of few to many rows in every shape of tiles that the Hopper
// library has, as CSV: what the table of tiles (kernels/sm90/gemm/tiles.h) is fitted to, and what tests hold the choice
// to. The outputs of all shapes of tiles are compared byte by byte: exit code 1 if any differ. Each time is a median,
// in microseconds; operands are taken in turn from copies that together exceed the L2. With --fit nothing is measured:
// what was is read, and the rows of that table are printed, of a device with 132 processors.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "benchmarks/sm90/common/command_line.h"
#include "benchmarks/sm90/common/device.h"
#include "benchmarks/sm90/common/fill.h"
#include "benchmarks/sm90/tiles/fit.h"
#include "kernels/sm90/gemm/matmul.h"
#include "kernels/sm90/gemm/tiles.h"

namespace mxcheck::bench {
namespace {

namespace sm90 = mxcheck_kernels::sm90;
// FP8 with scales of 128x128 of B, or (fp8_rows) of 1x128, or so with C added in FP32 (fp8_rows_sum). MXFP8: one
// operand of codes, decoded on its way, the other of BF16.
enum class Kind : std::uint8_t { fp8, fp8_rows, fp8_rows_sum, bf16, mxfp8 };
constexpr std::array kNames{"fp8", "fp8_rows", "fp8_rows_sum", "bf16", "mxfp8"};
bool has_rows(Kind kind) { return kind == Kind::fp8_rows || kind == Kind::fp8_rows_sum; }
bool is_fp8(Kind kind) { return kind == Kind::fp8 || has_rows(kind); }

constexpr std::array<std::int64_t, 10> kRows{1, 64, 128, 192, 256, 384, 512, 768, 1024, 2048};
constexpr std::array<std::array<std::int64_t, 2>, 5> kWeights{
    {{2048, 7168}, {4096, 7168}, {7168, 2048}, {1536, 4096}, {24576, 1536}}};  // n, k
constexpr std::uint64_t kBeyondL2 = std::uint64_t{256} << 20;

std::span<const sm90::TilesRow> tiles_of(Kind kind) {
  constexpr std::array kKernels{sm90::MatmulKernel::fp8, sm90::MatmulKernel::fp8_rows, sm90::MatmulKernel::fp8_rows,
                                sm90::MatmulKernel::bf16, sm90::MatmulKernel::mxfp8};
  return sm90::tiles_of(kKernels[static_cast<std::size_t>(kind)]);
}

struct Operands {
  Kind kind = Kind::fp8;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::uint64_t copies = 0;
  std::vector<DeviceBuffer> a, b, scale_a, scale_b, c;
  std::vector<DeviceBuffer> d;  // of each shape of tiles
};

Operands make_operands(Kind kind, std::int64_t m, std::int64_t n, std::int64_t k, cudaStream_t stream) {
  Operands o{kind, m, n, k, 0, {}, {}, {}, {}, {}, {}};
  const int a_bytes = kind == Kind::bf16 ? 2 : 1;
  const int b_bytes = is_fp8(kind) ? 1 : 2;
  const auto bytes = static_cast<std::uint64_t>(m * k * a_bytes + n * k * b_bytes);
  o.copies = kBeyondL2 / bytes + 1;
  const auto filled = [&](std::vector<DeviceBuffer>& to, std::int64_t count, Filling filling, int size,
                          std::uint32_t seed) {
    to.emplace_back(static_cast<std::uint64_t>(count * size));
    fill(to.back().data(), count, filling, seed, stream);
  };
  for (std::uint32_t i = 0; i < o.copies; ++i) {
    filled(o.a, m * k, kind == Kind::bf16 ? Filling::bf16 : Filling::e4m3, a_bytes, 4 * i);
    filled(o.b, n * k, is_fp8(kind) ? Filling::e4m3 : Filling::bf16, b_bytes, 4 * i + 1);
    if (kind == Kind::mxfp8) filled(o.scale_a, m * (k / 32), Filling::e8m0_scales, 1, 4 * i + 2);
    if (!is_fp8(kind)) continue;
    filled(o.scale_a, m * (k / 128), Filling::fp32_scales, 4, 4 * i + 2);
    filled(o.scale_b, (kind == Kind::fp8 ? (n + 127) / 128 : n) * (k / 128), Filling::fp32_scales, 4, 4 * i + 3);
  }
  for (std::size_t i = 0; i < tiles_of(kind).size(); ++i) {
    o.d.emplace_back(static_cast<std::uint64_t>(m * n * (kind == Kind::fp8_rows_sum ? 4 : 2)));
    check_cuda(cudaMemsetAsync(o.d.back().data(), 0xFF, o.d.back().bytes(), stream), "poison");
  }
  if (kind == Kind::fp8_rows_sum) filled(o.c, m * n, Filling::fp32_scales, 4, 5);
  return o;
}

void enqueue(const Operands& o, std::size_t copy, std::size_t tiles, cudaStream_t stream) {
  const auto fill_in = [&](auto matmul) {
    matmul.m = o.m;
    matmul.n = o.n;
    matmul.k = o.k;
    matmul.tiles = tiles_of(o.kind)[tiles].tiles;
    matmul.a = o.a[copy].data();
    matmul.b = o.b[copy].data();
    matmul.d = o.d[tiles].data();
    return matmul;
  };
  if (is_fp8(o.kind)) {
    auto matmul = fill_in(sm90::MatmulFp8{});
    if (has_rows(o.kind)) matmul.b_block = sm90::MatmulBlock::row;
    if (o.kind == Kind::fp8_rows_sum) {
      matmul.output = sm90::MatmulOutput::fp32;
      matmul.accumulate = true;
      matmul.c = o.c[0].data();
    }
    matmul.scale_a = o.scale_a[copy].data();
    matmul.scale_b = o.scale_b[copy].data();
    check_cuda(sm90::matmul_fp8_launch(matmul, stream), "a GEMM of FP8");
  } else if (o.kind == Kind::bf16) {
    check_cuda(sm90::matmul_bf16_launch(fill_in(sm90::MatmulCall{}), stream), "a GEMM of BF16");
  } else {
    auto matmul = fill_in(sm90::MatmulDecoded{});
    matmul.scale_a = static_cast<const std::uint8_t*>(o.scale_a[copy].data());
    matmul.transposed = true;
    check_cuda(sm90::matmul_decoded_launch(matmul, stream), "a GEMM of MXFP8");
  }
}

// True if every shape of tiles gives the bytes of the first.
bool all_equal(const Operands& o, cudaStream_t stream) {
  std::vector<std::uint8_t> first(o.d[0].bytes());
  std::vector<std::uint8_t> other(o.d[0].bytes());
  for (std::size_t i = 0; i < o.d.size(); ++i) enqueue(o, 0, i, stream);
  check_cuda(cudaStreamSynchronize(stream), "GEMMs");
  check_cuda(cudaMemcpy(first.data(), o.d[0].data(), first.size(), cudaMemcpyDeviceToHost), "outputs");
  bool equal = true;
  for (std::size_t i = 1; i < o.d.size(); ++i) {
    check_cuda(cudaMemcpy(other.data(), o.d[i].data(), other.size(), cudaMemcpyDeviceToHost), "outputs");
    equal = equal && std::memcmp(first.data(), other.data(), first.size()) == 0;
  }
  return equal;
}

int run(int samples) {
  Timer timer;
  bool right = true;
  fmt::print("format,m,n,k,us by tiles\n");
  for (const Kind kind : {Kind::fp8, Kind::fp8_rows, Kind::fp8_rows_sum, Kind::bf16, Kind::mxfp8}) {
    const char* const name = kNames[static_cast<std::size_t>(kind)];
    for (const auto& [n, k] : kWeights) {
      for (const std::int64_t m : kRows) {
        // The weights' codes are decoded on their way: the kernel's rows are D's columns.
        const bool swapped = kind == Kind::mxfp8;
        const Operands o = make_operands(kind, swapped ? n : m, swapped ? m : n, k, timer.stream());
        if (!all_equal(o, timer.stream())) {
          right = false;
          fmt::print(stderr, "{} {}x{}x{}: outputs differ by tiles\n", name, m, n, k);
        }
        fmt::print("{},{},{},{}", name, m, n, k);
        for (std::size_t i = 0; i < o.d.size(); ++i) {
          const sm90::TilesRow& row = tiles_of(kind)[i];
          std::size_t call = 0;
          const auto together = static_cast<int>(std::max<std::uint64_t>(o.copies, 4));
          const Spread us = timer.time(samples, together, [&] { enqueue(o, call++ % o.copies, i, timer.stream()); });
          fmt::print(",{}x{}={:.2f}", row.rows, row.cols, us.median);
        }
        fmt::print("\n");
        std::fflush(stdout);
      }
    }
  }
  return right ? 0 : 1;
}

// The table's rows as they are in its file.
int print_fit(const std::string& path) {
  constexpr int kProcessors = 132;
  constexpr std::array kKernels{"fp8", "fp8_rows", "bf16", "mxfp8"};
  std::ifstream file(path);
  const std::vector<TilesSample> samples = read_samples(file);
  if (samples.empty()) {
    fmt::print(stderr, "{}: no line of measurements\n", path);
    return 1;
  }
  for (const sm90::TilesRow& row : sm90::kTilesTable) {
    const sm90::TilesRow r = fitted(row, samples, kProcessors);
    fmt::print("{{K::{}, T::m{}n{}, {}, {}, {:.2f}, {:.4f}, {:.2f}, {:.1f}, {}, {}, {}, {}, {}, {}, {}, {}}},\n",
               kKernels[static_cast<std::size_t>(r.kernel)], r.rows, r.cols, r.rows, r.cols, r.tile_us, r.stage_us,
               r.sum_us, r.fp32_us, r.cluster, r.row_subs, r.col_subs, r.sub_n, r.consumers, r.beside, r.slots,
               r.slots_fp32);
  }
  return 0;
}

}  // namespace
}  // namespace mxcheck::bench

int main(int argc, char** argv) {
  int samples = 15;
  CLI::App app("GEMMs in every shape of tiles", "mxcheck_sm90_tiles_bench");
  mxcheck::bench::add_samples(app, samples);
  std::string fit;
  app.add_option("--fit", fit, "print the table of tiles for these measurements");
  return mxcheck::bench::run_benchmark(
      app, argc, argv, [&] { return fit.empty() ? mxcheck::bench::run(samples) : mxcheck::bench::print_fit(fit); });
}
