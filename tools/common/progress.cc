#include "tools/common/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace mxcheck {
namespace {

bool is_set(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

// Columns of the terminal; 80 where it does not say.
std::size_t columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

std::string in_units(double rate) { return rate < 10 ? fmt::format("{:.1f}", rate) : fmt::format("{:.0f}", rate); }

std::string time_text(double seconds) {
  const auto s = static_cast<std::int64_t>(std::llround(std::min(seconds, 1e9)));
  if (s < 120) return fmt::format("{} s", s);
  return s < 7200 ? fmt::format("{} min {:02} s", s / 60, s % 60)
                  : fmt::format("{} h {:02} min", s / 3600, s / 60 % 60);
}

}  // namespace

bool shows_colours(int descriptor) {
  const char* const terminal = std::getenv("TERM");
  const bool dumb = terminal != nullptr && std::strcmp(terminal, "dumb") == 0;
  return ::isatty(descriptor) == 1 && !is_set("NO_COLOR") && !dumb;
}

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
  const bool goes_on = share_ >= 0 && share >= share_;
  if (!goes_on && (what != what_ || (share >= 0 && share < share_))) {
    unit_.clear(), left_ = nullptr;
    phase_begun_ = std::chrono::steady_clock::now();
    first_share_ = std::max(share, 0.0);
  }
  what_ = what;
  share_ = share;
  watched_ = nullptr;
}

void Progress::watch(const std::string& what, std::function<double()> share) {
  now(what);
  const std::lock_guard lock(mutex_);
  watched_ = std::move(share);
}

void Progress::rate(const std::string& unit, double whole, std::function<double()> amount) {
  const std::lock_guard lock(mutex_);
  unit_ = unit;
  whole_ = whole;
  amount_ = std::move(amount);
}

void Progress::time_left(std::function<double()> seconds) {
  const std::lock_guard lock(mutex_);
  left_ = std::move(seconds);
}

void Progress::above(const std::function<void()>& write) {
  const std::lock_guard lock(mutex_);
  clear();
  write();
}

void Progress::clear() {
  if (shown_ > 0) std::fprintf(stderr, "\r%*s\r", static_cast<int>(shown_), "");
  shown_ = 0;
}

// The numbers are what the line is for: where it is too long, the end of the text before them is left out.
std::string Progress::line(std::chrono::steady_clock::time_point at, std::size_t most) const {
  constexpr std::string_view kProgram = "mxcheck: ", kLeftOut = "...";
  const std::string figures = this->figures(at);
  std::string text = what_;
  const std::size_t room = most - std::min(most, kProgram.size() + figures.size());
  if (text.size() > room) text = text.substr(0, room - std::min(room, kLeftOut.size())) + std::string(kLeftOut);
  return (std::string(kProgram) + text + figures).substr(0, most);
}

std::string Progress::figures(std::chrono::steady_clock::time_point at) const {
  const auto seconds = [](std::chrono::steady_clock::duration d) { return std::chrono::duration<double>(d).count(); };
  const double share = watched_ ? watched_() : share_;
  if (!(share >= 0)) return ", " + time_text(seconds(at - begun_));
  std::string done = fmt::format(": {:.0f} %, {}", std::floor(100 * share), time_text(seconds(at - begun_)));
  const double passed = std::max(seconds(at - phase_begun_), 1e-3), grown = std::max(share - first_share_, 0.0);
  if (!unit_.empty()) {
    const double amount = amount_ ? amount_() : whole_ * grown;
    done += fmt::format(", {} {} a second", in_units(amount / passed), unit_);
  }
  if (left_) return fmt::format("{}, {} left", done, time_text(left_()));
  if (grown <= 0) return done;
  const double whole_takes = passed / grown;
  return fmt::format("{}, {} left", done, time_text(whole_takes * (1 - share)));
}

void Progress::show() {
  using std::chrono::seconds;
  std::unique_lock lock(mutex_);
  for (seconds wait(2);; wait = seconds(1)) {
    if (ended_.wait_for(lock, wait, [this] { return end_; })) break;
    // A line that wraps could not be cleared.
    const std::string text = line(std::chrono::steady_clock::now(), columns() - 1);
    clear();  // a shorter phase must not leave the end of a longer one
    std::fputs(text.c_str(), stderr);
    std::fflush(stderr);
    shown_ = text.size();
  }
  clear();
}

}  // namespace mxcheck
