#pragma once
// Shows on one line of standard error what the program is doing and for how long. The line appears after two seconds,
// and only if standard error is a terminal. It disappears with the object.
//
//   progress.now("quantizing 4096 x 4096", 0.25);   // mxcheck: quantizing 4096 x 4096: 25 %, 3 s, 9 s left
//   progress.rate("M elements", 16.8);              // ...: 25 %, 3 s, 1.4 M elements a second, 9 s left

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace mxcheck {

// True if the descriptor is a terminal with colours and the user has not refused them (https://no-color.org).
bool shows_colours(int descriptor);

class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  // Begins a phase, or goes on with it: another text with a share that has not become smaller is the same phase. The
  // clock that is shown runs on. share: the part that is done, 0 to 1; negative: not known. The time left is the time
  // that the rest takes at the phase's rate so far.
  void now(const std::string& what, double share = -1);
  // The same, but the line asks for the share each time it is shown, until the next phase or the end.
  void watch(const std::string& what, std::function<double()> share);
  // Also shows a rate: `amount` by the seconds of the phase, or, without it, `whole` times the share.
  void rate(const std::string& unit, double whole, std::function<double()> amount = {});
  // Shows these seconds as the time left, in place of what the share and the time so far give, until the next phase.
  void time_left(std::function<double()> seconds);
  // Writes to the same terminal, in a line of its own: the shown line makes room.
  void above(const std::function<void()>& write);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  friend struct ProgressPeek;  // of its test
  void show();
  void clear();

  [[nodiscard]] std::string line(std::chrono::steady_clock::time_point at, std::size_t most) const;
  [[nodiscard]] std::string figures(std::chrono::steady_clock::time_point at) const;  // share, time, rate, time left

  std::string what_;
  double share_ = -1;
  double first_share_ = 0;  // with which the phase began
  std::function<double()> watched_;
  std::string unit_;  // empty: no rate is known
  double whole_ = 0;
  std::function<double()> amount_;
  std::function<double()> left_;
  std::size_t shown_ = 0;  // columns
  std::chrono::steady_clock::time_point begun_, phase_begun_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace mxcheck
