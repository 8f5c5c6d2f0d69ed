#include "tools/common/progress.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

namespace mxcheck {

Progress::Progress(std::string what) : what_(std::move(what)) {
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

void Progress::now(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
}

void Progress::show() {
  using std::chrono::seconds;
  std::unique_lock lock(mutex_);
  int shown = 0;
  for (seconds wait(2), total(0);; wait = seconds(1)) {
    if (ended_.wait_for(lock, wait, [this] { return end_; })) break;
    total += wait;
    std::fprintf(stderr, "\r%*s", shown, "");  // a shorter phase must not leave the end of a longer one
    shown = std::fprintf(stderr, "\rmxcheck: %s, %lld s", what_.c_str(), static_cast<long long>(total.count()));
  }
  if (shown > 0) std::fprintf(stderr, "\r%*s\r", shown, "");
}

}  // namespace mxcheck
