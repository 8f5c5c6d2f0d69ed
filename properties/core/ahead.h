#pragma once
// The reference's answers to the next cases of a list, computed by threads of their own while the candidate runs the
// one before: where there are cores, the gate then waits for the candidate or for the reference, not for both in turn.
//
// The gate's findings are the same with and without these threads: an answer is a pure function of its case.

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "properties/core/operation.h"

namespace mxcheck {

// A case's problem, and what the reference answers.
struct ProblemAndAnswer {
  std::unique_ptr<Problem> problem;
  std::vector<ExpectedTensor> answer;
};
ProblemAndAnswer pose(const Case& c);

class ReferencePrefetcher {
 public:
  // threads: at least 1. Each computes one case at a time, and at most as many wait to be taken.
  ReferencePrefetcher(std::vector<Case> cases, int threads);
  ~ReferencePrefetcher();  // waits for the cases that are being computed
  ReferencePrefetcher(const ReferencePrefetcher&) = delete;
  ReferencePrefetcher& operator=(const ReferencePrefetcher&) = delete;

  // The case with this number is next: those before it are not asked for again.
  void go_to(std::size_t number);
  // Its answer, once; nothing for any other case. Throws what computing it threw.
  std::unique_ptr<ProblemAndAnswer> take(const Case& c);

 private:
  struct Slot {
    std::unique_ptr<ProblemAndAnswer> posed;
    std::exception_ptr failure;
    bool is_done = false;
  };
  void work();

  const std::vector<Case> cases_;
  const std::size_t most_ahead_;
  std::vector<Slot> slots_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t current_ = 0;
  std::size_t begun_ = 0;
  bool is_over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace mxcheck
