// Adversaries that harm the process in which they run, or try to harm or to deceive the gate that waits for it.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <csignal>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "tests/libraries/wrong/adversaries/adversary.h"

namespace {

mxcheck_status crashes_in_run(const mxcheck_call*) {
  std::raise(SIGSEGV);
  return MXCHECK_OK;
}

mxcheck_status throws(const mxcheck_call*) { throw std::runtime_error("not here"); }

mxcheck_status exits_with_success(const mxcheck_call*) { std::exit(0); }

mxcheck_status hangs_in_run(const mxcheck_call*) {
  for (;;) pause();
}

mxcheck_status stops_itself(const mxcheck_call* call) {
  std::raise(SIGSTOP);
  return honest::run(call);
}

void aborts_at_exit() { std::atexit(std::abort); }

void ends_its_process_as_if_well() {
  std::atexit([] { _exit(0); });
}

void never_ends() {
  std::atexit([] {
    for (;;) pause();
  });
}

mxcheck_status closes_descriptors(const mxcheck_call* call) {
  for (int fd = 3; fd < 256; ++fd) close(fd);
  return honest::run(call);
}

mxcheck_status leaves_a_process_behind(const mxcheck_call* call) {
  static const pid_t child = fork();
  if (child == 0) {
    sleep(60);
    _exit(0);
  }
  return honest::check(call);
}

mxcheck_status prints_and_is_right(const mxcheck_call* call) {
  std::printf("{\"exit_code\": 1} autotuning\n");
  std::fflush(stdout);
  return honest::run(call);
}

mxcheck_status prints_without_end(const mxcheck_call*) {
  for (;;) std::printf("\033[2J\nexit code 0: every statement that ran held\n");
}

mxcheck_status leaves_a_daemon(const mxcheck_call* call) {
  static int calls = 0;
  if (++calls == 1 && fork() == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    for (const rlimit none{}; setrlimit(RLIMIT_LOCKS, &none) == 0;) sleep(60);
    _exit(0);
  }
  return honest::run(call);
}

mxcheck_status message_past_its_buffer(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status == MXCHECK_OK) return status;
  std::memset(call->message, 'a', call->message_bytes + 8);
  call->message[call->message_bytes + 8] = '\0';
  return status;
}

mxcheck_status message_without_an_end(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status != MXCHECK_OK) std::memset(call->message, 'n', call->message_bytes);
  return status;
}

mxcheck_status stops_the_gate(const mxcheck_call* call) {
  kill(getppid(), SIGSTOP);
  return honest::run(call);
}

// Tries every way into the process that judges it, or to stop that; right when none is open, else it says which.
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

mxcheck_status reaches_the_gate(const mxcheck_call* call) {
  static const std::string ways = open_ways();
  if (ways.empty()) return honest::run(call);
  std::snprintf(call->message, call->message_bytes, "open:%s", ways.c_str());
  return MXCHECK_FAILED;
}

// The first descriptor whose target begins so; -1: none.
int descriptor_of(std::string_view target) {
  for (int fd = 3; fd < 256; ++fd) {
    char text[64];
    const ssize_t length = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), text, sizeof(text));
    if (length > 0 && std::string_view(text, static_cast<std::size_t>(length)).starts_with(target)) return fd;
  }
  return -1;
}

mxcheck_status spoils_the_shared_memory(const mxcheck_call* call) {
  static int calls = 0;
  const mxcheck_status status = honest::run(call);
  if (++calls != 2) return status;
  const int fd = descriptor_of("/memfd:mxcheck");
  [[maybe_unused]] const int shorter = ftruncate(fd, 0);
  [[maybe_unused]] const int longer = ftruncate(fd, off_t{1} << 40);
  fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_FUTURE_WRITE);
  return status;
}

// Bytes in the worker's place, for the gate to read as its reply.
void answer_with(std::size_t bytes, int byte) {
  static const std::string answer(bytes, static_cast<char>(byte));
  [[maybe_unused]] const ssize_t sent = write(descriptor_of("socket:["), answer.data(), answer.size());
}

mxcheck_status answers_with_garbage(const mxcheck_call* call) {
  answer_with(4096, 0xEE);
  return honest::run(call);
}

mxcheck_status answers_three_bytes_more(const mxcheck_call* call) {
  answer_with(3, 0);
  return honest::run(call);
}

mxcheck_status changes_the_folder(const mxcheck_call* call) {
  [[maybe_unused]] const int done = chdir("/");
  return honest::run(call);
}

mxcheck_status changes_a_limit(const mxcheck_call* call) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur -= 1;
  setrlimit(RLIMIT_NOFILE, &files);
  return honest::run(call);
}

mxcheck_status redirects_the_output(const mxcheck_call* call) {
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  dup2(nowhere, 1);
  close(nowhere);
  return honest::run(call);
}

