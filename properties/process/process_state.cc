#include "properties/process/process_state.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <clocale>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <system_error>

namespace mxcheck {
namespace {

struct NamedLimit {
  int number;
  const char* name;
};
constexpr std::array<NamedLimit, RLIM_NLIMITS> kLimits{{{RLIMIT_CPU, "RLIMIT_CPU"},
                                                        {RLIMIT_FSIZE, "RLIMIT_FSIZE"},
                                                        {RLIMIT_DATA, "RLIMIT_DATA"},
                                                        {RLIMIT_STACK, "RLIMIT_STACK"},
                                                        {RLIMIT_CORE, "RLIMIT_CORE"},
                                                        {RLIMIT_RSS, "RLIMIT_RSS"},
                                                        {RLIMIT_NPROC, "RLIMIT_NPROC"},
                                                        {RLIMIT_NOFILE, "RLIMIT_NOFILE"},
                                                        {RLIMIT_MEMLOCK, "RLIMIT_MEMLOCK"},
                                                        {RLIMIT_AS, "RLIMIT_AS"},
                                                        {RLIMIT_LOCKS, "RLIMIT_LOCKS"},
                                                        {RLIMIT_SIGPENDING, "RLIMIT_SIGPENDING"},
                                                        {RLIMIT_MSGQUEUE, "RLIMIT_MSGQUEUE"},
                                                        {RLIMIT_NICE, "RLIMIT_NICE"},
                                                        {RLIMIT_RTPRIO, "RLIMIT_RTPRIO"},
                                                        {RLIMIT_RTTIME, "RLIMIT_RTTIME"}}};

constexpr std::array kStreams{"standard input", "standard output", "standard error"};

// A process learns its umask by setting another. A thread that makes a file at that moment makes a private one.
mode_t current_umask() {
  const mode_t is = umask(S_IRWXG | S_IRWXO);
  umask(is);
  return is;
}

const char* current_locale() {
  const char* const name = std::setlocale(LC_ALL, nullptr);
  return name == nullptr ? "" : name;
}

void add_to(std::string& text, const std::string& more) { text += (text.empty() ? "changed the " : ", the ") + more; }

bool is_number(const char* name) { return std::isdigit(static_cast<unsigned char>(name[0])) != 0; }

std::int64_t entries_of(DIR* folder) {
  if (folder == nullptr) return 0;
  std::int64_t count = 0;
  rewinddir(folder);
  while (const dirent* entry = readdir(folder)) count += is_number(entry->d_name) ? 1 : 0;
  return count;
}

// The children of one thread, also those that have ended unwaited for. 0 where the kernel does not tell.
std::int64_t children_of(const char* thread) {
  const std::string path = std::string("/proc/self/task/") + thread + "/children";
  std::FILE* file = std::fopen(path.c_str(), "r");
  if (file == nullptr) return 0;
  std::int64_t count = 0;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) count += c == ' ' ? 1 : 0;
  std::fclose(file);
  return count;
}

// The bytes that malloc() has given out and not had back. 0 where the C library does not tell.
std::int64_t bytes_of_the_heap() {
#if defined(__GLIBC_PREREQ)
  #if __GLIBC_PREREQ(2, 33)
  const struct mallinfo2 heap = mallinfo2();
  return static_cast<std::int64_t>(heap.uordblks + heap.hblkhd);
  #endif
#endif
  return 0;
}

void look_at_memory(MemoryUse& use) {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return;
  static char buffer[256];  // no allocation of its own
  std::setvbuf(file, buffer, _IOFBF, sizeof(buffer));
  long long all = 0, resident = 0;
  if (std::fscanf(file, "%lld %lld", &all, &resident) == 2) {
    use.address_space = all * sysconf(_SC_PAGESIZE), use.resident = resident * sysconf(_SC_PAGESIZE);
  }
  std::fclose(file);
}

}  // namespace

ProcessState ProcessState::now() {
  ProcessState is;
  std::error_code gone;
  is.directory_ = std::filesystem::current_path(gone).string();
  struct stat here {};
  is.folder_ = File::of(stat(".", &here), here);
  is.streams_ = streams_now();
  is.umask_ = current_umask();
  is.locale_ = current_locale();
  for (std::size_t i = 0; i < kLimits.size(); ++i) getrlimit(kLimits[i].number, &is.limits_[i]);
  return is;
}

std::string ProcessState::undo_changes() const {
  std::string text;
  struct stat here {};
  if (stat(".", &here) == 0 && File::of(0, here) != folder_) {
    add_to(text, "working directory");
    if (!directory_.empty() && chdir(directory_.c_str()) != 0) text += " (there is no way back)";
  }
  if (current_umask() != umask_) {
    add_to(text, "umask");
    umask(umask_);
  }
  if (locale_ != current_locale() || uselocale(nullptr) != LC_GLOBAL_LOCALE) {
    add_to(text, "locale");
    std::setlocale(LC_ALL, locale_.c_str());
    uselocale(LC_GLOBAL_LOCALE);
  }
  for (std::size_t i = 0; i < kLimits.size(); ++i) {
    rlimit is{};
    getrlimit(kLimits[i].number, &is);
    if (is.rlim_cur == limits_[i].rlim_cur && is.rlim_max == limits_[i].rlim_max) continue;
    add_to(text, std::string("limit ") + kLimits[i].name);
    setrlimit(kLimits[i].number, &limits_[i]);
  }
  const std::array<File, 3> streams = streams_now();
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (streams[i] != streams_[i]) add_to(text, kStreams[i]);
  }
  return text;
}

std::array<ProcessState::File, 3> ProcessState::streams_now() {
  std::array<File, 3> streams;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    struct stat is {};
    streams[i] = File::of(fstat(static_cast<int>(i), &is), is);
  }
  return streams;
}

ResourceWatch::ResourceWatch() : files_(opendir("/proc/self/fd")), threads_(opendir("/proc/self/task")) {}

MemoryUse ResourceWatch::now() const {
  MemoryUse use;
  look_at_memory(use);
  use.heap = bytes_of_the_heap();
  use.files = entries_of(files_.get());
  use.threads = entries_of(threads_.get());
  if (threads_ == nullptr) return use;
  rewinddir(threads_.get());
  while (const dirent* entry = readdir(threads_.get())) {
    if (is_number(entry->d_name)) use.children += children_of(entry->d_name);
  }
  return use;
}

std::int64_t most_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<std::int32_t>::max()));
}

}  // namespace mxcheck
