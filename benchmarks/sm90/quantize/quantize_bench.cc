// mxcheck_sm90_bench [--library PATH] [--only TEXT] [--json] [--samples N] [--quick]: each case is checked byte for
// byte against the reference, then timed with CUDA events over copies of its tensors that exceed L2; rates are given as
// ratios to a device-to-device copy of as many bytes in the same run.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "benchmarks/sm90/common/command_line.h"
#include "benchmarks/sm90/common/device_timer.h"
#include "benchmarks/sm90/quantize/device_call.h"
#include "numerics/error.h"
#include "tests/kernels/loaded_library.h"

namespace mxcheck::bench {
namespace {

constexpr std::uint64_t kBeyondL2 = std::uint64_t{512} << 20;

struct Options {
  std::string library;
  std::string only;
  bool json = false;
  bool quick = false;  // small shapes: does it run at all
  int samples = 25;
};

std::vector<DeviceRequest> all_requests(bool quick) {
  std::vector<DeviceRequest> all;
  const std::int64_t rows = quick ? 259 : 131072;
  const std::int64_t fewer = quick ? 131 : 32768;
  const std::int64_t cols = quick ? 392 : 7168;
  const auto add = [&](const char* operation, BlockShape block, bool tiled, std::int64_t r, std::int64_t c,
                       Format wide = Format::bf16, Format element = Format::e4m3, int experts = 0,
                       bool gather = false) {
    all.push_back({operation, wide, element, block, tiled, r, c, experts, gather});
  };
  for (const std::int64_t r : {rows, fewer}) {
    add("quantize", {1, 32}, true, r, cols);
    add("quantize", {32, 1}, true, r, cols);
    add("quantize_dual", {1, 32}, true, r, cols);
    add("quantize", {1, 128}, false, r, cols);
    add("quantize", {128, 128}, false, r, cols);
  }
  add("quantize", {1, 32}, false, fewer, cols);
  add("quantize", {1, 128}, true, fewer, cols);
  add("quantize", {128, 1}, true, fewer, cols);
  add("quantize", {32, 32}, false, fewer, cols);
  add("quantize_dual", {1, 128}, true, fewer, cols);
  add("quantize", {1, 32}, true, fewer, cols, Format::bf16, Format::e5m2);
  add("quantize", {1, 32}, true, fewer, cols, Format::fp32);
  add("quantize", {32, 1}, true, fewer, cols, Format::fp32);
  add("quantize_dual", {1, 32}, true, fewer, cols, Format::fp32);
  add("quantize", {32, 1}, true, fewer, cols, Format::bf16, Format::e4m3, 64);
  add("quantize_dual", {1, 32}, true, fewer, cols, Format::bf16, Format::e4m3, 64);
  add("quantize", {1, 32}, true, fewer, cols, Format::bf16, Format::e4m3, 64, true);
  add("quantize", {1, 32}, true, fewer, cols - 1);
  add("quantize", {1, 32}, true, fewer, cols - 4);
  add("quantize", {1, 128}, false, fewer, cols - 1);
  add("quantize", {1, 32}, true, fewer, cols - 1, Format::fp32);
  add("quantize", {1, 32}, true, fewer, cols - 1, Format::bf16, Format::e4m3, 64, true);
  add("quantize", {32, 1}, true, fewer, cols - 1);
  add("quantize", {32, 1}, true, fewer, cols - 1, Format::fp32);
  add("quantize", {128, 128}, false, fewer, cols - 1);
  add("quantize_dual", {1, 32}, true, fewer, cols - 1);
  add("quantize_dual", {1, 128}, true, fewer, cols - 1);
  add("dequantize", {1, 32}, true, fewer, cols);
  add("dequantize", {32, 1}, true, fewer, cols);
  add("dequantize", {1, 32}, true, fewer, cols, Format::fp32);
  if (quick) return all;
  add("quantize", {1, 32}, true, 4096, 512);
  add("quantize", {32, 1}, true, 4096, 512);
  add("quantize_dual", {1, 32}, true, 4096, 512);
  return all;
}

int run(const Options& options) {
  Timer timer;
  int wrong = 0;
  const Spread nothing = timer.time(options.samples, 20, [&] { launch_nothing(timer.stream()); });
  const double large_copy = timer.large_copy_rate(options.quick ? 1 : options.samples);
  if (!options.json) {
    fmt::print("an empty kernel: {:.2f} us\n{:<66} {:>7} {:>9} {:>17} {:>6} {:>9} {:>6}\n", nothing.median, "case",
               "MB", "us", "least-most", "GB/s", "copy GB/s", "ratio");
  } else {
    fmt::print("{{\"empty_kernel_us\": {:.3f}, \"large_copy_bytes_per_s\": {:.4e}, \"cases\": [", nothing.median,
               large_copy);
  }
  bool first = true;
  for (const DeviceRequest& request : all_requests(options.quick)) {
    if (request.text().find(options.only) == std::string::npos) continue;
    DeviceCall call(operation(load_candidate(options.library), request.operation), request,
                    options.quick ? 1 : kBeyondL2);
    const std::string difference = call.difference(timer.stream());
    wrong += difference.empty() ? 0 : 1;
    const auto together = static_cast<int>(std::clamp<std::size_t>(call.copies(), 1, 40));
    const Spread t = timer.time(options.samples, together, [&] { call.enqueue(timer.stream()); });
    const double rate = 1e6 * static_cast<double>(call.bytes()) / t.median;
    // Small calls are compared with a copy of as many bytes, large ones with the best large copy.
    const bool small = call.bytes() < 100'000'000;
    const double copy =
        small ? timer.copy_rate(options.samples, together, static_cast<std::uint64_t>(call.bytes() / 2)) : large_copy;
    if (options.json) {
      fmt::print(
          "{}\n{{\"case\": \"{}\", \"bytes\": {}, \"us\": {:.3f}, \"us_least\": {:.3f}, \"us_most\": {:.3f}, "
          "\"bytes_per_s\": {:.4e}, \"copy_bytes_per_s\": {:.4e}, \"ratio\": {:.4f}, \"difference\": \"{}\"}}",
          first ? "" : ",", request.text(), call.bytes(), t.median, t.least, t.most, rate, copy, rate / copy,
          difference);
    } else {
      fmt::print("{:<66} {:>7.1f} {:>9.2f} {:>8.2f}-{:<8.2f} {:>6.0f} {:>9.0f} {:>6.3f}{}\n", request.text(),
                 static_cast<double>(call.bytes()) / 1e6, t.median, t.least, t.most, rate / 1e9, copy / 1e9,
                 rate / copy, difference.empty() ? "" : "  WRONG: " + difference);
    }
    std::fflush(stdout);
    first = false;
  }
  if (options.json) fmt::print("\n]}}\n");
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace mxcheck::bench

int main(int argc, char** argv) {
  mxcheck::bench::Options options;
  options.library = MXCHECK_SM90_LIBRARY;
  CLI::App app("Casts of a Hopper library, checked and timed", "mxcheck_sm90_bench");
  app.add_option("--library", options.library, "The candidate");
  app.add_option("--only", options.only, "Cases whose text has this");
  app.add_flag("--quick", options.quick, "Small shapes: does it run at all");
  app.add_flag("--json", options.json, "Print JSON");
  mxcheck::bench::add_samples(app, options.samples);
  return mxcheck::bench::run_benchmark(app, argc, argv, [&] { return mxcheck::bench::run(options); });
}
