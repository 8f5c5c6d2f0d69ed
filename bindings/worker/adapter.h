#pragma once
// The interface of a kernel library over an interpreter's functions: a table whose operations put each call into the
// hooks' words and texts (worker_c.h) and ask the interpreter.

#include <functional>

#include "bindings/worker/worker_c.h"
#include "properties/process/worker.h"

namespace mxcheck {

// One in a process: the interface's functions have no argument to find it by.
class Adapter final : public CandidateSource {
 public:
  explicit Adapter(mxcheck_worker_hooks& hooks) : hooks_(hooks) {}
  Loaded load() override;
  void in_thread(const std::function<void()>& work) override;
  // For the table's functions.
  mxcheck_status supports(int operation, const mxcheck_policy* policy, DLDataType wide);
  mxcheck_status run(int operation, const mxcheck_call& call);
  [[nodiscard]] const DLTensor* tensor(int i) const;
  static void answer();  // in the thread that in_thread was called in

 private:
  mxcheck_worker_hooks& hooks_;
  mxcheck_candidate_table table_{};
  const mxcheck_call* call_ = nullptr;
};

}  // namespace mxcheck
