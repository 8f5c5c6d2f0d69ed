#pragma once
// Files and directories of this process that are not finished, so that a signal that ends it leaves none of them
// behind.
//
//   remove_temporaries_on_signals();                     once, in a program's main
//   { const SignalBlocker now; open(name); remember_temporary(name); }
//   { const SignalBlocker now; rename(name, path); forget_temporary(name); }
//
// SIGINT, SIGTERM and SIGHUP then remove what is remembered and end the process as they would have. Signals that are
// ignored (nohup) or handled already stay so. Nothing is promised for SIGKILL.
//
// Why it is safe. The list changes only while a SignalBlocker holds its lock, on a thread that has these signals
// blocked: a handler never interrupts the holder, so it can wait for the lock. Under it the handler reads the list and
// calls unlink, rmdir, sigaction and raise, which POSIX allows in handlers. A child that was forked removes nothing.

#include <csignal>
#include <string>

namespace mxcheck {

// While there is one, signals wait, and other threads that want one. One inside another is no other.
class SignalBlocker {
 public:
  SignalBlocker();
  ~SignalBlocker();
  SignalBlocker(const SignalBlocker&) = delete;
  SignalBlocker& operator=(const SignalBlocker&) = delete;

 private:
  sigset_t before_{};
};

// The name of a file, or of a directory: directories go after all files, in the order in which they were remembered,
// those in which something is left not at all.
void remember_temporary(const std::string& name);
void forget_temporary(const std::string& name);

void remove_temporaries_on_signals();

}  // namespace mxcheck
