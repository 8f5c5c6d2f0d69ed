// mxcheck_bench [--library PATH] [Google Benchmark's flags]: speeds, as ratios to memcpy in the same run.

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "benchmarks/host/benchmarks.h"
#include "benchmarks/host/ratios.h"

int main(int argc, char** argv) {
  std::string library = MXCHECK_CPU_LIBRARY;
  // Defaults first, so that flags on the command line win. Repetitions of all benchmarks are interleaved: what else the
  // machine does then falls on memcpy as on what is compared with it.
  std::string repetitions = "--benchmark_repetitions=5";
  std::string interleaving = "--benchmark_enable_random_interleaving=true";
  std::string time = "--benchmark_min_time=0.1";
  std::vector<char*> arguments{argv[0], repetitions.data(), interleaving.data(), time.data()};
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--library") == 0 && i + 1 < argc) {
      library = argv[++i];
    } else {
      arguments.push_back(argv[i]);
    }
  }
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 2;
  try {
    mxcheck::bench::register_cpu_benchmarks(library);
    mxcheck::bench::register_reference_benchmarks();
    mxcheck::bench::register_accumulate_benchmarks();
    mxcheck::bench::register_golden_benchmarks(MXCHECK_TOOL);
    mxcheck::bench::RatioReporter reporter;
    if (benchmark::RunSpecifiedBenchmarks(&reporter) == 0) return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mxcheck_bench: %s\n", error.what());
    return 3;
  }
  return 0;
}
