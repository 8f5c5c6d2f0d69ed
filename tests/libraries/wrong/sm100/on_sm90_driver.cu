// One tile of the Blackwell GEMM on a Hopper card, built with or without a fault, under one schedule after the other
// until one sees it. The programs and what is made of their lines: on_sm90.py.
//
//   sm100_fault_NAME [--all | --schedule N] [--text]
//   NAME <tab> seen by <tab> schedule <tab> seconds
//
// "seen by" is driver.cc's, and `stopped` for a kernel that CUDA ended and that nothing was found in; `hang`, a
// schedule that took longer than kChildSeconds; `failed`, a run that says nothing about the kernel: no Hopper card, or
// the program itself ended early. --all: every schedule, a line each. --schedule N: that one alone, of 0 (eager), 1
// (lazy), 2 to 4 (random 1 to 3). --text: what was found, to stderr. Exit code 0: the line says what the kernel does;
// 1: `failed`; 2: wrong arguments; 3: `failed`, for want of a card.
//
// A kernel that is stopped takes the CUDA context of its process along: each schedule has a process of its own, and the
// parent never calls CUDA, which does not survive a fork.
//
// FAULT, TILE (tile.h) and CASES (dense, rows, depth, tall, gathered) are macros.

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "kernels/sm100/gemm/on_sm90/run_tile.cuh"
#include "tests/libraries/wrong/sm100/cases.h"

namespace mxcheck::sm100::gemm {
namespace {

using emulation::sm100::LaunchOptions;

constexpr unsigned kChildSeconds = 15;  // CUDA's start takes most of what a schedule needs, some seconds at worst
enum Exit { kSays = 0, kFailed = 1, kUsage = 2, kNoCard = 3 };

std::vector<LaunchOptions> schedules() {
  using S = emulation::sm100::Schedule;
  constexpr std::uint64_t kLimitNs = 300'000'000;  // a deadlock takes that long
  std::vector<LaunchOptions> all;
  for (const S s : {S::eager, S::lazy}) all.push_back({.schedule = s, .limit_ns = kLimitNs});
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    all.push_back({.schedule = S::random, .seed = seed, .limit_ns = kLimitNs});
  }
  return all;
}

struct Line {
  std::string seen;
  int exit = kSays;
};

// In this process, which has CUDA from here on.
Line run_here(const LaunchOptions& o, bool text) {
  if (const std::string refusal = emulation::on_sm90::card_refusal(); !refusal.empty()) {
    std::fprintf(stderr, "%s: %s\n", FAULT, refusal.c_str());
    return {"failed", kNoCard};
  }
  try {
    const Case c = cases();
    const Outcome outcome = compare(c, {TILE::kCtaGroup, TILE::kN, units_of(c)}, o);
    std::string seen = seen_by(outcome);
    if (seen.empty() && !outcome.emulated.result.completed) seen = "stopped";
    if (text && !seen.empty()) std::fprintf(stderr, "%s, %s:%s\n", FAULT, name_of(o).c_str(), text_of(outcome).c_str());
    return {seen, kSays};
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s, %s: %s\n", FAULT, name_of(o).c_str(), error.what());
    return {"failed", kFailed};
  }
}

std::string read_all(int pipe) {
  std::string all;
  char buffer[256];
  for (ssize_t n = 0; (n = read(pipe, buffer, sizeof buffer)) > 0;) all.append(buffer, static_cast<std::size_t>(n));
  return all;
}

Line run_in_child(const LaunchOptions& o, bool text) {
  int ends[2];
  if (pipe(ends) != 0) return {"failed", kFailed};
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    std::perror("fork");
    close(ends[0]);
    close(ends[1]);
    return {"failed", kFailed};
  }
  if (child == 0) {
    close(ends[0]);
    // Nobody else ends a kernel that hangs: not the parent once it is killed, and not this process once it waits.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(kFailed);
    alarm(kChildSeconds);
    const Line line = run_here(o, text);
    const std::string whole = line.seen + "\n";  // so that nothing seen is not nothing said
    const bool written = ::write(ends[1], whole.data(), whole.size()) == static_cast<ssize_t>(whole.size());
    _exit(written ? line.exit : kFailed);  // not exit: CUDA has nothing to tidy up after a kernel that was stopped
  }
  close(ends[1]);
  std::string seen = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  if (waitpid(child, &status, 0) != child) return {"failed", kFailed};
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) return {"hang", kSays};
  if (WIFSIGNALED(status)) std::fprintf(stderr, "%s, %s: %s\n", FAULT, name_of(o).c_str(), strsignal(WTERMSIG(status)));
  if (!WIFEXITED(status) || !seen.ends_with('\n')) return {"failed", kFailed};
  seen.pop_back();
  return {seen, WEXITSTATUS(status)};
}

// `only`: a schedule's number, or -1.
int run(int only, bool every, bool text) {
  const auto start = std::chrono::steady_clock::now();
  const auto print = [&](const std::string& seen, const std::string& schedule) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf("%s\t%s\t%s\t%.1f\n", FAULT, seen.empty() ? "-" : seen.c_str(), schedule.c_str(), seconds.count());
    std::fflush(stdout);
  };
  const std::vector<LaunchOptions> all = schedules();
  for (int i = 0; i < static_cast<int>(all.size()); ++i) {
    if (only >= 0 && i != only) continue;
    const LaunchOptions& o = all[static_cast<std::size_t>(i)];
    const Line line = run_in_child(o, text);
    const bool over = line.exit != kSays || (!every && !line.seen.empty());
    if (every || over) print(line.seen, name_of(o));
    if (over) return line.exit;
  }
  if (!every) print("", "-");
  return kSays;
}

}  // namespace

// For this tile and grouping alone. What was written around D has the name that it has on the CPU.
Emulated run_emulated(const Problem& problem, const Variant& variant, const LaunchOptions& options) {
  Emulated out = run_grouping<TILE, kCasesGrouping>(problem, variant.units, options);
  std::erase_if(out.result.findings, [&](const emulation::sm100::Finding& f) {
    if (f.instruction != "st.global") return false;
    out.error = kOutside + f.what;
    return true;
  });
  return out;
}

}  // namespace mxcheck::sm100::gemm

int main(int argc, char** argv) {
  int only = -1;
  bool every = false;
  bool text = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--all") {
      every = true;
    } else if (argument == "--text") {
      text = true;
    } else if (argument == "--schedule" && i + 1 < argc && std::strlen(argv[i + 1]) == 1 && argv[i + 1][0] >= '0' &&
               argv[i + 1][0] <= '4') {
      only = argv[++i][0] - '0';
    } else {
      std::fprintf(stderr, "usage: %s [--all | --schedule 0..4] [--text], not '%s'\n", argv[0], argument.c_str());
      return mxcheck::sm100::gemm::kUsage;
    }
  }
  return mxcheck::sm100::gemm::run(only, every || only >= 0, text);
}
