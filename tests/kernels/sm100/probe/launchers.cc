#include "tests/kernels/sm100/probe/program.h"

#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <thread>

#include "tests/kernels/sm100/probe/probes.h"

namespace mxcheck::sm100::probe {

// --- a process of its own

namespace {

// A mapping that both processes see.
class Shared {
 public:
  explicit Shared(std::size_t bytes)
      : bytes_(bytes), at_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
  ~Shared() {
    if (ok()) munmap(at_, bytes_);
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  [[nodiscard]] bool ok() const { return at_ != MAP_FAILED; }
  [[nodiscard]] Left& left() const { return *static_cast<Left*>(at_); }
  [[nodiscard]] std::uint32_t* words() const {
    return reinterpret_cast<std::uint32_t*>(static_cast<char*>(at_) + sizeof(Left));
  }

 private:
  std::size_t bytes_;
  void* at_;
};

// Until `child` has ended, or the time is over.
bool ends_within(pid_t child, std::chrono::milliseconds time, int& status) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace

void leave(Left& left, Outcome::State state, const std::string& text) {
  left.state = state;
  std::snprintf(left.text, sizeof(left.text), "%s", text.c_str());
}

Outcome in_a_child(std::chrono::milliseconds limit, std::size_t words,
                   const std::function<void(Left&, std::uint32_t*)>& work) {
  Outcome outcome;
  const Shared shared(sizeof(Left) + 4 * words);
  if (!shared.ok()) {
    outcome.text = "no memory to share with a child process";
    return outcome;
  }
  leave(shared.left(), Outcome::State::failed, "the child process left nothing");
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) {
    outcome.text = "fork failed";
    return outcome;
  }
  if (child == 0) {
    // Nothing may unwind into what is the parent's.
    try {
      work(shared.left(), shared.words());
    } catch (const std::exception& error) {
      leave(shared.left(), Outcome::State::failed, error.what());
    }
    _exit(0);
  }
  int status = 0;
  if (!ends_within(child, limit, status)) {
    kill(child, SIGKILL);
    // A process that the driver does not let go is left behind: the next launch says what that means.
    const bool dead = ends_within(child, std::chrono::seconds(20), status);
    outcome.state = Outcome::State::hung;
    outcome.text = "no end within " + std::to_string(limit.count()) + " ms" + (dead ? "" : ", and it cannot be killed");
    return outcome;
  }
  outcome.state = shared.left().state, outcome.text = shared.left().text;
  if (WIFSIGNALED(status)) {
    outcome.state = Outcome::State::failed;
    outcome.text = "the child process ended by signal " + std::to_string(WTERMSIG(status));
  }
  if (outcome.state == Outcome::State::ran) outcome.out.assign(shared.words(), shared.words() + words);
  return outcome;
}

// --- on the CPU

Outcome EmulatedLauncher::run(const Launch& launch) {
  Outcome outcome{.state = Outcome::State::ran, .text = "", .out = std::vector<std::uint32_t>(launch.out_words)};
  std::vector<std::uint32_t> image(launch.image.size() / 4);
  if (!image.empty()) std::memcpy(image.data(), launch.image.data(), launch.image.size());
  Arguments arguments = launch.arguments;
  arguments.image = image.data();
  arguments.image_bytes = static_cast<std::uint32_t>(launch.image.size() / launch.cluster);
  arguments.words = launch.words.data(), arguments.out = outcome.out.data();
  const emulation::sm100::LaunchResult result = emulation::sm100::launch(
      {.blocks = launch.blocks, .threads = kThreads, .cluster = launch.cluster, .shared_bytes = launch.shared_bytes},
      options_, [&] { launch.kernel(arguments); });
  if (!result.completed) outcome.out.clear();
  if (result.findings.empty() && result.completed) return outcome;
  outcome.state = Outcome::State::refused;
  outcome.text = result.findings.empty() ? "it did not come to its end" : text_of(result.findings.front());
  if (result.findings.size() > 1) outcome.text += ", and " + std::to_string(result.findings.size() - 1) + " more";
  return outcome;
}

std::vector<Probe> emulated_probes() { return probes(); }

}  // namespace mxcheck::sm100::probe
