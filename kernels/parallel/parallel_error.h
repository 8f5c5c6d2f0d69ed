#pragma once
// The exception of kernels/parallel, and its kinds: the program that runs the ranks turns them into exit codes.

#include <stdexcept>
#include <string>

namespace mxcheck_kernels::parallel {

enum class Fault {
  configuration,  // the environment of the ranks, or what they were asked for: no rank has begun
  disagreement,   // ranks differ in configuration, library or data
  environment,    // the machine lacks something: NCCL, memory, a port
  rank,           // a rank ended, or did not arrive in time
};

// One line without a final full stop: what was wrong, of which rank, and what would be right.
class ParallelError : public std::runtime_error {
 public:
  ParallelError(Fault fault, const std::string& text) : std::runtime_error(text), fault_(fault) {}
  [[nodiscard]] Fault fault() const noexcept { return fault_; }

 private:
  Fault fault_;
};

}  // namespace mxcheck_kernels::parallel
