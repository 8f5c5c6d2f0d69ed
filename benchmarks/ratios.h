#pragma once
// The console reporter, and after it a table of medians and their ratio to memcpy on as many threads in the same run.

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
