#include "properties/process/confine.h"

#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <vector>

namespace mxcheck {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t kArchitecture = 0;  // no filter
#endif

// Since Linux 5.1, 5.3 and 5.6, the same number everywhere; older headers lack them.
constexpr long kPidfdSendSignal = 424;
constexpr long kPidfdOpen = 434;
constexpr long kPidfdGetfd = 438;

constexpr std::uint32_t kDeny = SECCOMP_RET_ERRNO | EPERM;
constexpr std::uint32_t kNegative = 0x8000'0000U;  // of an int

// A program of classic BPF over seccomp_data.
class Filter {
 public:
  void load(std::size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset)); }
  void load_number() { load(offsetof(seccomp_data, nr)); }
  void load_first_argument() { load(offsetof(seccomp_data, args)); }  // its low half: pids are int
  void end(std::uint32_t result) { add(BPF_RET | BPF_K, result); }
  void end_if_equal(std::uint32_t value, std::uint32_t result) {
    add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
    end(result);
  }
  void end_if_at_least(std::uint32_t value, std::uint32_t result) {
    add(BPF_JMP | BPF_JGE | BPF_K, value, 0, 1);
    end(result);
  }
  void deny(long call) { end_if_equal(static_cast<std::uint32_t>(call), kDeny); }
  // Of this call, what `rules` says of the first argument; it ends with a result.
  template <class Rules>
  void on(long call, const Rules& rules) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 0);
    const std::size_t jump = code_.size() - 1;
    load_first_argument();
    rules();
    code_[jump].jf = static_cast<std::uint8_t>(code_.size() - jump - 1);
  }
  bool install() {
    const sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  }

 private:
  void add(int code, std::uint32_t k, std::uint8_t jt = 0, std::uint8_t jf = 0) {
    code_.push_back({static_cast<std::uint16_t>(code), jt, jf, k});
  }
  std::vector<sock_filter> code_;
};

bool filter_system_calls(pid_t gate) {
  if (kArchitecture == 0) return false;
  const auto of_gate = static_cast<std::uint32_t>(gate);
  const auto own_group = static_cast<std::uint32_t>(-getpid());  // the child leads its group
  Filter f;
  f.load(offsetof(seccomp_data, arch));
  f.end_if_equal(AUDIT_ARCH_I386, kDeny);  // the numbers below are not those of another architecture
  f.load_number();
#if defined(__x86_64__)
  f.end_if_at_least(0x4000'0000U, kDeny);  // x32
#endif
  for (const long call : {long{SYS_ptrace}, long{SYS_process_vm_readv}, long{SYS_process_vm_writev}, long{SYS_kcmp},
                          long{SYS_perf_event_open}, long{SYS_bpf}, kPidfdSendSignal, kPidfdOpen, kPidfdGetfd}) {
    f.deny(call);
  }
  f.on(SYS_kill, [&] {
    f.end_if_equal(of_gate, kDeny);
    f.end_if_equal(own_group, SECCOMP_RET_ALLOW);
    f.end_if_at_least(kNegative, kDeny);
    f.end(SECCOMP_RET_ALLOW);
  });
  for (const int call : {SYS_tkill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_prlimit64}) {
    f.on(call, [&] {
      f.end_if_equal(of_gate, kDeny);
      f.end_if_at_least(kNegative, kDeny);
      f.end(SECCOMP_RET_ALLOW);
    });
  }
  f.end(SECCOMP_RET_ALLOW);
  return f.install();
}

bool drop_capabilities() {
  constexpr std::uint32_t kKept = 1U << CAP_DAC_READ_SEARCH;
  for (unsigned long one = 0; one < 64; ++one) {
    if (one != CAP_DAC_READ_SEARCH) prctl(PR_CAPBSET_DROP, one, 0, 0, 0);  // only the privileged can, or need to
  }
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  data[0].effective &= kKept, data[0].permitted &= kKept, data[0].inheritable = 0;
  data[1] = {};
  return syscall(SYS_capset, &header, data) == 0;
}

}  // namespace

std::string confine(pid_t gate) {
  std::string missing;
  const auto expect = [&](bool done, const char* what) {
    if (!done) missing += (missing.empty() ? "" : ", ") + std::string(what);
  };
  expect(drop_capabilities(), "capabilities dropped");
  expect(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
  expect(filter_system_calls(gate), "filter of system calls");
  return missing;
}

namespace {
std::mutex dumpable_mutex;
int undumpable = 0;
int dumpable_before = 1;
}  // namespace

Undumpable::Undumpable() {
  const std::lock_guard lock(dumpable_mutex);
  if (undumpable++ != 0) return;
  dumpable_before = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

Undumpable::~Undumpable() {
  const std::lock_guard lock(dumpable_mutex);
  if (--undumpable == 0 && dumpable_before == 1) prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

void rename_process(int argc, char** argv) {
  constexpr const char* kName = "python3";
  prctl(PR_SET_NAME, kName);
  char* const end = argv[argc - 1] + std::strlen(argv[argc - 1]);
  std::memset(argv[0], 0, static_cast<std::size_t>(end - argv[0]));  // they lie one after the other
  if (end - argv[0] > 7) std::memcpy(argv[0], kName, 7);
}

}  // namespace mxcheck
