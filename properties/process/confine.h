#pragma once
// Less power for the candidate's process than for the gate that judges it: what a library under test has no use for,
// and with which it could reach into the gate, signal it, or stop the machine.
//
// Does not keep a library from files, from the network, or from processes other than the gate: docs/candidate.md.

#include <set>
#include <string>

#include <sys/types.h>

namespace mxcheck {

// In the child, before the library is loaded and while there is one thread; `gate` is its parent. No new privileges, no
// capabilities but that to read files (a library's own may belong to another user), and a filter of system calls:
// ptrace, reading and writing another process, pidfds, kcmp, perf, bpf, signals to the gate, to all processes or to a
// foreign process group fail with EPERM. Returns what this kernel refused of that, in words; empty: nothing.
std::string confine(pid_t gate);

// In the gate, while candidates run: not dumpable, so that /proc/PID/mem and the like are closed to processes of the
// same user.
class ScopedNoDump {
 public:
  ScopedNoDump();
  ~ScopedNoDump();
  ScopedNoDump(const ScopedNoDump&) = delete;
  ScopedNoDump& operator=(const ScopedNoDump&) = delete;
};

// The name and the arguments under which the process is listed become a plain word.
void rename_process(int argc, char** argv);

// The files that are mapped into this process: a library's verdict is one about all that loading it brought in.

// Absolute paths; without devices, and without files that have been deleted.
std::set<std::string> mapped_files();
bool is_of_the_system(const std::string& path);  // below /lib or /usr/lib

}  // namespace mxcheck
