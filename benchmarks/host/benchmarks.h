#pragma once
// The benchmarks on the host, and the table that ends them. Each sets bytes_per_second (read plus written) or
// items_per_second (elements).

#include <benchmark/benchmark.h>

#include <map>
#include <string>
#include <vector>

namespace mxcheck::bench {

// memcpy of the bytes that quantizing moves, half read and half written, and every operation of the CPU library; each
// on one thread and on all cores.
void register_cpu_benchmarks(const std::string& library);

// The operation of the library of NVFP4, likewise.
void register_nvfp4_benchmarks(const std::string& library);

// reference::quantize, route and round_tokens, one thread's plain code on all cores: elements or tokens a second.
void register_reference_benchmarks();

// Chains of tensor-core steps, by the engine and by the plain model: multiplications a second.
void register_accumulate_benchmarks();

// Making and verifying a golden of 67 M elements, next to plain HDF5 on the same bytes. Files are in the temporary
// folder.
void register_golden_benchmarks(const std::string& tool);

// --- ratios
//
// The console reporter, and after it a table of medians and their ratio, in the same run, to memcpy on as many threads;
// of goldens, to plain HDF5.

class RatioReporter : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override;
  void Finalize() override;

 private:
  std::map<std::string, std::vector<double>> rates_;  // bytes or elements per second, one a repetition
  std::vector<std::string> order_;
};

// The middle value, or the mean of the two; 0 of none.
double median(std::vector<double> values);

}  // namespace mxcheck::bench