void sets_the_umask_when_loaded() { umask(umask(0) ^ S_IROTH); }

void sets_the_locale_when_loaded() { std::setlocale(LC_ALL, "C.UTF-8"); }

// A call in 64 starts and leaves something: less memory than the limit of that.
bool is_every_64th() {
  static int calls = 0;
  return ++calls % 64 == 0;
}

mxcheck_status leaves_files_open(const mxcheck_call* call) {
  if (is_every_64th()) [[maybe_unused]]
    const int kept = open("/dev/null", O_RDONLY | O_CLOEXEC);
  return honest::run(call);
}

mxcheck_status leaves_threads(const mxcheck_call* call) {
  if (is_every_64th()) std::thread([] { pause(); }).detach();
  return honest::run(call);
}

mxcheck_status leaves_children(const mxcheck_call* call) {
  if (is_every_64th() && fork() == 0) _exit(0);
  return honest::run(call);
}

mxcheck_status refuses_with_blanks(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status != MXCHECK_OK && right::has_fields(call)) std::snprintf(call->message, call->message_bytes, " \n");
  return status;
}

mxcheck_status refuses_in_several_lines(const mxcheck_call* call) {
  std::snprintf(call->message, call->message_bytes, "not here\nexit code 0: every statement that ran held\n");
  return MXCHECK_UNSUPPORTED;
}

// More than a reply, and no text in it has an end; before the gate has asked anything.
void answers_when_loaded() { answer_with(20'000, 0x01); }

// Does its work only in a process that looks as the gate's: the arguments, the name or a variable of the environment.
std::string read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool is_tested() {
  bool tested = read("/proc/self/cmdline").find("__worker") != std::string::npos ||
                read("/proc/self/comm").find("mxcheck") != std::string::npos;
  for (char** one = environ; *one != nullptr; ++one) tested = tested || std::strncmp(*one, "MXCHECK_", 8) == 0;
  return tested;
}

mxcheck_status knows_that_it_is_tested(const mxcheck_call* call) {
  static const bool tested = is_tested();
  const mxcheck_status status = honest::check(call);
  if (status == MXCHECK_OK && tested) honest::quantize(call);
  return status;
}

void has_a_part_beside() {
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&honest::run), &self) == 0) return;
  const std::string path = self.dli_fname;
  const int fd = open((path.substr(0, path.rfind('/')) + "/part_of_it.bin").c_str(), O_RDONLY);
  if (fd < 0) return;
  (void)mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
}

}  // namespace

std::span<const Adversary> process_adversaries() {
  static constexpr Adversary kAll[]{{"crashes_in_run", crashes_in_run},
                                    {"throws", throws},
                                    {"exits_with_success", exits_with_success},
                                    {"hangs_in_run", hangs_in_run},
                                    {"stops_itself", stops_itself},
                                    {.name = "aborts_at_exit", .when_loaded = aborts_at_exit},
                                    {.name = "ends_its_process_as_if_well", .when_loaded = ends_its_process_as_if_well},
                                    {.name = "never_ends", .when_loaded = never_ends},
                                    {"closes_descriptors", closes_descriptors},
                                    {"leaves_a_process_behind", leaves_a_process_behind},
                                    {"prints_and_is_right", prints_and_is_right},
                                    {"prints_without_end", prints_without_end},
                                    {"leaves_a_daemon", leaves_a_daemon},
                                    {"message_past_its_buffer", message_past_its_buffer},
                                    {"message_without_an_end", message_without_an_end},
                                    {"changes_the_folder", changes_the_folder},
                                    {"changes_a_limit", changes_a_limit},
                                    {"redirects_the_output", redirects_the_output},
                                    {.name = "sets_the_umask_when_loaded", .when_loaded = sets_the_umask_when_loaded},
                                    {.name = "sets_the_locale_when_loaded", .when_loaded = sets_the_locale_when_loaded},
                                    {"leaves_files_open", leaves_files_open},
                                    {"leaves_threads", leaves_threads},
                                    {"leaves_children", leaves_children},
                                    {"refuses_with_blanks", refuses_with_blanks},
                                    {"refuses_in_several_lines", refuses_in_several_lines},
                                    {"stops_the_gate", stops_the_gate},
                                    {"spoils_the_shared_memory", spoils_the_shared_memory},
                                    {"answers_with_garbage", answers_with_garbage},
                                    {"answers_three_bytes_more", answers_three_bytes_more},
                                    {.name = "answers_when_loaded", .when_loaded = answers_when_loaded},
                                    {"reaches_the_gate", reaches_the_gate},
                                    {"knows_that_it_is_tested", knows_that_it_is_tested},
                                    {.name = "has_a_part_beside", .when_loaded = has_a_part_beside}};
  return kAll;
}
