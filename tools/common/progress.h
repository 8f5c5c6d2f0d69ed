#pragma once
// A line on standard error that says what is being done and for how long, from the second second on, when standard
// error is a terminal; nothing otherwise. Gone when the object is.

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace mxcheck {

class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  void now(std::string what);  // the next phase; the clock runs on
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  void show();

  std::string what_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace mxcheck
