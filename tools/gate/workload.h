#pragma once
// The share of a gate's run that is done, for the line of progress. One statement may take half of the time and another
// a thousandth, so statements count by the time that they usually take, and a running one by its cases.
//
//   Workload work(planned, {.suite = Suite::quick});
//   work.count(statement);   // of each case, from any thread
//   work.end(statement);
//   work.share();            // 0.37
//
// Not promised: that a candidate's statements take what they take of the in-tree libraries, of which the figures are.

#include <cstddef>
#include <map>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "properties/core/statement.h"

namespace mxcheck {

// A statement's time on two cores, and how many cases it has, in two suites.
struct UsualWork {
  struct Amount {
    double seconds, cases;
  };
  std::string_view statement;
  Amount quick, full;
};
std::span<const UsualWork> usual_works();  // of those that take longer than most

class Workload {
 public:
  struct Run {
    Suite suite = Suite::quick;
    int cases = 0;   // --cases; 0: the suite's
    int shards = 1;  // of which this run is one
  };
  Workload() = default;
  Workload(const std::vector<const Statement*>& planned, const Run& run);

  void count(const Statement& s);
  void end(const Statement& s);
  [[nodiscard]] double share() const;  // never smaller than before

 private:
  struct Item {
    double seconds = 0, cases = 0;  // expected
    double counted = 0;
    bool ended = false;
  };
  mutable std::mutex mutex_;
  std::map<const Statement*, Item> items_;
  double all_ = 0, done_ = 0;  // seconds
};

}  // namespace mxcheck
