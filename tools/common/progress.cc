#include "tools/common/progress.h"

#include <unistd.h>

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <utility>

namespace mxcheck {

Progress::Progress(std::string what)
    : what_(std::move(what)), begun_(std::chrono::steady_clock::now()), phase_begun_(begun_) {
  if (::isatty(STDERR_FILENO) == 1) thread_ = std::thread([this] { show(); });
}

Progress::~Progress() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void Progress::now(const std::string& what, double share) {
  const std::lock_guard lock(mutex_);
  if (what != what_) phase_begun_ = std::chrono::steady_clock::now();
  what_ = what;
  share_ = share;
  watched_ = nullptr;
}

void Progress::watch(const std::string& what, std::function<double()> share) {
  now(what);
  const std::lock_guard lock(mutex_);
  watched_ = std::move(share);
}

std::string Progress::line(std::chrono::steady_clock::time_point at) const {
  const auto seconds = [](std::chrono::steady_clock::duration d) { return std::chrono::duration<double>(d).count(); };
  const std::string text = "mxcheck: " + what_;
  const double share = watched_ ? watched_() : share_;
  if (!(share >= 0)) return fmt::format("{}, {:.0f} s", text, seconds(at - begun_));
  const std::string done = fmt::format("{}: {:.0f} %, {:.0f} s", text, std::floor(100 * share), seconds(at - begun_));
  if (share == 0) return done;
  return fmt::format("{}, {:.0f} s left", done, seconds(at - phase_begun_) / share * (1 - share));
}

void Progress::show() {
  using std::chrono::seconds;
  std::unique_lock lock(mutex_);
  std::size_t shown = 0;
  for (seconds wait(2);; wait = seconds(1)) {
    if (ended_.wait_for(lock, wait, [this] { return end_; })) break;
    const std::string text = line(std::chrono::steady_clock::now());
    // Blanks first: a shorter phase must not leave the end of a longer one.
    std::fprintf(stderr, "\r%*s\r%s", static_cast<int>(shown), "", text.c_str());
    shown = text.size();
  }
  if (shown > 0) std::fprintf(stderr, "\r%*s\r", static_cast<int>(shown), "");
}

}  // namespace mxcheck
