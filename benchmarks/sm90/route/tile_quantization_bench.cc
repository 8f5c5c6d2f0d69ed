// mxcheck_tile_quantization_bench [--gemm PATH] [--route PATH] [--only TEXT] [--samples N] [--quick] [--fp8]: what a
// tile's size costs a sparse mixture of experts, and what token rounding saves of it (SonicMoE, arXiv 2512.14080,
// figures 11 and 16). For each shape, tokens of random logits are routed twice on the device, by token choice and by
// token rounding to 128 rows, and the four matmuls of a layer whose groups are rows run over both results:
//   up     [rows x d] x [d x 2n], rows gathered     down   [rows x n] x [n x d]
//   dH     [rows x d] x [d x n], rows gathered      dX     [rows x 2n] x [2n x d]
// in BF16, or E4M3 with FP32 scales of 1x128 and 128x128. The two are timed in turns.

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "benchmarks/sm90/common/command_line.h"
#include "benchmarks/sm90/common/device.h"
#include "benchmarks/sm90/common/fill.h"
#include "benchmarks/sm90/route/router_call.h"
#include "kernels/candidate_matmul.h"
#include "numerics/error.h"
#include "tests/kernels/loaded_library.h"

namespace mxcheck::bench {
namespace {

constexpr std::int64_t kTile = 128;

struct Options {
  std::string gemm = MXCHECK_SM90_GEMM_LIBRARY;
  std::string route = MXCHECK_SM90_ROUTE_LIBRARY;
  std::string only;
  bool quick = false;
  bool fp8 = false;
  int samples = 15;
};

struct Layer {
  std::int64_t tokens, d, n, experts, top_k;
  [[nodiscard]] std::string text() const {
    return fmt::format("T={} d={} n={} E={} K={}", tokens, d, n, experts, top_k);
  }
};

std::vector<Layer> all_layers(bool quick) {
  if (quick) return {{512, 256, 128, 8, 2}, {512, 256, 128, 16, 2}};
  std::vector<Layer> all;
  for (std::int64_t e : {64, 128, 256, 512}) all.push_back({16384, 1536, 256, e, 8});
  for (std::int64_t e : {16, 32, 64, 128}) all.push_back({16384, 1536, 1024, e, 2});
  for (std::int64_t e : {64, 128, 256, 512}) all.push_back({16384, 4096, 512, e, 8});
  for (std::int64_t e : {32, 64, 128, 256}) all.push_back({16384, 4096, 1024, e, 4});
  all.push_back({16384, 2048, 512, 512, 10});
  return all;
}

// Offsets and source rows of one way to route, on the device; what the tiles of 128 rows waste.
struct Rows {
  std::int64_t rows = 0;
  std::int64_t in_tiles = 0;
  std::int64_t empty = 0;
  const DeviceBuffer* offsets = nullptr;
  const DeviceBuffer* row_token = nullptr;
  [[nodiscard]] double padding() const { return 1 - static_cast<double>(rows) / static_cast<double>(in_tiles); }
};

Rows rows_of(const DeviceBuffer& offsets, const DeviceBuffer& row_token) {
  const std::vector<std::byte> bytes = download(offsets);
  std::vector<std::int64_t> ends(bytes.size() / 8);
  std::memcpy(ends.data(), bytes.data(), bytes.size());
  Rows r{ends.back(), 0, 0, &offsets, &row_token};
  for (std::size_t e = 1; e < ends.size(); ++e) {
    r.in_tiles += (ends[e] - ends[e - 1] + kTile - 1) / kTile * kTile;
    r.empty += ends[e] == ends[e - 1] ? 1 : 0;
  }
  return r;
}

// Memory that every matmul of a layer shares: any values will do.
struct Memory {
  DeviceBuffer a, b, d, scale_a, scale_b;
};

class Matmul {
 public:
  Matmul(const mxcheck_operation& operation, const Memory& memory, const Layer& layer, const Rows& rows, std::int64_t n,
         std::int64_t k, bool gathers, bool fp8)
      : call_(operation, policy(rows.rows, n, k, fp8)) {
    const DLDataType code = fp8 ? DLDataType{kDLUInt, 8, 1} : kBfloat16;
    const std::int64_t sources = gathers ? layer.tokens : rows.rows;
    call_.input(memory.a.data(), code, {sources, k});
    call_.input(memory.b.data(), code, {layer.experts * n, k});
    if (fp8) {
      call_.input(memory.scale_a.data(), kFloat32, {sources, (k + 127) / 128});
      call_.input(memory.scale_b.data(), kFloat32, {layer.experts * ((n + 127) / 128), (k + 127) / 128});
    }
    call_.input(rows.offsets->data(), kInt64, {layer.experts + 1});
    if (gathers) call_.input(rows.row_token->data(), kInt32, {rows.rows});
    call_.output(memory.d.data(), kBfloat16, {rows.rows, n});
    call_.prepare();
  }
  void enqueue(cudaStream_t stream) { call_.enqueue(stream); }
  std::string report() { return call_.report(); }

