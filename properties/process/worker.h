#pragma once
// The child process in which a candidate lives: loads the library, executes requests, returns statuses. A crash or a
// hang here is a finding of the parent's, never the end of the gate.

namespace mxcheck {

// argv: mxcheck __worker LIBRARY SOCKET_FD SHARED_FD GPU_MODEL (or nothing). Returns the exit status of the process.
int run_worker(int argc, char** argv);

}  // namespace mxcheck
