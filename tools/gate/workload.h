#pragma once
// How much longer a run of the gate takes, for the line of progress.
//
// A statement's first cases are its small ones, so it advances by the cost of its cases (cost_of), not by their number.
// One statement may take half of the time and another a thousandth, so those to come count by the seconds that they
// usually take, and by how fast those so far were. Jobs take statements from both ends of the list: a long one that
// ends last leaves the other jobs idle.
//
//   Workload work(planned, {.suite = Suite::quick, .jobs = 2});
//   work.begin(statement, 0.1);             // seconds since the run began; from any thread
//   work.count(statement, cost_of(c));      // of each case
//   work.end(statement, 3.5);
//   work.left(4);                           // 12.8 seconds
//
// Not promised: the time of a candidate whose statements take other shares of it than those of the in-tree libraries,
// which the figures are of.

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

#include "properties/core/statement.h"
#include "properties/gate/usual_work.h"

namespace mxcheck {

class Workload {
 public:
  struct Run {
    Suite suite = Suite::quick;
    int cases = 0;           // --cases; 0: the suite's
    int shards = 1;          // of which this run is one
    int jobs = 1;            // that take statements from the list
    bool both_ends = false;  // every second one from its end
  };
  Workload() = default;
  // planned: in the order of the list.
  Workload(const std::vector<const Statement*>& planned, const Run& run);

  // at: seconds since the run began.
  void begin(const Statement& s, double at);
  void count(const Statement& s, std::int64_t cost);
  void end(const Statement& s, double at);

  [[nodiscard]] double left(double at) const;  // seconds
  [[nodiscard]] double share(double at);       // of all its time that has passed; never smaller than before

 private:
  struct Item {
    double seconds = 0, cost = 0;  // expected
    bool is_known = false;         // of usual_works()
    bool sets_pace = false;        // is_known, and as long for every candidate that has it
    double counted = 0;            // of the cost
    double begun = 0, took = 0;    // seconds
    enum class State : std::uint8_t { waits, runs, ended } state = State::waits;
    bool from_end = false;  // its job takes statements from the end of the list

    [[nodiscard]] double share() const;  // that is done
    [[nodiscard]] double so_far(double at) const;
  };
  // The seconds that statements took, and those expected for as much of them.
  struct Pace {
    double took, expected;
    void add(const Item& item, double at);
    [[nodiscard]] double ratio() const { return took / expected; }
  };

  Item* find(const Statement& s);

  mutable std::mutex mutex_;
  Run run_;
  double share_ = 0;
  std::vector<Item> items_;  // in the order of the list
  std::map<const Statement*, std::size_t> numbers_;
};

}  // namespace mxcheck
