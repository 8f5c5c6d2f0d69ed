#pragma once
// The console reporter, and after it a table of medians and their ratio, in the same run, to memcpy on as many threads;
// of goldens, to plain HDF5.

#include <benchmark/benchmark.h>

#include <map>
#include <string>
#include <vector>

namespace mxcheck::bench {

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