 private:
  static Policy policy(std::int64_t m, std::int64_t n, std::int64_t k, bool fp8) {
    mxcheck_matmul_policy p{};
    p.policy.size = sizeof p;
    p.policy.layout = MXCHECK_COMPACT;
    p.policy.format = p.format_b = fp8 ? "e4m3" : "bf16";
    p.policy.recipe = "";
    p.policy.rows = m, p.policy.cols = n, p.depth = k;
    if (fp8) {
      p.policy.block_rows = 1, p.policy.block_cols = 128, p.block_b_rows = 128, p.block_b_cols = 128;
      p.scale_type = MXCHECK_FP32;
    }
    p.grouping = MXCHECK_ROWS;
    p.alpha = 1;
    return pack(p, {offsetof(mxcheck_matmul_policy, format_b)});
  }
  DeviceOperation call_;
};

struct Work {
  std::int64_t n, k;
  bool gathers, forward;
};

std::array<Work, 4> works_of(const Layer& l) {
  return {{{2 * l.n, l.d, true, true},      // up
           {l.d, l.n, false, true},         // down
           {l.n, l.d, true, false},         // dH
           {l.d, 2 * l.n, false, false}}};  // dX
}

const mxcheck_operation& matmul_operation(const std::string& path, bool fp8) {
  return operation(load_candidate(path), "matmul", fp8 ? "sm90_fp8+promote128" : "sm90_bf16");
}

void measure(Timer& timer, const Options& options, const Layer& layer, const mxcheck_operation& matmul) {
  RouterShape shape;
  shape.tokens = layer.tokens, shape.experts = layer.experts, shape.top_k = layer.top_k, shape.tile = 1;
  const mxcheck_candidate_table& library = load_candidate(options.route);
  RouteCall choose(operation(library, "route"), shape, 7);
  std::string wrong = choose.difference(timer.stream());
  MetadataCall metadata(operation(library, "route_metadata"), shape, choose.experts());
  if (wrong.empty()) wrong = metadata.difference(timer.stream());
  RouterShape rounded_shape = shape;
  rounded_shape.rule = "nr-f", rounded_shape.tile = kTile;
  RoundCall round(operation(library, "route_round"), rounded_shape, 7);
  if (wrong.empty()) wrong = round.difference(timer.stream());
  if (!wrong.empty()) throw Error(ErrorKind::internal, layer.text() + ": " + wrong);
  const Rows chosen = rows_of(metadata.offsets(), metadata.row_token());
  const Rows rounded = rows_of(round.offsets(), round.row_token());

  const std::int64_t rows = std::max(chosen.rows, rounded.rows);
  const std::int64_t widest = std::max(layer.d, 2 * layer.n);
  const std::uint64_t element = options.fp8 ? 1 : 2;
  const auto bytes = [](std::int64_t count, std::uint64_t width) { return static_cast<std::uint64_t>(count) * width; };
  const Memory memory{DeviceBuffer(bytes(std::max(layer.tokens * layer.d, rows * 2 * layer.n), element)),
                      DeviceBuffer(bytes(layer.experts * 2 * layer.n * layer.d, element)),
                      DeviceBuffer(bytes(rows * widest, 2)),
                      DeviceBuffer(bytes(std::max(layer.tokens, rows) * (widest / 128 + 1), 4)),
                      DeviceBuffer(bytes(layer.experts * (widest / 128 + 1) * (widest / 128 + 1), 4))};
  const Filling filling = options.fp8 ? Filling::e4m3 : Filling::bf16;
  fill(memory.a.data(), static_cast<std::int64_t>(memory.a.bytes() / element), filling, 1, timer.stream());
  fill(memory.b.data(), static_cast<std::int64_t>(memory.b.bytes() / element), filling, 2, timer.stream());
  fill(memory.scale_a.data(), static_cast<std::int64_t>(memory.scale_a.bytes() / 4), Filling::fp32_scales, 3,
       timer.stream());
  fill(memory.scale_b.data(), static_cast<std::int64_t>(memory.scale_b.bytes() / 4), Filling::fp32_scales, 4,
       timer.stream());

  fmt::print("{:<34} {:>6.1f} {:>6.1f}", layer.text(), 100 * chosen.padding(), 100 * rounded.padding());
  std::array<double, 2> forward{};
  std::array<double, 2> backward{};
  double work = 0;
  for (const Work& w : works_of(layer)) {
    Matmul before(matmul, memory, layer, chosen, w.n, w.k, w.gathers, options.fp8);
    Matmul after(matmul, memory, layer, rounded, w.n, w.k, w.gathers, options.fp8);
    const Spread t = timer.time(options.samples, 3, [&] { before.enqueue(timer.stream()); });
    const Spread u = timer.time(options.samples, 3, [&] { after.enqueue(timer.stream()); });
    const Spread v = timer.time(options.samples, 3, [&] { before.enqueue(timer.stream()); });
    for (Matmul* p : {&before, &after}) {
      if (const std::string found = p->report(); !found.empty()) throw Error(ErrorKind::internal, found);
    }
    auto& sums = w.forward ? forward : backward;
    sums[0] += (t.median + v.median) / 2, sums[1] += u.median;
    if (&sums == &forward) work += 2.0 * static_cast<double>(w.n) * static_cast<double>(w.k);
  }
  // Useful work a second: rows that a token was sent for. Rounding changes their number too.
  const auto rate = [](double flops, std::int64_t r, double us) { return flops * static_cast<double>(r) / us / 1e6; };
  const double before = rate(work, chosen.rows, forward[0]);
  const double after = rate(work, rounded.rows, forward[1]);
  const double gain = after / before;
  const double back =
      backward[0] / static_cast<double>(chosen.rows) / (backward[1] / static_cast<double>(rounded.rows));
  fmt::print(" {:>8} {:>8} {:>5} {:>9.1f} {:>9.1f} {:>7.1f} {:>7.1f} {:>+7.1f} {:>+7.1f}\n", chosen.rows, rounded.rows,
             rounded.empty, forward[0], forward[1], before, after, 100 * (gain - 1), 100 * (back - 1));
  std::fflush(stdout);
}

int run(const Options& options) {
  Timer timer;
  const mxcheck_operation& matmul = matmul_operation(options.gemm, options.fp8);
  fmt::print("{}\n{}, tiles of {} rows; padding in %, forward (up, down) in us and TFLOPS of useful work, gains in %\n",
             to_text(current_card()), options.fp8 ? "E4M3 1x128 by 128x128" : "BF16", kTile);
  fmt::print("{:<34} {:>6} {:>6} {:>8} {:>8} {:>5} {:>9} {:>9} {:>7} {:>7} {:>7} {:>7}\n", "layer", "pad TC", "pad TR",
             "rows TC", "rows TR", "empty", "us TC", "us TR", "TC", "TR", "forward", "dH, dX");
  for (const Layer& layer : all_layers(options.quick)) {
    if (layer.text().find(options.only) != std::string::npos) measure(timer, options, layer, matmul);
  }
  return 0;
}

}  // namespace
}  // namespace mxcheck::bench

int main(int argc, char** argv) {
  mxcheck::bench::Options options;
  CLI::App app("Grouped matmuls under token choice and token rounding", "mxcheck_tile_quantization_bench");
  app.add_option("--gemm", options.gemm, "The candidate that multiplies");
  app.add_option("--route", options.route, "The candidate that routes");
  app.add_option("--only", options.only, "Layers whose text has this");
  app.add_flag("--quick", options.quick, "Small shapes: does it run at all");
  app.add_flag("--fp8", options.fp8, "E4M3 with scales of 1x128 and 128x128 in place of BF16");
  mxcheck::bench::add_samples(app, options.samples);
  return mxcheck::bench::run_benchmark(app, argc, argv, [&] { return mxcheck::bench::run(options); });
}
