#pragma once
// The child process in which a candidate lives: loads the library, executes requests, returns statuses. A crash or a
// hang here is a finding of the parent's, never the end of the gate.

#include <functional>
#include <optional>
#include <string>

#include "kernels/candidate.h"

namespace mxcheck {

// The source that a candidate is loaded from. Lives as long as the process.
class CandidateSource {
 public:
  struct Loaded {
    const mxcheck_candidate_table* table = nullptr;
    const char* sources = nullptr;  // MXCHECK_CANDIDATE_SOURCES_SYMBOL, where it is exported
    std::string problem;            // why there is no table: "cannot be loaded: ..."; empty where there is one
    bool lacks_device = false;      // the problem is this machine's
    // Fields for functions behind an adapter, which is then the source:
    bool adapted = false;
    bool captures = true;              // false: not called in a stream that is being captured
    bool waits = false;                // true: it may wait for its stream
    bool static_shapes = false;        // it compiles anew for each shape
    std::optional<std::string> files;  // lines: what it is made of; else what loading it has mapped
  };

  CandidateSource() = default;
  virtual ~CandidateSource() = default;
  CandidateSource(const CandidateSource&) = delete;
  CandidateSource& operator=(const CandidateSource&) = delete;

  virtual Loaded load() = 0;  // in the confined process, once
  // Around all that a thread of the worker does, the first one's included.
  virtual void in_thread(const std::function<void()>& work) { work(); }
};

// Answers the gate until it closes the socket; returns the exit status of the process. unconfined: what confine() said.
int serve_candidate(CandidateSource& source, int socket, int shared, const std::string& gpu_model,
                    const std::string& unconfined);

// The beginning of every process of a candidate: it ends with the gate, and leaves no core.
void begin_worker();

// argv: mxcheck __worker LIBRARY SOCKET_FD SHARED_FD GPU_MODEL (or nothing). Returns the exit status of the process.
int run_worker(int argc, char** argv);

}  // namespace mxcheck
