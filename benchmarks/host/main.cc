// mxcheck_bench [--library PATH] [Google Benchmark's flags]: speeds, as ratios to memcpy in the same run.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "benchmarks/host/benchmarks.h"

namespace mxcheck::bench {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

void RatioReporter::ReportRuns(const std::vector<Run>& runs) {
  ConsoleReporter::ReportRuns(runs);
  for (const Run& run : runs) {
    if (run.run_type != Run::RT_Iteration) continue;
    for (const char* counter : {"bytes_per_second", "items_per_second"}) {
      const auto found = run.counters.find(counter);
      if (found == run.counters.end()) continue;
      const std::string name = run.run_name.function_name;
      if (rates_[name].empty()) order_.push_back(name);
      rates_[name].push_back(found->second.value);
    }
  }
}

void RatioReporter::Finalize() {
  ConsoleReporter::Finalize();
  std::FILE* const out = stdout;
  std::fprintf(out, "\n%-44s %12s %10s %10s\n", "median over repetitions", "per second", "/ base", "best");
  const auto is_memcpy = [](const std::string& name) { return name.starts_with("memcpy"); };
  const auto base_of = [](const std::string& name) -> std::string {
    if (name.starts_with("golden_")) return "plain_hdf5_" + name.substr(std::string("golden_").size());
    if (name.starts_with("plain_hdf5_")) return name;
    const std::string cores = name.ends_with("all_cores") ? "/all_cores" : "/1_thread";
    return (name.starts_with("scale_layout") ? "memcpy_scales" : "memcpy") + cores;
  };
  std::sort(order_.begin(), order_.end());  // interleaving has shuffled them
  std::stable_partition(order_.begin(), order_.end(), is_memcpy);
  for (const std::string& name : order_) {
    const double rate = median(rates_[name]);
    const double best = *std::max_element(rates_[name].begin(), rates_[name].end());
    if (name.starts_with("reference")) {
      std::fprintf(out, "%-44s %7.1f Melt\n", name.c_str(), rate / 1e6);
      continue;
    }
    const auto copy = rates_.find(base_of(name));
    std::fprintf(out, "%-44s %9.2f GB", name.c_str(), rate / 1e9);
    if (copy != rates_.end()) {
      const double best_copy = *std::max_element(copy->second.begin(), copy->second.end());
      std::fprintf(out, " %10.2f %10.2f", rate / median(copy->second), best / best_copy);
    }
    std::fprintf(out, "\n");
  }
}

}  // namespace mxcheck::bench

// mxcheck_bench [--library PATH] [Google Benchmark's flags]: speeds, as ratios to memcpy in the same run.

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
    mxcheck::bench::register_nvfp4_benchmarks(MXCHECK_CPU_NVFP4_LIBRARY);
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
