#pragma once
// Limits on what a candidate's process can do to the gate from where it is: replies that are none, printing without
// end, processes that outlive it, memory without end.

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include <sys/resource.h>
#include <sys/types.h>

#include "properties/process/wire.h"

namespace mxcheck {

// The reason why these bytes are no worker's reply to this message; empty where they can be one. The process is the
// library's too, and writes what it likes: of a reply that passes, each text ends, and each count is within bounds.
std::string reply_problem(const wire::Message& message, const wire::Reply& reply);

// The text of what a library prints: whole lines, each marked as the library's so that it is no line of a report,
// without control characters, of so many bytes in all.
class PrintedLines {
 public:
  static constexpr std::size_t kMost = std::size_t{1} << 20;
  static constexpr std::size_t kLongest = 2000;  // a longer line becomes several
  // The lines that these bytes complete.
  std::string take(std::string_view bytes);
  std::string end() { return take("\n"); }  // and the one that nothing completes any more

 private:
  std::string line_;
  std::size_t kept_ = 0;
};

// The lines that a candidate's processes print. Each process of a function in Python imports the same modules and gets
// the same warnings: a line of one process is not shown again when another prints it. A process may repeat itself.
class LinesOfProcesses {
 public:
  std::string unseen(std::string_view lines, std::uint64_t process);  // those that no other process has printed

 private:
  static constexpr std::size_t kMost = std::size_t{1} << 16;  // lines that are remembered
  std::mutex mutex_;
  std::unordered_map<std::string, std::uint64_t> first_;  // line, and the process that printed it first
};

// The pipe that is the standard output and error of a candidate's processes, one after the other, on its way to this
// process's standard error.
class LibraryOutput {
 public:
  LibraryOutput() = default;
  ~LibraryOutput() { end(); }
  LibraryOutput(const LibraryOutput&) = delete;
  LibraryOutput& operator=(const LibraryOutput&) = delete;

  bool open();                                               // for the next process; false: there is no pipe
  void redirect() const;                                     // in that process
  void close_other_end();                                    // in this one
  [[nodiscard]] int descriptor() const { return ends_[0]; }  // to be read when there is something; -1: no more
  void read();                                               // what there is, without waiting
  void end();                                                // the process has ended

 private:
  void close_one(int end);
  void show(std::string_view lines) const;
  int ends_[2] = {-1, -1};
  std::uint64_t process_ = 0;
  PrintedLines lines_;
};

// The processes that a candidate's process starts. Each inherits a limit that has no meaning (RLIMIT_LOCKS) and that
// nobody without privileges can raise again, by which it is known after setsid() and whoever its parent is; those whose
// parent has ended become children of this process.
class StartedProcesses {
 public:
  StartedProcesses();
  ~StartedProcesses();
  StartedProcesses(const StartedProcesses&) = delete;
  StartedProcesses& operator=(const StartedProcesses&) = delete;

  void mark() const;         // in the candidate's process, before it is another program
  void end_orphans() const;  // when that has ended: all that are left

 private:
  [[nodiscard]] bool is_one(pid_t child) const;
  rlim_t mark_;
};

// Bytes that a process has for itself alone: without files and shared memory.
std::uint64_t own_memory(pid_t process);
// Three quarters of what this machine, or this container, has.
std::uint64_t default_memory_limit();

}  // namespace mxcheck
