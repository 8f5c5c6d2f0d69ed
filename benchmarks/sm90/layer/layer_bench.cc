// mxcheck_sm90_layer_bench [--library PATH] [--host PATH] [--only TEXT] [--samples N] [--check N] [--quick]: the
// elementwise steps of a layer. Each case at 1/N of its rows is compared with the CPU library, every byte, then timed
// in full, beside a device-to-device copy of as many bytes in the same run.

#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "benchmarks/sm90/common/command_line.h"
#include "benchmarks/sm90/common/device_timer.h"
#include "benchmarks/sm90/layer/layer_case.h"
#include "tests/kernels/loaded_library.h"

namespace mxcheck::bench {
namespace {

struct Options {
  std::string library = MXCHECK_SM90_LAYER_LIBRARY;
  std::string host = MXCHECK_CPU_LAYER_LIBRARY;
  std::string only;
  int samples = 15;
  std::int64_t check = 64;
  bool quick = false;
};

bool wanted(const Options& options, const LayerRequest& r) {
  return (r.operation + " " + r.text).find(options.only) != std::string::npos;
}

int run(const Options& options) {
  Timer timer;
  const mxcheck_candidate_table& library = load_candidate(options.library);
  const mxcheck_candidate_table& host = load_candidate(options.host);
  int wrong = 0;
  for (const LayerRequest& r : layer_requests(options.check)) {
    if (!wanted(options, r) && options.only.find(r.operation) == std::string::npos) continue;
    const std::string difference =
        LayerCall(operation(library, r.operation), r).difference(operation(host, r.operation), timer.stream());
    if (difference.empty()) continue;
    ++wrong;
    fmt::print("WRONG {} {}: {}\n", r.operation, r.text, difference);
  }
  fmt::print("compared with the CPU library: {} differ\n", wrong);
  if (options.quick) return wrong == 0 ? 0 : 1;
  const double copy = timer.large_copy_rate(options.samples);
  fmt::print("the best copy: {:.0f} GB/s\n{:<20} {:<52} {:>7} {:>8} {:>17} {:>6} {:>6}\n", copy / 1e9, "operation",
             "case", "MB", "us", "least-most", "GB/s", "ratio");
  for (const LayerRequest& r : layer_requests(1)) {
    if (!wanted(options, r)) continue;
    LayerCall call(operation(library, r.operation), r);
    const Spread time = timer.time(options.samples, 4, [&] { call.enqueue(timer.stream()); });
    const double rate = 1e6 * static_cast<double>(r.traffic) / time.median;
    fmt::print("{:<20} {:<52} {:>7.0f} {:>8.1f} {:>8.1f}-{:<8.1f} {:>6.0f} {:>6.3f}\n", r.operation, r.text,
               static_cast<double>(r.traffic) / 1e6, time.median, time.least, time.most, rate / 1e9, rate / copy);
    std::fflush(stdout);
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace mxcheck::bench

int main(int argc, char** argv) {
  mxcheck::bench::Options options;
  CLI::App app("The elementwise steps of a layer of a Hopper library, checked and timed", "mxcheck_sm90_layer_bench");
  app.add_option("--library", options.library, "The candidate");
  app.add_option("--host", options.host, "The CPU library that it is compared with");
  app.add_option("--only", options.only, "Cases whose operation and text have this");
  app.add_option("--check", options.check, "Compare at this part of the rows")->check(CLI::Range(1, 2048));
  app.add_flag("--quick", options.quick, "Compare alone");
  mxcheck::bench::add_samples(app, options.samples);
  return mxcheck::bench::run_benchmark(app, argc, argv, [&] { return mxcheck::bench::run(options); });
}
