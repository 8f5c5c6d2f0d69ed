// Our own launcher: ranks as processes of this program on this host, each in a process group of its own. A signal that
// asks for an end reaches the launcher alone, also that of a terminal, and the launcher hands it on once.

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/parallel/ranks.h"
#include "kernels/parallel/sockets.h"
#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/process/candidate_process.h"
#include "tools/common/end_signals.h"
#include "tools/parallel/parallel.h"

namespace mxcheck {
namespace {

constexpr int kCrashed = 6;
constexpr std::chrono::seconds kGrace{10};

// Signals that ask for an end while there is one: counted, to be handed on.
class SignalsForRanks {
 public:
  SignalsForRanks() {
    count() = 0;
    signals_.emplace([](int signal) { last() = signal, ++count(); });
  }

  static std::atomic<int>& last() {
    static std::atomic<int> signal = 0;
    return signal;
  }
  static std::atomic<int>& count() {
    static std::atomic<int> number = 0;
    return number;
  }

 private:
  std::optional<EndSignals> signals_;
};

struct Child {
  pid_t process = -1;
  int errors = -1;  // the other end of its standard error
  std::string text;
  int status = 0;
  bool ended = false;
};

std::vector<std::string> own_arguments() {
  std::vector<std::string> arguments;
  if (std::FILE* file = std::fopen("/proc/self/cmdline", "rb"); file != nullptr) {
    std::string all;
    std::array<char, 4096> buffer{};
    for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), file)) != 0;) all.append(buffer.data(), n);
    std::fclose(file);
    for (const std::string_view argument : split(all, '\0')) arguments.emplace_back(argument);
  }
  return arguments;
}

Child start(int rank, std::int64_t ranks, const mxcheck_kernels::parallel::Socket& listener,
            const std::vector<std::string>& arguments) {
  std::array<int, 2> pipe_ends{};
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) throw Error(ErrorKind::environment, "no pipe for a rank");
  const std::string program = own_executable();
  const std::vector<std::pair<const char*, std::string>> variables{{"RANK", std::to_string(rank)},
                                                                   {"WORLD_SIZE", std::to_string(ranks)},
                                                                   {"LOCAL_RANK", std::to_string(rank)},
                                                                   {"MASTER_ADDR", "127.0.0.1"},
                                                                   {"MASTER_PORT", std::to_string(port_of(listener))},
                                                                   {kListenerVariable, std::to_string(listener.fd())}};
  std::vector<char*> words;
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  Child child;
  child.process = fork();
  if (child.process < 0) throw Error(ErrorKind::environment, "no process for a rank");
  if (child.process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // no rank outlives its launcher
    setpgid(0, 0);
    for (const auto& [name, value] : variables) setenv(name, value.c_str(), 1);
    unsetenv("TORCHELASTIC_USE_AGENT_STORE");
    dup2(pipe_ends[1], STDERR_FILENO);
    if (rank == 0) fcntl(listener.fd(), F_SETFD, 0);
    execv(program.c_str(), words.data());
    _exit(spec(ErrorKind::environment).exit_code);
  }
  close(pipe_ends[1]);
  child.errors = pipe_ends[0];
  return child;
}

