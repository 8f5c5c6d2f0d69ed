// Tries every way into the process that judges it, or to stop that; right when none is open, else it says which.
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>

#include "tests/adversaries/honest.h"

namespace {
std::string open_ways() {
  const pid_t gate = getppid();
  std::string open_ones;
  const auto try_one = [&](const char* way, bool works) {
    if (works) open_ones += std::string(" ") + way;
  };
  const std::string memory = "/proc/" + std::to_string(gate) + "/mem";
  for (const int mode : {O_RDONLY, O_RDWR}) {
    const int fd = open(memory.c_str(), mode);
    try_one("mem", fd >= 0);
    if (fd >= 0) close(fd);
  }
  long word = 0;
  iovec own{&word, sizeof(word)}, theirs{nullptr, sizeof(word)};
  theirs.iov_base = reinterpret_cast<void*>(0x400000);
  // EFAULT: allowed, and nothing is there.
  try_one("process_vm_readv", process_vm_readv(gate, &own, 1, &theirs, 1, 0) >= 0 || errno == EFAULT);
  try_one("process_vm_writev", process_vm_writev(gate, &own, 1, &theirs, 1, 0) >= 0 || errno == EFAULT);
  const bool traced = ptrace(PTRACE_SEIZE, gate, nullptr, nullptr) == 0;
  try_one("ptrace", traced);
  const long pidfd = syscall(434, gate, 0);
  try_one("pidfd_open", pidfd >= 0);
  for (const int signal : {0, SIGCONT}) {
    try_one("kill", kill(gate, signal) == 0);
    try_one("tgkill", syscall(SYS_tgkill, gate, gate, signal) == 0);
    try_one("tkill", syscall(SYS_tkill, gate, signal) == 0);
    try_one("kill of its group", kill(-getpgid(gate), signal) == 0);
  }
  return open_ones;
}

mxcheck_status run(const mxcheck_call* call) {
  static const std::string ways = open_ways();
  if (ways.empty()) return honest::run(call);
  std::snprintf(call->message, call->message_bytes, "open:%s", ways.c_str());
  return MXCHECK_FAILED;
}
}  // namespace

MXCHECK_ADVERSARY(run)
