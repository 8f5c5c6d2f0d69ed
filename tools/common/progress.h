#pragma once
// A line on standard error that says what is being done and for how long, from the second second on, when standard
// error is a terminal; nothing otherwise. Gone when the object is.
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

// A terminal that takes colours, and nobody who wants none: https://no-color.org.
bool shows_colours(int descriptor);

class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  // The next phase; the clock runs on. `share`: how much of it is done, 0 to 1, negative where that is not known. What
  // is left is what the rest would take at the phase's rate so far. Another text with a share that has not become
  // smaller is the same phase.
  void now(const std::string& what, double share = -1);
  // The same with a share that is asked for whenever it is shown, until the next phase or the end.
  void watch(const std::string& what, std::function<double()> share);
  // Says how much a second, too: the phase's whole times its share, or the amount that is asked for.
  void rate(const std::string& unit, double whole, std::function<double()> amount = {});
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
  std::size_t shown_ = 0;  // columns
  std::chrono::steady_clock::time_point begun_, phase_begun_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace mxcheck