// Reads what the ranks complain about until all have ended; ends those that outlive a failed one or a signal for too
// long.
void wait_for(std::vector<Child>& children, const LaunchPatience& patience) {
  using Clock = std::chrono::steady_clock;
  auto deadline = Clock::time_point::max();
  for (int handed_on = 0;;) {
    if (const int count = SignalsForRanks::count(); handed_on != count) {
      handed_on = count;
      for (const Child& child : children) {
        if (!child.ended) kill(child.process, SignalsForRanks::last());
      }
      deadline = std::min(deadline, Clock::now() + patience.after_signal);
    }
    std::vector<pollfd> open;
    for (Child& child : children) {
      if (child.errors >= 0) open.push_back({child.errors, POLLIN, 0});
      int status = 0;
      if (!child.ended && waitpid(child.process, &status, WNOHANG) == child.process) {
        child.status = status, child.ended = true;
        const bool failed = !WIFEXITED(status) || WEXITSTATUS(status) > 1;
        if (failed && deadline == Clock::time_point::max()) deadline = Clock::now() + patience.after_failure + kGrace;
      }
    }
    bool all_ended = true;
    for (Child& child : children) {
      if (!child.ended && Clock::now() > deadline) kill(child.process, SIGKILL);
      all_ended = all_ended && child.ended;
    }
    if (all_ended && open.empty()) return;
    poll(open.data(), open.size(), 20);
    for (Child& child : children) {
      std::array<char, 4096> buffer{};
      for (const pollfd& p : open) {
        if (p.fd != child.errors || (p.revents & (POLLIN | POLLHUP)) == 0) continue;
        const ssize_t some = ::read(p.fd, buffer.data(), buffer.size());
        if (some > 0) child.text.append(buffer.data(), static_cast<std::size_t>(some));
        if (some == 0 || (some < 0 && errno != EINTR)) close(child.errors), child.errors = -1;
        break;
      }
    }
  }
}

// The part of a complaint that says what happened: ranks repeat what another one told them.
std::string core_of(std::string_view line) {
  const std::size_t told = line.rfind(" stopped: ");
  if (told != std::string_view::npos) line.remove_prefix(told + std::strlen(" stopped: "));
  constexpr std::string_view kPrefix = "mxcheck: error: ";
  if (line.starts_with(kPrefix)) line.remove_prefix(kPrefix.size());
  return std::string(line);
}

// After a signal to all, that ranks end is no complaint.
void print_complaints(const std::vector<Child>& children, bool was_signal) {
  std::vector<std::string> said;
  for (std::size_t r = 0; r < children.size(); ++r) {
    const Child& child = children[r];
    const bool ends_by_signal = WIFSIGNALED(child.status) && was_signal && WTERMSIG(child.status) != SIGKILL;
    if (ends_by_signal || (was_signal && WIFEXITED(child.status) && WEXITSTATUS(child.status) == kCrashed)) continue;
    if (child.ended && WIFSIGNALED(child.status)) {
      std::fprintf(stderr, "mxcheck: error: rank %zu was ended by signal %d (%s)\n", r, WTERMSIG(child.status),
                   strsignal(WTERMSIG(child.status)));
    }
    for (const std::string_view line : split(child.text, '\n')) {
      const std::string core = core_of(line);
      bool is_new = true;
      for (const std::string& before : said) is_new = is_new && before != core;
      if (!is_new) continue;
      said.push_back(core);
      std::fprintf(stderr, "%s\n", std::string(line).c_str());
    }
  }
}

}  // namespace

int launch_ranks(std::int64_t ranks, const LaunchPatience& patience) {
  mxcheck_kernels::parallel::Socket listener = mxcheck_kernels::parallel::listen_at(true, 0);
  const std::vector<std::string> arguments = own_arguments();
  std::fflush(stdout);
  const SignalsForRanks signals;
  std::vector<Child> children;
  for (int r = 0; r < ranks; ++r) children.push_back(start(r, ranks, listener, arguments));
  listener.close();
  wait_for(children, patience);
  const bool was_signal = SignalsForRanks::count() != 0;
  print_complaints(children, was_signal);
  // Refusals come first: ranks that only heard of another's end say 6.
  int code = 0;
  for (const Child& child : children) {
    const int of_child = WIFEXITED(child.status) ? WEXITSTATUS(child.status) : kCrashed;
    if (of_child != 0 && (code == 0 || code == kCrashed)) code = of_child;
  }
  if (was_signal && code == kCrashed) {
    const int signal = SignalsForRanks::last();
    std::fprintf(stderr, "mxcheck: signal %d (%s) ended the ranks\n", signal, strsignal(signal));
    return 128 + signal;
  }
  return code;
}

}  // namespace mxcheck
