#pragma once
// The usual time of each of the gate's statements: for the line of progress, and to deal a run to shards.
//
//   const UsualWorks works(selected, Suite::quick, 0);
//   works.of(statement).seconds      // on one core, with the in-tree CPU libraries
//   works.together(statement)        // of that, for the cases that stay together where the run is dealt to shards
//
// Not promised: the seconds of another machine or library. The shares of a run's time are what counts.

#include <span>
#include <string_view>
#include <vector>

#include "properties/core/statement.h"

namespace mxcheck {

// A statement's seconds and the cost of its cases in millions, in two suites, as `mxcheck gate --timings` prints them.
struct UsualWork {
  struct Amount {
    double seconds, cost;
    double together = -1;  // the share of the seconds that UsualWorks::together is; below 0: that of most statements
  };
  std::string_view statement;
  Amount quick, full;
};
std::span<const UsualWork> usual_works();  // of those that take longer than most

class UsualWorks {
 public:
  // selected: the statements of the run, for some take longer beside others. cases: --cases; 0: the suite's.
  UsualWorks(const std::vector<const Statement*>& selected, Suite suite, int cases);

  [[nodiscard]] bool knows(const Statement& s) const { return find(s) != nullptr; }  // it is among usual_works()
  [[nodiscard]] UsualWork::Amount of(const Statement& s) const;
  // Seconds of its corners, covering cases, triples and layers, of all operations; 0 where every case stands alone.
  [[nodiscard]] double together(const Statement& s) const;

 private:
  [[nodiscard]] const UsualWork* find(const Statement& s) const;
  [[nodiscard]] const UsualWork::Amount& of_suite(const Statement& s) const;

  Suite suite_;
  int cases_;
  bool quantizes_;
};

}  // namespace mxcheck
