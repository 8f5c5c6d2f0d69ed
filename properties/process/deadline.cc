#include "properties/process/deadline.h"

#include <dirent.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>

namespace mxcheck {
namespace {

// CPU time of all threads of a process; 0 of one that has ended.
std::chrono::nanoseconds processor_time(pid_t process) {
  clockid_t clock{};
  timespec used{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &used) != 0) return {};
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

// The state is the letter behind the name, which ends at the last parenthesis: "17 (python3) R 1 ...".
bool is_runnable(const std::string& stat_path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(stat_path.c_str(), "re"), std::fclose);
  char line[512] = {};
  if (file == nullptr || std::fgets(line, sizeof(line), file.get()) == nullptr) return false;
  const char* const end = std::strrchr(line, ')');
  return end != nullptr && std::strncmp(end, ") R", 3) == 0;
}

bool has_runnable_thread(pid_t process) {
  const std::string threads = "/proc/" + std::to_string(process) + "/task";
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(threads.c_str()), closedir);
  if (folder == nullptr) return false;
  while (const dirent* entry = readdir(folder.get())) {
    if (entry->d_name[0] != '.' && is_runnable(threads + "/" + entry->d_name + "/stat")) return true;
  }
  return false;
}

}  // namespace

Deadline::Deadline(pid_t process, std::chrono::milliseconds limit)
    : process_(process),
      used_at_look_(processor_time(process)),
      end_(seen_ + limit),
      last_end_(seen_ + kMostTimes * limit) {}

std::chrono::milliseconds Deadline::left() {
  constexpr std::chrono::milliseconds kBetweenLooks{50};
  const Clock::time_point now = Clock::now();
  const Clock::duration since = now - seen_;
  if (since >= kBetweenLooks) {
    const std::chrono::nanoseconds used = processor_time(process_);
    const Clock::duration ran = used - used_at_look_;
    if (ran < since && has_runnable_thread(process_)) end_ = std::min(end_ + (since - ran), last_end_);
    seen_ = now, used_at_look_ = used;
  }
  return std::chrono::duration_cast<std::chrono::milliseconds>(end_ - now);
}

}  // namespace mxcheck
